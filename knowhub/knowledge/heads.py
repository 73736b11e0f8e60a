"""From a record's row to its head, and to the key by which duplicates are known."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from knowhub.core import scopes
from knowhub.core.clock import parse_iso
from knowhub.core.shingles import normalised_text
from knowhub.knowledge.model import Head

_KINDS_CACHED = 65_536


def head_of(row: Mapping[str, Any], ordinal: int, text_num: int, earlier: Head | None = None) -> Head:
    """Make the head of `row`. What only its text decides is taken from `earlier` while the text is the same."""
    tags = tag_facets(row["tags"])
    text = signature(row, tags)
    same_text = earlier is not None and earlier.signature == text
    evaluation = row["eval"]
    weight = evaluation.get("effective") or evaluation
    merged_into = None if row.get("deleted") else row.get("merged_into")
    kind = _kind(tuple(row["types"]), tuple(row["scopes"]), row["owner"], tags)
    return Head(
        id=row["id"],
        ordinal=earlier.ordinal if earlier else ordinal,
        text_num=earlier.text_num if same_text and earlier else text_num,
        signature=text,
        live=not row.get("deleted") and merged_into is None,
        version=row["version"],
        owner=row["owner"],
        scopes=kind[0],
        audience=kind[1],
        types=kind[2],
        facets=kind[3],
        duplicate_key=earlier.duplicate_key if same_text and earlier else duplicate_key(row),
        score=evaluation["score"],
        helpful=weight["helpful"],
        harmful=weight["harmful"],
        valid_from=_seconds(row["valid_from"]),
        valid_to=_seconds(row["valid_to"]),
        supersedes=row["supersedes"],
        merged_into=merged_into,
    )


def signature(row: Mapping[str, Any], tags: tuple[str, ...]) -> int:
    """Hash all that search and duplicates look at; compared within one process only."""
    return hash(
        (
            row["task"],
            row["content"],
            tuple(row["types"]),
            tuple(row["scopes"]),
            row["owner"],
            tags,
            bool(row.get("deleted")),
            row.get("merged_into"),
        )
    )


def duplicate_key(row: Mapping[str, Any]) -> bytes:
    """Hash owner, scopes, types and the normalised text: two records with one key say the same."""
    return _duplicate_key(row["owner"], tuple(row["scopes"]), tuple(row["types"]), row["task"], row["content"])


def facet(name: str, value: str) -> str:
    """Name one thing that a list can be filtered by, such as `type:tool` or `tag.domain:web`."""
    return f"{name}:{value}"


def tag_facets(tags: Mapping[str, str | Sequence[str]]) -> tuple[str, ...]:
    """Return one facet for each value of each tag."""
    return tuple(
        facet(f"tag.{name}", value)
        for name, values in tags.items()
        for value in ([values] if isinstance(values, str) else values)
    )


def audience_facets(audience: frozenset[str]) -> frozenset[str]:
    """Return the facets of which a record must have one to be seen by any of `audience`."""
    return frozenset(facet("sees", scope) for scope in audience)


# A save looks for its duplicate and is then kept under its key: one computation serves both.
@lru_cache(maxsize=64)
def _duplicate_key(owner: str, own_scopes: tuple[str, ...], types: tuple[str, ...], task: str, content: str) -> bytes:
    parts = [
        owner,
        "\x1e".join(sorted(set(own_scopes))),
        "\x1e".join(sorted(set(types))),
        normalised_text(task),
        normalised_text(content),
    ]
    return blake2b("\x1f".join(parts).encode(), digest_size=16).digest()


@lru_cache(maxsize=_KINDS_CACHED)
def _kind(
    types: tuple[str, ...], own_scopes: tuple[str, ...], owner: str, tags: tuple[str, ...]
) -> tuple[tuple[str, ...], frozenset[str], tuple[str, ...], frozenset[str]]:
    # Most records share their kind with many others: one set in memory serves them all.
    audience = scopes.audience(own_scopes, owner)
    facets = {
        *(facet("type", kind) for kind in types),
        # `user:owner` means its owner: whoever asks for that user's records gets these too.
        *(facet("scope", name) for scope in own_scopes for name in {scope, owner if scope == scopes.OWNER else scope}),
        facet("owner", owner),
        *tags,
        *audience_facets(audience),
    }
    return own_scopes, audience, types, frozenset(facets)


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else parse_iso(moment)
