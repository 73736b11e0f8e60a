"""Changes of several rows at once: move, merge and delete, with what they refuse (seed 001 §5.3, §5.4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Row, Write, is_live
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, info_decisions, rendering, tree
from knowhub.keywords.model import KEYWORDS, LINKS, ROOT_ID, InfoPolicy, Link, Node, RelationType, link_id
from knowhub.keywords.ports import KeywordText, KeywordView

MAX_NAMED = 20
_STRENGTH = {relation: place for place, relation in enumerate(RelationType)}


@dataclass(frozen=True, slots=True)
class Edit:
    """The rows of one operation, and what its answer tells of them (KT-230)."""

    writes: Sequence[Write]
    reply: Row


def moved(
    view: KeywordView, ctx: RequestContext, keyword_id: str, new_parent_id: str, expected: int | None = None
) -> Row | None:
    """Return the row of a keyword below another parent, or None when it hangs there already (KT-224, KT-225).

    Only this row is written: levels and paths are computed. Raises as `editable_row`, InvalidInput for a parent that
    is not there, Conflict for the root and for a place below itself.
    """
    refuse_root(keyword_id, "moved")
    row = editable_row(view, ctx, keyword_id, expected)
    if rendering.seen_node(view, ctx, new_parent_id) is None:
        raise InvalidInput.of("new_parent_id", f"no keyword with id {new_parent_id!r}")
    if tree.is_within(view, new_parent_id, keyword_id):
        detail = f"{new_parent_id!r} is the keyword itself or hangs below it; move that out of it first"
        raise Conflict(detail, {"ids": [new_parent_id]})
    return None if row["parent_id"] == new_parent_id else decisions.with_parent(row, new_parent_id, view.now)


def merged(
    view: KeywordView,
    ctx: RequestContext,
    source_id: str,
    into_id: str,
    text: KeywordText,
    expected: int | None = None,
) -> Edit:
    """Give names, links and children of one keyword to another, and delete it last (KT-227…230).

    A link that the other has already stays as it is, and children that the caller does not see go along. The other is
    written also where it gains nothing, so that the operation holds what its answer shows. Raises as `editable_row`,
    InvalidInput when there is no other, Conflict for the root, for a keyword and itself, for one that hangs below it
    and where names or metadata have no room, Forbidden for children that they see and that are not theirs. `expected`
    is the version of the one that goes.
    """
    refuse_root(source_id, "merged into another")
    refuse_root(into_id, "what another keyword is merged into")
    source = editable_row(view, ctx, source_id, expected)
    if rendering.seen_node(view, ctx, into_id) is None:
        raise InvalidInput.of("into", f"no keyword with id {into_id!r}")
    into = editable_row(view, ctx, into_id)
    if tree.is_within(view, into_id, source_id):
        detail = f"{into_id!r} is the keyword itself or hangs below it; merge the other way round, or move it first"
        raise Conflict(detail, {"ids": [into_id]})
    children = view.children(source_id)
    _check_rights(ctx, rendering.visible_children(view, ctx, source_id), "a merge moves what hangs below the keyword")
    richer = decisions.absorbed(into, source, text, view.now) or decisions.written_again(into, view.now)
    links, counts = _repointed(view, ctx, view.links_of_keyword(source_id), into_id)
    rehomed = [decisions.with_parent(_row(view, child), into_id, view.now) for child in children]
    writes = [
        decisions.write_keyword(richer),
        *links,
        *map(decisions.write_keyword, rehomed),
        decisions.write_keyword(decisions.deleted_keyword(source, view.now)),
    ]
    told = list(rendering.visible_child_ids(view, ctx, source_id))
    return Edit(writes, {"source": source_id, "into": into_id, "links": counts, "children": told})


def deleted_subtree(
    view: KeywordView,
    ctx: RequestContext,
    keyword_id: str,
    policy: InfoPolicy,
    *,
    cascade: bool = False,
    expected: int | None = None,
) -> Edit:
    """Delete a keyword, with `cascade` all that hangs below it too (KT-231…233).

    REATTACH links its infos to what it hung below, DETACH only unlinks them, FORBID refuses where there are any.
    What the caller does not see goes on at what the keyword hung below: keywords, and infos also where they are
    forbidden. Raises as `editable_row`, Conflict for the root, for children without `cascade` and for forbidden infos,
    Forbidden for keywords that are not the caller's.
    """
    refuse_root(keyword_id, "deleted")
    editable_row(view, ctx, keyword_id, expected)
    doomed, left = _reach(view, ctx, keyword_id)
    if len(doomed) > 1 and not cascade:
        children = rendering.visible_children(view, ctx, keyword_id)
        raise Conflict(
            "other keywords hang below this one; move them, or delete them too with cascade=true",
            {"children": len(children), "ids": [child.id for child in children[:MAX_NAMED]]},
        )
    _check_rights(ctx, doomed, "a delete needs the right to each keyword")
    links = [link for node in doomed for link in view.links_of_keyword(node.id)]
    seen_infos = _seen_infos(view, ctx, links)
    if seen_infos and policy is InfoPolicy.FORBID:
        raise Conflict(
            "infos are linked to what would be deleted; unlink them, or choose reattach or detach",
            {"ids": seen_infos[:MAX_NAMED]},
        )
    above = (tree.path_of(view, keyword_id)[-2:-1] or [tree.ROOT_NODE])[0].id
    relinked, counts = _repointed(view, ctx, links, None if policy is InfoPolicy.DETACH else above)
    rehomed = [decisions.with_parent(_row(view, node), above, view.now) for node in left]
    # The deepest first: so an undo, which goes backwards, restores a parent before its children.
    tombstones = [decisions.deleted_keyword(_row(view, node), view.now) for node in reversed(doomed)]
    heir = above if policy is InfoPolicy.REATTACH else None
    reply = {"keywords": [node.id for node in doomed], "links": counts, "reattached_to": heir}
    return Edit([*relinked, *map(decisions.write_keyword, [*rehomed, *tombstones])], reply)


def editable_row(view: KeywordView, ctx: RequestContext, keyword_id: str, expected: int | None = None) -> Row:
    """Return the row of a keyword that the caller may change.

    Raises NotFound, Forbidden, and VersionConflict when it is not at the version that the caller read.
    """
    node = rendering.visible_node(view, ctx, keyword_id)
    if not ctx.may_edit(node.owner):
        raise Forbidden(f"only the owner of keyword {keyword_id!r} may change it", {"ids": [keyword_id]})
    if expected is not None and expected != node.version:
        raise VersionConflict(node.version)
    return rendering.keyword_row(view, keyword_id)


def refuse_root(keyword_id: str, what: str) -> None:
    """Raise Conflict when it is the root that would be moved, merged, deleted or found (KT-234)."""
    if keyword_id == ROOT_ID:
        raise Conflict(f"the root cannot be {what}", {"ids": [ROOT_ID]})


def check_aliases_free(
    view: KeywordView, ctx: RequestContext, text: KeywordText, aliases: Mapping[str, Sequence[str]], own_id: str
) -> None:
    """Raise Conflict when an alias is the name of another keyword that the caller sees.

    `aliases` has the normal forms of each.
    """
    for alias, tokens in aliases.items():
        for node in (node for token in tokens for node in view.by_token(token)):
            if node.id != own_id and ctx.sees(node.audience) and not set(tokens).isdisjoint(text.tokens(node.name)):
                detail = f"{alias!r} is the name of keyword {node.id!r}; merge the two, or choose another alias"
                raise Conflict(detail, {"alias": alias, "ids": [node.id]})


def _reach(view: KeywordView, ctx: RequestContext, keyword_id: str) -> tuple[list[Node], list[Node]]:
    """Return a keyword with what the caller sees below it, level by level, and what of that is next and not seen."""
    found, unseen = {keyword_id: rendering.visible_node(view, ctx, keyword_id)}, dict[str, Node]()
    waiting = [keyword_id]
    for above in waiting:
        for child in view.children(above):
            if not ctx.sees(child.audience):
                unseen[child.id] = child
            elif child.id not in found:
                found[child.id] = child
                waiting.append(child.id)
    return list(found.values()), list(unseen.values())


def _repointed(
    view: KeywordView, ctx: RequestContext, links: Sequence[Link], heir: str | None
) -> tuple[list[Write], dict[str, int]]:
    """Unlink, and link the same infos to `heir` where they are not yet; of several links the strongest goes on.

    Counts those of infos that the caller sees.
    """
    seen = frozenset(_seen_infos(view, ctx, links))
    writes: list[Write] = []
    linked: set[str] = set()
    counts = {"moved": 0, "dropped": 0}
    for link in sorted(links, key=lambda one: _STRENGTH[one.relation]):
        row = view.get(LINKS, link_id(link.info_id, link.keyword_id))
        if row is None:
            raise NotFound.of("link", link_id(link.info_id, link.keyword_id))
        writes.append(info_decisions.write_link(info_decisions.unlinked(row, view.now)))
        before = view.get(LINKS, link_id(link.info_id, heir)) if heir is not None else None
        if heir is None or is_live(before) or link.info_id in linked:
            counts["dropped"] += link.info_id in seen
            continue
        linked.add(link.info_id)
        counts["moved"] += link.info_id in seen
        fresh = info_decisions.new_link_row(link.info_id, heir, link.relation, row["created_by"], before, view.now)
        writes.append(info_decisions.write_link(fresh))
    return writes, counts


def _check_rights(ctx: RequestContext, nodes: Sequence[Node], what: str) -> None:
    others = [node for node in nodes if not ctx.may_edit(node.owner)]
    if others:
        ids = [node.id for node in others[:MAX_NAMED]]
        raise Forbidden(f"{what}: not all of them are the caller's", {"ids": ids})


def _seen_infos(view: KeywordView, ctx: RequestContext, links: Iterable[Link]) -> list[str]:
    heads = [view.info(info_id) for info_id in dict.fromkeys(link.info_id for link in links)]
    return [head.id for head in heads if head is not None and ctx.sees(head.audience)]


def _row(view: KeywordView, node: Node) -> Row:
    row = view.get(KEYWORDS, node.id)
    if row is None:
        raise NotFound.of("keyword", node.id)
    return row
