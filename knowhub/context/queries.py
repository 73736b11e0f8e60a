"""How nodes and the messages of sessions are held in memory, and how they are found there."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Any, Final
from urllib.parse import unquote

from knowhub.context import texts, uri
from knowhub.context.model import CALLS, HISTORY, NODES, PARTS, READING, STATEMENTS, ContextSummary, MemoryCategory
from knowhub.core import scopes
from knowhub.core.clock import parse_iso
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, View, is_live
from knowhub.core.recall import tag_facets
from knowhub.core.request_context import RequestContext
from knowhub.core.table_schema import Index, TableSchema, Totals
from knowhub.core.unicode_forms import shorten

_KINDS_CACHED = 65_536
_MAX_SOURCES = 32
_GATHERED = frozenset({MemoryCategory.PREFERENCES, MemoryCategory.ENTITIES, MemoryCategory.PATTERNS})


def summarize_row(
    collection: str, row: Row, _ordinal: int, text_change: int, earlier: ContextSummary | None = None
) -> ContextSummary:
    """Return the summary of a row; `text_change` stays that of `earlier` while nothing that is searched has changed."""
    is_part = collection == PARTS
    address = str(row["id"])
    parent = uri.parent_of(address)
    category = MemoryCategory.SESSIONS if is_part else MemoryCategory(row["category"])
    audience, facets = _get_audience_and_facets(parent, category, str(row["owner"]), tuple(row["scopes"]))
    occurred_at = texts.get_time(collection, row)
    name = texts.find_speaker(row) if is_part else _get_name(category, row)
    signature = hash((texts.get_indexed_text(collection, row), occurred_at))
    abstract = shorten(texts.format_message(row) if is_part else str(row["abstract"]), texts.MAX_SHOWN_CHARS)
    # Old lines hold a stub of an erased row, not deleted yet and without content.
    live = is_live(row) and not is_erased(row)
    is_same = earlier is not None and earlier.live == live and earlier.signature == signature
    return ContextSummary(
        uri=address,
        parent_uri=parent,
        category=category,
        owner_space=_get_space(address),
        owner=str(row["owner"]),
        audience=audience,
        facets=facets | {make_facet("under", address), *tag_facets(row.get("tags") or {})},
        live=live,
        version=int(row["version"]),
        text_change=earlier.text_change if earlier is not None and is_same else text_change,
        signature=signature,
        number=int(row["number"]) if is_part else 0,
        name=name,
        abstract=abstract,
        occurred_at=occurred_at,
        utc_offset_s=texts.get_utc_offset_s(collection, row),
        updated_at=parse_iso(str(row["updated_at"])),
        message_id=row["message_id"] if is_part else None,
        has_overview=is_part or bool(row["overview"]),
        has_content=is_part or category is MemoryCategory.SESSIONS or bool(row["content"]),
        role=str(row["role"]) if is_part else "",
        calls=tuple(row.get(CALLS, ())) if is_part else (),
        **_summarize_metadata(row["metadata"] if not is_part else {}),
    )


def _summarize_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    reading = metadata.get(READING) or {}
    current = [source for item in metadata.get(STATEMENTS, ()) for source in item["source_refs"]]
    ended = [source for item in metadata.get(HISTORY, ()) for source in item["source_refs"]]
    sources = dict.fromkeys((*current, *metadata.get("source_refs", ())))
    return {
        "sources": tuple(islice(sources, _MAX_SOURCES)),
        "outdated": tuple(islice((item for item in dict.fromkeys(ended) if item not in current), _MAX_SOURCES)),
        "unread": sum(end - start for start, end in reading.get("waiting", ())),
        "waits_since": reading.get("since") or 0.0,
        "is_read_by_model": bool(reading.get("by_model")),
    }


def make_facet(name: str, value: str) -> str:
    """Return a facet, by which a search can be filtered: `category:events`, `under:ctx://…`."""
    return f"{name}:{value}"


@lru_cache(maxsize=_KINDS_CACHED)
def _get_audience_and_facets(
    parent: str, category: MemoryCategory, owner: str, own_scopes: tuple[str, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    audience = scopes.audience(own_scopes, owner)
    above = [*uri.list_ancestors(parent), parent]
    facets = {
        make_facet("category", category.value),
        *scopes.visibility_facets(audience),
        *(make_facet("under", item) for item in above),
    }
    return audience, frozenset(facets)


def _get_name(category: MemoryCategory, row: Row) -> str:
    """Return the name of a node: the end of its URI, or its routing key where the URI has only a hash of that."""
    key = row["metadata"].get("routing_key") if category in _GATHERED else None
    return uri.make_slug(str(key)) if key else str(row["id"]).rpartition("/")[2]


def _get_space(address: str) -> str:
    return "/".join(address.removeprefix(uri.SCHEME).split("/")[1:3])


def _sort_key(summary: ContextSummary) -> tuple[int, str]:
    return summary.number, summary.uri


def _parent_folders(summary: ContextSummary) -> Iterable[tuple[Hashable, Hashable, int]]:
    path = [*uri.list_ancestors(summary.parent_uri), summary.parent_uri]
    return [(above, folder, 1) for above, folder in pairwise(path)]


NODES_BY_TEXT: Final = Index[ContextSummary](
    NODES, "by_text", keys=lambda summary: (summary.text_change,), of_deleted=True
)
NODES_BY_PARENT: Final = Index[ContextSummary](
    NODES, "by_parent", keys=lambda summary: (summary.parent_uri,), order=_sort_key
)
# Memories by the messages that they come from, and by those that said what holds no more.
NODES_BY_SOURCE: Final = Index[ContextSummary](
    NODES, "by_source", keys=lambda summary: {*summary.sources, *summary.outdated} if not summary.is_part else ()
)
# Sessions that a model has not read to their end.
NODES_TO_READ: Final = Index[ContextSummary](
    NODES,
    "to_read",
    keys=lambda summary: ("unread",) if summary.unread else (),
    order=lambda summary: (summary.waits_since, summary.uri),
)
FOLDERS: Final = Totals[ContextSummary](NODES, "folders", amounts=_parent_folders)
NODE_TABLE: Final = TableSchema(
    NODES,
    partial(summarize_row, NODES),
    indexes=(NODES_BY_TEXT, NODES_BY_PARENT, NODES_BY_SOURCE, NODES_TO_READ),
    totals=(FOLDERS,),
    searched_value=texts.get_indexed_node,
)

PARTS_BY_TEXT: Final = Index[ContextSummary](
    PARTS, "by_text", keys=lambda summary: (summary.text_change,), of_deleted=True
)
PARTS_BY_SESSION: Final = Index[ContextSummary](
    PARTS, "by_session", keys=lambda summary: (summary.parent_uri,), order=_sort_key, target=NODES
)
PART_TABLE: Final = TableSchema(
    PARTS,
    partial(summarize_row, PARTS),
    indexes=(PARTS_BY_TEXT, PARTS_BY_SESSION),
    searched_value=texts.get_indexed_part,
)
SEARCHED_TEXTS: Final = (NODES_BY_TEXT, PARTS_BY_TEXT)


def find_memory(view: View, address: str) -> ContextSummary | None:
    """Return the summary of a node or a part, of a deleted one too; None if the URI was never used."""
    return view.summary(NODE_TABLE, address) or view.summary(PART_TABLE, address)


def find_visible(view: View, ctx: RequestContext, address: str) -> ContextSummary | None:
    """Return the summary of a live node or part that the caller sees."""
    summary = find_memory(view, address)
    return summary if summary is not None and summary.live and ctx.sees(summary.audience) else None


def find_profile(view: View, ctx: RequestContext) -> ContextSummary | None:
    """Return the live profile of the caller. Raises InvalidInput for a caller without a user and an agent."""
    space = uri.space_of(uri.memory_context(ctx), "user")
    return find_visible(view, ctx, uri.node_uri(ctx.account, space, MemoryCategory.PROFILE))


def list_memories(view: View) -> Iterator[ContextSummary]:
    """Yield the summary of every live node, and then of every live part, in the order of their creation."""
    yield from view.rows(NODE_TABLE)
    yield from view.rows(PART_TABLE)


def list_parts(view: View, session_uri: str) -> Sequence[ContextSummary]:
    """Return the live parts of a session, in the order in which they were said."""
    return view.lookup(PARTS_BY_SESSION, session_uri)


def list_memories_in(view: View, parent_uri: str) -> Sequence[ContextSummary]:
    """Return the live nodes and parts directly below a URI: nodes by their URIs, parts as they were said."""
    nodes, parts = view.lookup(NODES_BY_PARENT, parent_uri), view.lookup(PARTS_BY_SESSION, parent_uri)
    return sorted([*nodes, *parts], key=_sort_key) if nodes and parts else nodes or parts


def list_sessions_to_read(view: View) -> Sequence[ContextSummary]:
    """Return the live sessions that wait for a model; the longest wait comes first."""
    return view.lookup(NODES_TO_READ, "unread")


def list_memories_from(view: View, address: str) -> Sequence[ContextSummary]:
    """Return the live memories that come from a message, in their current or former statements."""
    return view.lookup(NODES_BY_SOURCE, address)


def get_message_id(part: ContextSummary) -> str:
    """Return the id of a message, or how its URI names it where it was sent without one."""
    return part.message_id or unquote(part.uri.rpartition("/")[2])


def list_neighbours(view: View, address: str, reach: int) -> Sequence[ContextSummary]:
    """Return the live rows around a node or a part: at most `reach` before it and after it, in order, without it."""
    summary = find_memory(view, address)
    if summary is None:
        return []
    index = PARTS_BY_SESSION if summary.is_part else NODES_BY_PARENT
    before = list(islice(view.scan_desc(index, (summary.parent_uri,), _sort_key(summary)), reach))
    after = (other for other in view.scan(index, summary.parent_uri, _sort_key(summary)) if other.uri != address)
    return [*reversed(before), *islice(after, reach)]


def list_folders(view: View, parent_uri: str) -> Sequence[str]:
    """Return the URIs directly below a URI that have live nodes below them, in order."""
    return sorted(str(folder) for folder in view.totals(FOLDERS, parent_uri))
