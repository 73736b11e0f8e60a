"""Several records made one, with no store: rows in, rows out; nothing that they said or were told is lost (G-10)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core import clock
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, next_version
from knowhub.core.shingles import width_folded
from knowhub.knowledge import decisions
from knowhub.knowledge.model import HISTORY_SHOWN

MAX_MERGED_CHARS = 100_000
MAX_LISTED = 50
_FRESH_HELPFUL = 1

# A line, or a sentence of one. A full stop ends one only before white space: `v1.2` and `a.b.com` are no ends.
_END = re.compile(r"\n+|(?<=[.!?])[^\S\n]+|(?<=[。！？])[^\S\n]*")


def merged_rows(survivor: Row, sources: Sequence[Row], text: tuple[str, str] | None, now: float) -> list[Row]:
    """Return the survivor with all that the sources bring, and each source with `merged_into`, as they shall stand.

    `text` is the merged task and content; None for the survivor's own with what only a source says behind it. Owner,
    scopes, types and times stay the survivor's. Raises InvalidInput where the whole is more than a record may hold.
    """
    task, content = text or (survivor["task"], joined_content(survivor, sources))
    moment = clock.iso(now)
    kept = {
        **survivor,
        "task": task,
        "content": content,
        "tags": _joined_tags([survivor, *sources]),
        "resource_ids": _joined("resource_ids", (one["resource_ids"] for one in (survivor, *sources))),
        "source": {
            **survivor["source"],
            "urls": _joined("source.urls", (one["source"]["urls"] for one in (survivor, *sources))),
        },
        "eval": joined_evaluation(survivor["eval"], [one["eval"] for one in sources]),
        "version": next_version(survivor),
        "updated_at": moment,
    }
    decisions.check_says_something(task, content)
    if content != survivor["content"] and len(task) + len(content) > MAX_MERGED_CHARS:
        raise InvalidInput.of("content", f"would be more than {MAX_MERGED_CHARS} characters")
    gone = [
        {**one, "merged_into": survivor["id"], "version": next_version(one), "updated_at": moment} for one in sources
    ]
    return [kept, *gone]


def joined_content(survivor: Row, sources: Sequence[Row]) -> str:
    """Return the survivor's content, and below it each line or sentence of a source that stands nowhere above it.

    Only what differs in width or in outer white space stands above it: case and indentation mean something, as in
    `tar -c` and `tar -C`. An indented line means nothing alone: where one is new, the source's whole content is added.
    """
    known = set(map(width_folded, (*_pieces(survivor["task"]), *_pieces(survivor["content"]))))
    added: list[str] = []
    for source in sources:
        added += _unsaid(source["task"], known)
        content = _unsaid(source["content"], known)
        added += [source["content"].strip("\r\n")] if any(map(_is_indented, content)) else content
    # A record that has nothing new leaves the content as it is, to its last space.
    return "\n".join(filter(None, (survivor["content"], *added))) if added else str(survivor["content"])


def joined_evaluation(survivor: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the evidence on all of them: counters summed, cases in the order of their times, the best score.

    The helpful case with which every record begins counts once, and not again for each source.
    """
    helpful = survivor["helpful"] + sum(max(0, one["helpful"] - _FRESH_HELPFUL) for one in sources)
    joined = {
        **survivor,
        "score": max(one["score"] for one in (survivor, *sources)),
        "helpful": helpful,
        "harmful": sum(one["harmful"] for one in (survivor, *sources)),
        "helpful_history": _joined_history("helpful_history", (survivor, *sources)),
        "harmful_history": _joined_history("harmful_history", (survivor, *sources)),
    }
    if any("effective" in one for one in (survivor, *sources)):
        kept, *gone = (one.get("effective") or one for one in (survivor, *sources))
        joined["effective"] = {
            "helpful": kept["helpful"] + sum(max(0, one["helpful"] - _FRESH_HELPFUL) for one in gone),
            "harmful": kept["harmful"] + sum(one["harmful"] for one in gone),
        }
    return {**joined, "confidence": decisions.shifted_confidence(survivor, joined)}


def _pieces(text: str) -> list[str]:
    # The white space before a line is its indentation, and part of it.
    return [piece for piece in map(str.rstrip, _END.split(text.strip())) if piece]


def _unsaid(text: str, known: set[str]) -> list[str]:
    """Return the pieces that are not known yet, and note them as known."""
    unsaid: list[str] = []
    for piece in _pieces(text):
        said = width_folded(piece)
        if said not in known:
            known.add(said)
            unsaid.append(piece)
    return unsaid


def _is_indented(piece: str) -> bool:
    return piece[0].isspace()


def _joined_history(name: str, evaluations: Sequence[Mapping[str, Any]]) -> list[Any]:
    cases = [case for evaluation in evaluations for case in evaluation[name]]
    # What an import brought may have no time; it comes first.
    return sorted(cases, key=lambda case: case.get("timestamp") or "")[-HISTORY_SHOWN:]


def _joined(name: str, lists: Any) -> list[str]:  # noqa: ANN401 -- lists out of JSON
    joined = list(dict.fromkeys(value for values in lists for value in values))
    if len(joined) > MAX_LISTED:
        raise InvalidInput.of(name, f"would be more than {MAX_LISTED}")
    return joined


def _joined_tags(rows: Sequence[Row]) -> dict[str, Any]:
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row["tags"].items():
            values.setdefault(name, []).extend([value] if isinstance(value, str) else value)
    if len(values) > MAX_LISTED:
        raise InvalidInput.of("tags", f"would be more than {MAX_LISTED}")
    joined = {name: _joined(f"tags.{name}", [several]) for name, several in values.items()}
    own = rows[0]["tags"]
    # A tag that nobody adds to stays as it was written: text, or a list of one.
    return {
        name: own[name] if name in own and _as_list(own[name]) == several else _tag(several)
        for name, several in joined.items()
    }


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _tag(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
