"""The keyword tree in memory: tables and indexes, look-ups, and walks."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest
from typing import Any, Final

from knowhub.core import scopes
from knowhub.core.near_duplicates import digest, make_text_key
from knowhub.core.operation import Row, View, add_version, is_live
from knowhub.core.owned_rows import OwnedSummary, Scan
from knowhub.core.table_schema import DiskStorage, EdgeStorage, Index, TableSchema
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    ROOT_ID,
    InfoQuery,
    InfoSort,
    Link,
    Node,
    RelationType,
    make_facets,
)


@dataclass(frozen=True, slots=True)
class Info(OwnedSummary):
    """The summary of an info; its text is on disk.

    `text_key` is that of `near_duplicates.make_text_key`, `text_change` the number of the change that last wrote
    the row.
    """

    text_key: int
    text_change: int
    is_rewritten: bool

    @property
    def facets(self) -> frozenset[str]:
        """What a search filters by."""
        return make_facets(INFOS, self.audience)


def hash_keyword_text(row: Row) -> int:
    """Return a hash of everything that a search of keywords reads. It is valid within one process only."""
    names = row["name"], tuple(row["aliases"]), row["description"]
    return hash((names, row["owner"], tuple(row["scopes"]), is_live(row)))


def get_info_version(row: Row) -> int:
    """Return the version of a row: an info is indexed again whenever it is written."""
    return int(row["version"])


def summarize_keyword(row: Row, ordinal: int, change: int, earlier: Node | None) -> Node:
    """Return the summary of a keyword. It keeps the number of its text while that is the same."""
    owner, own_scopes, audience = scopes.intern_access(row["owner"], tuple(row["scopes"]))
    signature = hash_keyword_text(row)
    return Node(
        id=row["id"],
        ordinal=ordinal,
        name=row["name"],
        name_keys=tuple(row["normalized"]),
        pinyin=tuple(row["pinyin"]),
        terms=tuple(row["terms"]),
        parent_id=row["parent_id"],
        is_described=bool(row["description"]),
        owner=owner,
        scopes=own_scopes,
        audience=audience,
        version=row["version"],
        live=is_live(row),
        text_change=earlier.text_change if earlier is not None and earlier.signature == signature else change,
        signature=signature,
    )


def summarize_info(row: Row, ordinal: int, change: int, _earlier: Info | None) -> Info:
    """Return the summary of an info."""
    owner, _, audience = scopes.intern_access(row["owner"], tuple(row["scopes"]))
    key, is_rewritten = make_text_key(row["content"]), row["version"] > 1
    return Info(row["id"], ordinal, owner, audience, is_live(row), key, change, is_rewritten)


def summarize_link(row: Row, _ordinal: int, _change: int, _earlier: Link | None) -> Link:
    """Return the summary of a link."""
    return Link(row["info_id"], row["keyword_id"], RelationType(row["relation"]), is_live(row))


def _make_link(info_id: str, keyword_id: str, relation: str, live: bool) -> Link:  # noqa: FBT001 -- as `EdgeStorage` calls it
    return Link(info_id, keyword_id, _RELATIONS[relation], live)


def _split_link_id(row_id: str) -> tuple[str, str]:
    info_id, _, keyword_id = row_id.partition(":")
    return info_id, keyword_id


_RELATIONS: Final = {relation.value: relation for relation in RelationType}
BY_NAME: Final = Index[Node](KEYWORDS, "by_name", keys=lambda node: node.name_keys)
BY_PINYIN: Final = Index[Node](KEYWORDS, "by_pinyin", keys=lambda node: node.pinyin)
BY_TERM: Final = Index[Node](KEYWORDS, "by_term", keys=lambda node: node.terms)
BY_PARENT: Final = Index[Node](
    KEYWORDS,
    "by_parent",
    keys=lambda node: () if node.parent_id is None else (node.parent_id,),
    target=KEYWORDS,
)
BY_INFO: Final = Index[Link](LINKS, "by_info", keys=lambda link: (link.info_id,), target=INFOS)
BY_KEYWORD: Final = Index[Link](LINKS, "by_keyword", keys=lambda link: (link.keyword_id,), target=KEYWORDS)
BY_RELATION: Final = Index[Link](LINKS, "by_relation", keys=lambda link: ((link.keyword_id, link.relation.value),))

BY_CHANGE: Final = Index[Node](KEYWORDS, "by_change", keys=lambda node: (node.text_change,), of_deleted=True)
KEYWORD_TABLE: Final = TableSchema(
    KEYWORDS,
    summarize_keyword,
    indexes=(BY_NAME, BY_PINYIN, BY_TERM, BY_PARENT, BY_CHANGE),
    searched_value=hash_keyword_text,
)
BY_TEXT: Final = Index[Info](INFOS, "by_text", keys=lambda info: (info.text_key,))
INFO_TABLE: Final = TableSchema(
    INFOS,
    summarize_info,
    indexes=(BY_TEXT,),
    storage=DiskStorage(Info, make_text_key, BY_TEXT),
    searched_value=get_info_version,
)
SEARCHED_TEXTS: Final = (BY_CHANGE, BY_TEXT)
LINK_TABLE: Final = TableSchema(
    LINKS,
    summarize_link,
    indexes=(BY_INFO, BY_KEYWORD, BY_RELATION),
    storage=EdgeStorage(
        source=INFOS,
        source_field="info_id",
        target_field="keyword_id",
        label_field="relation",
        labels=tuple(_RELATIONS),
        ends=_split_link_id,
        summarize=_make_link,
        by_source=BY_INFO,
        by_target=BY_KEYWORD,
    ),
)


def find_keyword(view: View, keyword_id: str) -> Node | None:
    """Return a keyword, also a deleted one (`live` is False); None if the id was never used."""
    return view.summary(KEYWORD_TABLE, keyword_id)


def list_keywords(view: View) -> Iterator[Node]:
    """Yield every live keyword, oldest first."""
    return view.rows(KEYWORD_TABLE)


def find_by_term(view: View, term: str, limit: int) -> Sequence[Node]:
    """Return up to `limit` live keywords that have this word in their name or an alias, oldest first."""
    return list(islice(view.scan(BY_TERM, term), limit))


def list_children(view: View, keyword_id: str) -> Sequence[Node]:
    """Return the live children of a keyword, oldest first."""
    return view.lookup(BY_PARENT, keyword_id)


def find_info(view: View, info_id: str) -> Info | None:
    """Return the summary of an info, also of a deleted one; None if the id was never used."""
    return view.summary(INFO_TABLE, info_id)


def find_equal_info(view: View, row: Row) -> Info | None:
    """Return the oldest live info with the content, the owner and the scopes of a row; None if there is none."""
    wanted = digest(row["content"])
    for info in view.lookup(BY_TEXT, make_text_key(row["content"])):
        stored = view.get(INFOS, info.id) if info.owner == row["owner"] else None
        if stored is not None and set(stored["scopes"]) == set(row["scopes"]) and digest(stored["content"]) == wanted:
            return info
    return None


def list_infos_of_keyword(view: View, keyword_id: str, query: InfoQuery) -> Iterator[Info]:
    """Yield the infos of a keyword, of the query's relation and in its order, without paging or descendants."""
    relations = [query.relation] if query.relation is not None else list(RelationType)
    if query.relation is None and query.sort is not InfoSort.RELEVANCE:
        links = view.scan_desc(BY_KEYWORD, (keyword_id,))
    else:
        links = (
            link for relation in relations for link in view.scan_desc(BY_RELATION, ((keyword_id, relation.value),))
        )
    summaries = (view.summary(INFO_TABLE, link.info_id) for link in links)
    return (summary for summary in summaries if summary is not None)


