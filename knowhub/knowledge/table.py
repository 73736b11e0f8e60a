"""The summaries of records in memory: how they are made, indexed, listed and found."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from sys import maxsize
from typing import Any, Final, NamedTuple, TypeAlias

from knowhub.core import scopes
from knowhub.core.clock import parse_iso
from knowhub.core.near_duplicates import normalize_compared
from knowhub.core.operation import View
from knowhub.core.recall import tag_facets
from knowhub.core.request_context import RequestContext
from knowhub.core.table_schema import Index, TableSchema
from knowhub.knowledge.evidence import weigh_votes
from knowhub.knowledge.model import KNOWLEDGE, NO_RUNS, RECORD_FIELDS, KnowledgeSummary, ListQuery, UnattributedRuns

FACETS: Final = {item.name: item.facet for item in RECORD_FIELDS if item.facet is not None}
"""The fields that search and lists filter by, with the names of their facets."""
_DEFAULTS: Final = {item.name: item.blank for item in RECORD_FIELDS if item.is_added}
_SHARED_FIELDS_CACHED = 65_536
_get_facet_fields = itemgetter(*FACETS)

FacetValues: TypeAlias = "tuple[str | tuple[str, ...] | None, ...]"
"""The value of each field in `FACETS`; tags as facets already."""


def summarize(
    row: Mapping[str, Any], ordinal: int, text_change: int, earlier: KnowledgeSummary | None = None
) -> KnowledgeSummary:
    """Return the summary of `row`. It reuses parts of `earlier` if the text is the same."""
    values = _read_facet_values(row)
    signature = _hash_searched(row, values)
    same_text = earlier is not None and earlier.signature == signature
    evaluation = row["eval"]
    runs = evaluation.get("weak")
    merged_into = None if row.get("deleted") else row.get("merged_into")
    shared = _share_fields(values)
    return KnowledgeSummary(
        id=row["id"],
        ordinal=earlier.ordinal if earlier else ordinal,
        text_change=earlier.text_change if same_text and earlier else text_change,
        signature=signature,
        live=not row.get("deleted") and merged_into is None,
        version=row["version"],
        owner=row["owner"],
        scopes=shared.scopes,
        audience=shared.audience,
        types=shared.types,
        facets=shared.facets,
        dedup_key=earlier.dedup_key if same_text and earlier else make_dedup_key(row),
        score=evaluation["score"],
        helpful=evaluation["helpful"],
        harmful=evaluation["harmful"],
        created_at=parse_iso(row["created_at"]),
        valid_from=parse_iso(row["valid_from"]) if row["valid_from"] else None,
        valid_to=parse_iso(row["valid_to"]) if row["valid_to"] else None,
        supersedes=row["supersedes"],
        merged_into=merged_into,
        votes=weigh_votes(evaluation),
        unattributed_runs=UnattributedRuns(runs["success"], runs["failure"]) if runs else NO_RUNS,
        has_pending_feedback="kept_words" in evaluation,
    )


def get_searched_value(row: Mapping[str, Any]) -> int:
    """Return a hash of everything that search and the duplicate check read. It is valid within one process only."""
    return _hash_searched(row, _read_facet_values(row))


def make_dedup_key(row: Mapping[str, Any]) -> bytes:
    """Return a hash of owner, scopes, types and normalised text. Records with the same key are duplicates."""
    return _hash_duplicate(row["owner"], tuple(row["scopes"]), tuple(row["types"]), row["task"], row["content"])


def facet(name: str, value: str) -> str:
    """Return a filter value, such as `type:tool` or `tag.domain:web`."""
    return f"{name}:{value}"


def make_filters(values: Mapping[str, Collection[str]]) -> list[frozenset[str]]:
    """Return a filter for each field of `FACETS` that has values: a record must have one of them."""
    return [
        frozenset(facet(FACETS[name], value) for value in accepted) for name, accepted in values.items() if accepted
    ]


def limit_to_visible(filters: Sequence[frozenset[str]], ctx: RequestContext) -> list[frozenset[str]]:
    """Return the filters, with a first one for what the caller sees, unless the caller sees everything."""
    return list(filters) if ctx.visible is None else [scopes.visibility_facets(ctx.visible), *filters]


# A save computes the key twice: for the duplicate check and for the index.
@lru_cache(maxsize=64)
def _hash_duplicate(owner: str, own_scopes: tuple[str, ...], types: tuple[str, ...], task: str, content: str) -> bytes:
    kind = "\x1f".join([owner, "\x1e".join(sorted(set(own_scopes))), "\x1e".join(sorted(set(types)))])
    task, content = normalize_compared(task), normalize_compared(content)
    # The length of the task tells it from the content: no separator would do, as texts may hold any character.
    text = f"{kind}\x1f{len(task)}\x1f{task}{content}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _SharedFields(NamedTuple):
    """What many records have in common: one object for all of them saves memory."""

    scopes: tuple[str, ...]
    audience: frozenset[str]
    types: tuple[str, ...]
    facets: frozenset[str]


@lru_cache(maxsize=_SHARED_FIELDS_CACHED)
def _share_fields(values: FacetValues) -> _SharedFields:
    named: dict[str, Any] = dict(zip(FACETS, values, strict=True))
    own_scopes, owner = named["scopes"], named["owner"]
    audience = scopes.audience(own_scopes, owner)
    facets = {*named.pop("tags"), *scopes.visibility_facets(audience)}
    for name, value in named.items():
        facets.update(facet(FACETS[name], item) for item in ((value,) if isinstance(value, str) else value or ()))
    if scopes.OWNER in own_scopes:
        # `user:owner` means the owner, so a filter for that user finds these records, too.
        facets.add(facet("scope", owner))
    return _SharedFields(own_scopes, audience, named["types"], frozenset(facets))


def _read_facet_values(row: Mapping[str, Any]) -> FacetValues:
    try:
        values = _get_facet_fields(row)
    except KeyError:
        values = _get_facet_fields({**_DEFAULTS, **row})
    # A list comprehension, as every save and every row that is loaded runs through it.
    return tuple(
        [
            tuple(value) if isinstance(value, list) else tag_facets(value) if isinstance(value, dict) else value
            for value in values
        ]
    )


def _hash_searched(row: Mapping[str, Any], values: FacetValues) -> int:
    return hash((row["task"], row["content"], values, bool(row.get("deleted")), row.get("merged_into")))


BY_TEXT: Final = Index[KnowledgeSummary](
    KNOWLEDGE, "by_text", keys=lambda summary: (summary.text_change,), of_deleted=True
)
BY_DEDUP_KEY: Final = Index[KnowledgeSummary](KNOWLEDGE, "by_duplicate_key", keys=lambda summary: (summary.dedup_key,))
BY_SUPERSEDED: Final = Index[KnowledgeSummary](
    KNOWLEDGE,
    "by_superseded",
    keys=lambda summary: () if summary.supersedes is None else (summary.supersedes,),
    target=KNOWLEDGE,
)
BY_FACET: Final = Index[KnowledgeSummary](KNOWLEDGE, "by_facet", keys=lambda summary: summary.facets, of_deleted=True)
BY_PENDING_FEEDBACK: Final = Index[KnowledgeSummary](
    KNOWLEDGE, "by_pending_feedback", keys=lambda summary: (True,) if summary.has_pending_feedback else ()
)
KNOWLEDGE_TABLE: Final = TableSchema(
    KNOWLEDGE,
    summarize,
    indexes=(BY_TEXT, BY_DEDUP_KEY, BY_SUPERSEDED, BY_FACET, BY_PENDING_FEEDBACK),
    searched_value=get_searched_value,
    defaults=_DEFAULTS,
)
SEARCHED_TEXTS: Final = (BY_TEXT,)


def find_record(view: View, knowledge_id: str) -> KnowledgeSummary | None:
    """Return the summary of a record, even if it is deleted."""
    return view.summary(KNOWLEDGE_TABLE, knowledge_id)


def list_live_records(view: View) -> Iterator[KnowledgeSummary]:
    """Yield the summaries of all live records, oldest first."""
    return view.rows(KNOWLEDGE_TABLE)


def find_by_dedup_key(view: View, dedup_key: bytes) -> Sequence[KnowledgeSummary]:
    """Return the live records with this key, oldest first."""
    return view.lookup(BY_DEDUP_KEY, dedup_key)


def list_with_pending_feedback(view: View) -> Sequence[KnowledgeSummary]:
    """Return the live records with feedback in words that no model has used, oldest first."""
    return view.lookup(BY_PENDING_FEEDBACK, True)  # noqa: FBT003 -- a key of the index


def find_replacements(view: View, knowledge_id: str) -> Sequence[KnowledgeSummary]:
    """Return the live records that supersede a record."""
    return view.lookup(BY_SUPERSEDED, knowledge_id)


def list_records(view: View, query: ListQuery) -> list[KnowledgeSummary]:
    """Return up to `limit` summaries below the ordinal `before` that pass every filter, newest first."""
    return list_next_records(view, query, maxsize)[0]


def list_next_records(view: View, query: ListQuery, max_read: int) -> tuple[list[KnowledgeSummary], int | None]:
    """Return the same among the first `max_read` summaries, and the ordinal below which there may be more."""
    found: list[KnowledgeSummary] = []
    for count, summary in enumerate(_iter_newest(view, query), start=1):
        if matches(summary, query):
            found.append(summary)
            if len(found) == query.limit:
                break
        if count == max_read:
            return found, summary.ordinal
    return found, None


def _iter_newest(view: View, query: ListQuery) -> Iterator[KnowledgeSummary]:
    if not query.filters:
        return view.newest(KNOWLEDGE_TABLE, query.before, of_deleted=True)
    # Only the records of the rarest filter are read.
    rarest = min(query.filters, key=lambda group: sum(view.count(BY_FACET, name) for name in group))
    return view.scan_desc(BY_FACET, rarest, query.before)


def matches(summary: KnowledgeSummary, query: ListQuery) -> bool:
    """Return whether a record passes every filter of a query."""
    # A merged record is neither live nor deleted.
    is_merged = summary.merged_into is not None
    is_wanted = is_merged if query.is_merged else not (summary.live or is_merged) if query.is_deleted else summary.live
    return (
        is_wanted
        and query.created.contains(summary.created_at)
        and all(not group.isdisjoint(summary.facets) for group in query.filters)
    )
