"""Edits of the tree: move, merge and delete. Pure functions: rows in, the writes of one operation out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Draft, Row, View, Write, is_live, make_tombstone, next_of, next_version
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules, keyword_rules, rendering, tree
from knowhub.keywords.model import LINKS, RELATION_RANKS, ROOT_ID, InfoPolicy, Link, Node, make_link_id
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.tree import BY_KEYWORD, find_info, list_children

MAX_NAMED = 20


def move_keyword(
    view: View, ctx: RequestContext, keyword_id: str, new_parent_id: str, expected: int | None = None
) -> Row | None:
    """Return the row of a keyword with another parent, or None if it has this parent already.

    Only this row is written: levels and paths are computed. Raises the errors of `get_editable_row`, InvalidInput
    for an unknown parent, and Conflict for the root and for a parent below the keyword itself.
    """
    check_not_root(keyword_id, "moved")
    row = get_editable_row(view, ctx, keyword_id, expected)
    if rendering.get_visible_node(view, ctx, new_parent_id) is None:
        raise InvalidInput.of("new_parent_id", f"no keyword with id {new_parent_id!r}")
    if tree.is_within(view, new_parent_id, keyword_id):
        detail = f"{new_parent_id!r} is the keyword itself or hangs below it; move that out of it first"
        raise Conflict(detail, {"ids": [new_parent_id]})
    return None if row["parent_id"] == new_parent_id else _move(view, row["id"], new_parent_id)


def merge_keywords(
    view: View,
    ctx: RequestContext,
    source_id: str,
    into_id: str,
    text: KeywordText,
    expected: int | None = None,
) -> Draft:
    """Give the names, links and children of a source keyword to a target keyword, and delete the source last.

    Links that the target has already stay as they are. Children move, hidden ones too. The target is always written,
    so that the operation has the row of the answer. `expected` is the version of the source. Raises the errors of
    `get_editable_row`, InvalidInput for an unknown target, Conflict for the root, for a target that is the source or
    below it, and where names or metadata exceed a limit, Forbidden for a visible child of somebody else.
    """
    check_not_root(source_id, "merged into another")
    check_not_root(into_id, "what another keyword is merged into")
    source = get_editable_row(view, ctx, source_id, expected)
    if rendering.get_visible_node(view, ctx, into_id) is None:
        raise InvalidInput.of("into", f"no keyword with id {into_id!r}")
    into = get_editable_row(view, ctx, into_id)
    if tree.is_within(view, into_id, source_id):
        detail = f"{into_id!r} is the keyword itself or hangs below it; merge the other way round, or move it first"
        raise Conflict(detail, {"ids": [into_id]})
    children = list_children(view, source_id)
    _check_permissions(
        ctx, rendering.list_visible_children(view, ctx, source_id), "a merge moves what hangs below the keyword"
    )
    richer = keyword_rules.merge_rows(into, source, text, view.now) or next_of(into, into, view.now)
    links, counts = _move_links(view, ctx, view.lookup(BY_KEYWORD, source_id), into_id)
    rehomed = [_move(view, child.id, into_id) for child in children]
    writes = [
        keyword_rules.write_keyword(richer),
        *links,
        *map(keyword_rules.write_keyword, rehomed),
        keyword_rules.write_keyword(make_tombstone(source, view.now)),
    ]
    children_seen = [child.id for child in rendering.list_visible_children(view, ctx, source_id)]
    reply = {"source": source_id, "into": into_id, "links": counts, "children": children_seen}
    return Draft("merge_keywords", writes, reply=reply)


def delete_subtree(
    view: View,
    ctx: RequestContext,
    keyword_id: str,
    policy: InfoPolicy,
    *,
    cascade: bool = False,
    expected: int | None = None,
) -> Draft:
    """Delete a keyword; with `cascade` also its descendants.

    REATTACH links the infos to the parent, DETACH unlinks them, FORBID refuses if there are any. Hidden keywords
    and hidden infos always move to the parent. Raises the errors of `get_editable_row`, Conflict for the root, for
    children without `cascade` and for forbidden infos, Forbidden for somebody else's keywords.
    """
    check_not_root(keyword_id, "deleted")
    get_editable_row(view, ctx, keyword_id, expected)
    deleted, left = _list_affected(view, ctx, keyword_id)
    if len(deleted) > 1 and not cascade:
        children = rendering.list_visible_children(view, ctx, keyword_id)
        raise Conflict(
            "other keywords hang below this one; move them, or delete them too with cascade=true",
            {"children": len(children), "ids": [child.id for child in children[:MAX_NAMED]]},
        )
    _check_permissions(ctx, deleted, "a delete needs the right to each keyword")
    links = [link for node in deleted for link in view.lookup(BY_KEYWORD, node.id)]
    seen_infos = _list_visible_infos(view, ctx, links)
    if seen_infos and policy is InfoPolicy.FORBID:
        raise Conflict(
            "infos are linked to what would be deleted; unlink them, or choose reattach or detach",
            {"ids": seen_infos[:MAX_NAMED]},
        )
    above = (tree.get_path(view, keyword_id)[-2:-1] or [tree.ROOT_NODE])[0].id
    relinked, counts = _move_links(view, ctx, links, None if policy is InfoPolicy.DETACH else above)
    rehomed = [_move(view, node.id, above) for node in left]
    # The deepest first: undo goes backwards, and restores a parent before its children.
    tombstones = [make_tombstone(rendering.get_keyword_row(view, node.id), view.now) for node in reversed(deleted)]
    new_keyword_id = above if policy is InfoPolicy.REATTACH else None
    reply = {"keywords": [node.id for node in deleted], "links": counts, "reattached_to": new_keyword_id}
    writes = [*relinked, *map(keyword_rules.write_keyword, [*rehomed, *tombstones])]
    return Draft("delete_keyword", writes, reply=reply)


def get_editable_row(view: View, ctx: RequestContext, keyword_id: str, expected: int | None = None) -> Row:
    """Return the row of a keyword that the caller may change.

    Raises NotFound, Forbidden, and VersionConflict if the caller read another version.
    """
    node = rendering.require_node(view, ctx, keyword_id)
    if not ctx.can_edit(node.owner):
        raise Forbidden(f"only the owner of keyword {keyword_id!r} may change it", {"ids": [keyword_id]})
    if expected is not None and expected != node.version:
        raise VersionConflict(node.version)
    return rendering.get_keyword_row(view, keyword_id)


def check_not_root(keyword_id: str, what: str) -> None:
    """Raise Conflict for the root; `what` is the refused action, such as "moved"."""
    if keyword_id == ROOT_ID:
        raise Conflict(f"the root cannot be {what}", {"ids": [ROOT_ID]})


def check_aliases_free(
    view: View, ctx: RequestContext, text: KeywordText, aliases: Mapping[str, Sequence[str]], own_id: str
) -> None:
    """Raise Conflict if an alias is the name of another visible keyword; `aliases` maps each to its normal forms."""
    for alias, name_keys in aliases.items():
        for node in rendering.find_by_name_keys(view, ctx, name_keys):
            if node.id != own_id and not set(name_keys).isdisjoint(text.name_keys(node.name)):
                detail = f"{alias!r} is the name of keyword {node.id!r}; merge the two, or choose another alias"
                raise Conflict(detail, {"alias": alias, "ids": [node.id]})


def iter_twins(
    view: View, ctx: RequestContext, text: KeywordText, name_keys: Sequence[str], parent_id: str
) -> Iterator[Node]:
    """Yield the visible keywords under this parent whose name has one of these normal forms, oldest first."""
    for node in rendering.find_by_name_keys(view, ctx, name_keys):
        if node.parent_id == parent_id and not set(name_keys).isdisjoint(text.name_keys(node.name)):
            yield node


def check_no_twin(view: View, ctx: RequestContext, text: KeywordText, row: Row) -> None:
    """Raise Conflict if the parent of a row has another visible keyword of its name."""
    twins = iter_twins(view, ctx, text, text.name_keys(row["name"]), row["parent_id"])
    twin = next((twin for twin in twins if twin.id != row["id"]), None)
    if twin is not None:
        detail = f"{row['name']!r} is there already, as {twin.id!r} under the same parent"
        raise Conflict(f"{detail}; use it, or send allow_duplicate", {"ids": [twin.id]})


def _list_affected(view: View, ctx: RequestContext, keyword_id: str) -> tuple[list[Node], list[Node]]:
    """Return a keyword with its visible descendants, level by level, and the hidden children of these."""
    found, unseen = {keyword_id: rendering.require_node(view, ctx, keyword_id)}, dict[str, Node]()
    waiting = [keyword_id]
    for above in waiting:
        for child in list_children(view, above):
            if not ctx.sees(child.audience):
                unseen[child.id] = child
            elif child.id not in found:
                found[child.id] = child
                waiting.append(child.id)
    return list(found.values()), list(unseen.values())


def _move_links(
    view: View, ctx: RequestContext, links: Sequence[Link], new_keyword_id: str | None
) -> tuple[list[Write], dict[str, int]]:
    """Delete links, and link the same infos to `new_keyword_id` instead, each once and with its strongest relation.

    The counts are of visible infos only.
    """
    seen = frozenset(_list_visible_infos(view, ctx, links))
    writes: list[Write] = []
    linked: set[str] = set()
    counts = {"moved": 0, "dropped": 0}
    for link in sorted(links, key=lambda item: RELATION_RANKS[item.relation]):
        row = view.get(LINKS, make_link_id(link.info_id, link.keyword_id))
        if row is None:
            raise NotFound.of("link", make_link_id(link.info_id, link.keyword_id))
        writes.append(info_rules.write_link(make_tombstone(row, view.now)))
        before = view.get(LINKS, make_link_id(link.info_id, new_keyword_id)) if new_keyword_id is not None else None
        if new_keyword_id is None or is_live(before) or link.info_id in linked:
            counts["dropped"] += link.info_id in seen
            continue
        linked.add(link.info_id)
        counts["moved"] += link.info_id in seen
        fresh = info_rules.make_link_row(
            link.info_id, new_keyword_id, link.relation, row["created_by"], before, view.now
        )
        writes.append(info_rules.write_link(fresh))
    return writes, counts


def _check_permissions(ctx: RequestContext, nodes: Sequence[Node], what: str) -> None:
    ids = [node.id for node in nodes if not ctx.can_edit(node.owner)][:MAX_NAMED]
    if ids:
        raise Forbidden(f"{what}: not all of them are the caller's", {"ids": ids})


def _list_visible_infos(view: View, ctx: RequestContext, links: Iterable[Link]) -> list[str]:
    summaries = [find_info(view, info_id) for info_id in dict.fromkeys(link.info_id for link in links)]
    return [summary.id for summary in summaries if summary is not None and ctx.sees(summary.audience)]


def _move(view: View, keyword_id: str, parent_id: str) -> Row:
    row = rendering.get_keyword_row(view, keyword_id)
    return next_of({**row, "parent_id": parent_id}, row, view.now)


_BOOKKEEPING = ("version", "updated_at")


class PendingRows:
    """Pending changes over a view; `view` shows them. Each row is written once, so its version rises once."""

    def __init__(self, below: View) -> None:
        self.view = below.plan()
        self._below = below
        self._rows: dict[tuple[str, str], Row] = {}

    def put(self, writes: Iterable[Write]) -> None:
        """Add writes."""
        for write in writes:
            version = next_version(self._below.get(write.collection, write.id))
            row = self._rows[write.collection, write.id] = {**write.after, "version": version}
            self.view.put(write.collection, write.id, row)

    def list_writes(self) -> list[Write]:
        """Return the changed rows, new rows first and deleted rows last: undo goes backwards."""
        found = [
            (before, Write(collection, row_id, row))
            for (collection, row_id), row in self._rows.items()
            if _is_change(before := self._below.get(collection, row_id), row)
        ]
        found.sort(key=lambda item: (not is_live(item[1].after), is_live(item[0])))
        return [write for _, write in found]


def _is_change(before: Row | None, after: Row) -> bool:
    if before is None or not (is_live(before) or is_live(after)):
        return is_live(after)
    return _strip_version(before) != _strip_version(after)


def _strip_version(row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if name not in _BOOKKEEPING}