def scan_infos_of_keyword(keyword_id: str, before: int | None) -> Scan[Info]:
    """Return a scan of the infos of a keyword with an ordinal below `before`, or of all, newest first."""

    def list_next(view: View, last: Info | None) -> Iterator[Info]:
        end = before if last is None else last.ordinal
        infos = list_infos_of_keyword(view, keyword_id, InfoQuery())
        return infos if end is None else (info for info in infos if info.ordinal < end)

    return Scan(INFO_TABLE, list_next)


ROOT_OWNER = "user:local"
"""The root belongs to the local principal, not to the caller who writes first."""


def get_live_node(view: View, keyword_id: str) -> Node | None:
    """Return a keyword that is not deleted; the root always exists."""
    node = find_keyword(view, keyword_id)
    if node is not None and node.live:
        return node
    return ROOT_NODE if keyword_id == ROOT_ID else None


def get_path(view: View, keyword_id: str) -> list[Node]:
    """Return the nodes from the root to a keyword, both included; empty if the keyword does not exist.

    A keyword whose parent does not exist begins its own path. No verb makes such a keyword.
    """
    upwards: dict[str, Node] = {}
    node = get_live_node(view, keyword_id)
    while node is not None and node.id not in upwards:
        upwards[node.id] = node
        node = get_live_node(view, node.parent_id) if node.parent_id is not None else None
    return list(reversed(upwards.values()))


def walk(view: View, keyword_ids: Sequence[str], max_walked: float = math.inf) -> Iterator[tuple[int, Node]]:
    """Yield the live descendants of keywords with their level below them, breadth first, taking turns between them.

    It ends after the level on which more than `max_walked` were walked.
    """
    walked, level = {ROOT_ID}, 0
    # A wide keyword must not come alone.
    turns = zip_longest(*(list_children(view, keyword_id) for keyword_id in keyword_ids))
    below: Iterable[Node] = (node for turn in turns for node in turn if node is not None)
    while len(walked) <= max_walked:
        level += 1
        passed: list[Node] = []
        for node in below:
            if node.id not in walked:
                walked.add(node.id)
                passed.append(node)
                yield level, node
        if not passed:
            return
        below = (child for node in passed for child in list_children(view, node.id))


def is_within(view: View, keyword_id: str, above_id: str) -> bool:
    """Return whether a keyword is `above_id` itself or a descendant of it."""
    return any(node.id == above_id for node in get_path(view, keyword_id))


def lowest_common_ancestor(view: View, keyword_ids: Sequence[str]) -> str:
    """Return the deepest keyword on the paths of all of these."""
    paths = ([node.id for node in get_path(view, keyword_id)] for keyword_id in keyword_ids)
    shared = [ids[0] for ids in takewhile(lambda ids: len(set(ids)) == 1, zip(*paths, strict=False))]
    return shared[-1] if shared else ROOT_ID


def make_root_row(now: float | None = None) -> dict[str, Any]:
    """Return the row of an unchanged root. Reads show it as long as no write has created it."""
    fields: dict[str, Any] = {
        "id": ROOT_ID,
        "name": ROOT_ID,
        "aliases": [],
        "normalized": [],
        "pinyin": [],
        "terms": [],
        "parent_id": None,
        "description": "",
        "metadata": {},
        "scopes": [scopes.PUBLIC],
        "owner": ROOT_OWNER,
    }
    return add_version(fields, None, 0.0 if now is None else now)


ROOT_NODE = summarize_keyword(make_root_row(), -1, 0, None)
