"""The verbs on keywords: create, get, change, move, merge, delete, alias."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowhub.core import permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.operation import Decide, Draft, IdempotencyKey, Unchanged, View, get_operation
from knowhub.core.owned_rows import RowText, RowTextPage, SavedRow, list_visible, scan_newest
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, keyword_rules, rendering
from knowhub.keywords.creation import KeywordCreation, commit_with_root, make_root
from knowhub.keywords.model import ROOT_ID, InfoPolicy, Node
from knowhub.keywords.tree import KEYWORD_TABLE

MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a delete: descendants too, what happens to the infos, and the version that the caller read."""

    cascade: bool = False
    policy: InfoPolicy = InfoPolicy.REATTACH
    expected: int | None = None


class KeywordService(KeywordCreation):
    """The keywords of the tree.

    Hidden rows count as missing. The owner of a keyword may change it. Callers who see it may create keywords below
    it. Every account has a root, which the first write creates.
    """

    async def make_root(self, ctx: RequestContext) -> None:
        """Create the root of the caller's account if there is none."""
        await make_root(self._store, ctx)

    async def find_id(self, ctx: RequestContext, given: str) -> str:
        """Return the id of the keyword that `given` names: by its id, by a path such as `目的地/Java`, or by a name.

        An unknown name is returned as it is: the verb that needs the keyword refuses it. Raises Conflict with the
        paths of the keywords if several have this name.
        """
        view = await self._get_view(ctx)
        if rendering.get_visible_node(view, ctx, given) is not None:
            return given
        found = rendering.find_by_path(view, ctx, self._text, given)
        if len(found) > 1:
            named = [
                {"id": node.id, "path": rendering.format_path(view, ctx, node)} for node in found[: edits.MAX_NAMED]
            ]
            raise Conflict(
                f"{len(found)} keywords are called {given!r}; name one by its path or its id", {"keyword": named}
            )
        return found[0].id if found else given

    async def get(self, ctx: RequestContext, keyword_id: str) -> RowText:
        """Return one keyword with `level`, `children` and `child_count`. Raises NotFound."""
        view = await self._get_view(ctx)
        node = rendering.require_node(view, ctx, keyword_id)
        return RowText(rendering.render_keyword(view, ctx, node, with_children=True), node.version)

    async def list_newest(self, ctx: RequestContext, prefix: str, limit: int, before: int | None = None) -> RowTextPage:
        """Return a page of the keywords whose name, an alias or its pinyin begins with `prefix`, newest first.

        Without a prefix all keywords but the root are listed.
        """
        await self._store.refresh(ctx.account)
        prefix_keys = tuple(self._text.name_keys(prefix))

        def accept(_view: View, node: Node) -> bool:
            names = (*node.name_keys, *node.pinyin)
            return node.id != ROOT_ID and (not prefix or any(name.startswith(prefix_keys) for name in names))

        found = await list_visible(self._store, ctx, scan_newest(KEYWORD_TABLE, before), limit + 1, accept)
        view = self._store.view(ctx.account)
        rows = [rendering.render_keyword(view, ctx, node, with_children=True) for node in found[:limit]]
        return RowTextPage(rows, found[limit - 1].ordinal if len(found) > limit else None)

    async def list_children(
        self, ctx: RequestContext, keyword_id: str, limit: int | None = None, after: int | None = None
    ) -> RowTextPage:
        """Return a page of the live children of a keyword, oldest first; all without a limit. Raises NotFound."""
        view = await self._get_view(ctx)
        rendering.require_node(view, ctx, keyword_id)
        level = rendering.get_level(view, ctx, keyword_id)
        shown, pause = [], CooperativePause()
        children = rendering.list_visible_children(view, ctx, keyword_id)
        start = 0 if after is None else bisect_right(children, after, key=lambda child: child.ordinal)
        end = len(children) if limit is None else min(start + limit, len(children))
        for child in children[start:end]:
            # It may have been deleted while other requests ran.
            node = rendering.get_visible_node(view, ctx, child.id)
            if node is not None:
                shown.append(rendering.render_keyword(view, ctx, node, with_children=True, level=level))
            await pause.pause()
        return RowTextPage(shown, children[end - 1].ordinal if end < len(children) else None)

    async def get_path(self, ctx: RequestContext, keyword_id: str) -> list[bytes]:
        """Return the keywords from the root to this one. Raises NotFound."""
        view = await self._get_view(ctx)
        node = rendering.require_node(view, ctx, keyword_id)
        return rendering.render_path(view, ctx, node)

    async def get_subtree(self, ctx: RequestContext, keyword_id: str, depth: int | None = None) -> dict[str, Any]:
        """Return a keyword with its descendants in `children_nodes`, at most 50 levels deep.

        At the last level `children_nodes` is empty, and `children` lists the ids that are left out. Raises NotFound,
        and InvalidInput for a wrong depth and for more than 10,000 keywords.
        """
        depth = MAX_DEPTH if depth is None else depth
        if not 0 <= depth <= MAX_DEPTH:
            raise InvalidInput.of("depth", f"must be between 0 and {MAX_DEPTH}")
        view = await self._get_view(ctx)

        def render(node: Node) -> dict[str, Any]:
            row = rendering.add_tree_fields(view, ctx, rendering.get_keyword_row(view, node.id))
            return {**row, "children_nodes": []}

        top = render(rendering.require_node(view, ctx, keyword_id))
        waiting, pause = [top], CooperativePause()
        for above in waiting:
            if above["level"] - top["level"] < depth:
                children = [rendering.get_visible_node(view, ctx, child_id) for child_id in above["children"]]
                above["children_nodes"] = [render(child) for child in children if child is not None]
                waiting += above["children_nodes"]
                if len(waiting) > rendering.MAX_NODES:
                    raise InvalidInput.of(
                        "depth", f"takes in more than {rendering.MAX_NODES} keywords; lower it, or begin lower"
                    )
            await pause.pause()
        return top

    async def update(
        self,
        ctx: RequestContext,
        keyword_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
        *,
        allow_duplicate: bool = False,
    ) -> SavedRow:
        """Change name, aliases, description, metadata or scopes.

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Conflict for an alias that is the name of another
        keyword, and for a new name that another keyword has under the same parent, unless `allow_duplicate`.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            row = edits.get_editable_row(view, ctx, keyword_id, expected)
            after = keyword_rules.apply_patch(row, patch, self._text, view.now)
            permissions.check_scopes(ctx, (after or row)["scopes"], current=row["scopes"])
            if after is None:
                return Unchanged(row)
            self._check_new_aliases(view, ctx, keyword_id, set(after["aliases"]) - set(row["aliases"]))
            if not allow_duplicate and self._text.name_keys(after["name"]) != self._text.name_keys(row["name"]):
                edits.check_no_twin(view, ctx, self._text, after)
            return Draft("update_keyword", [keyword_rules.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def move(
        self,
        ctx: RequestContext,
        keyword_id: str,
        new_parent_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
        *,
        allow_duplicate: bool = False,
    ) -> SavedRow:
        """Move a keyword with its descendants under another one.

        Raises the errors of `edits.move_keyword`, and Conflict if the parent has a keyword of this name, unless
        `allow_duplicate`.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            after = edits.move_keyword(view, ctx, keyword_id, new_parent_id, expected)
            if after is None:
                return Unchanged(rendering.get_keyword_row(view, keyword_id))
            if not allow_duplicate:
                edits.check_no_twin(view, ctx, self._text, after)
            return Draft("move_keyword", [keyword_rules.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def merge(
        self,
        ctx: RequestContext,
        source_id: str,
        into_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Merge a source into a target and return the target.

        `expected` is the version of the source. Raises the errors of `edits.merge_keywords`.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            return edits.merge_keywords(view, ctx, source_id, into_id, self._text, expected)

        return await self._change(ctx, into_id, decide, key)

    async def delete(
        self, ctx: RequestContext, keyword_id: str, how: DeleteOptions | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete a keyword and return the operation id. Raises the errors of `edits.delete_subtree`."""
        permissions.check_can_write(ctx)
        how = how or DeleteOptions()

        def decide(view: View) -> Draft:
            return edits.delete_subtree(view, ctx, keyword_id, how.policy, cascade=how.cascade, expected=how.expected)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        return get_operation(outcome).operation_id

    async def add_alias(
        self,
        ctx: RequestContext,
        keyword_id: str,
        alias: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Add an alias; nothing changes if the keyword has this spelling already.

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Conflict for the root, for the name of another
        keyword, and if there are 200 already.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            edits.check_not_root(keyword_id, "found by an alias")
            row = edits.get_editable_row(view, ctx, keyword_id, expected)
            after = keyword_rules.add_alias(row, alias, self._text, view.now)
            if after is None:
                return Unchanged(row)
            self._check_new_aliases(view, ctx, keyword_id, {alias})
            return Draft("add_alias", [keyword_rules.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def remove_alias(
        self,
        ctx: RequestContext,
        keyword_id: str,
        alias: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Remove an alias. Raises NotFound, also for an unknown alias, Forbidden and VersionConflict."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            row = edits.get_editable_row(view, ctx, keyword_id, expected)
            after = keyword_rules.remove_alias(row, alias, self._text, view.now)
            return Draft("remove_alias", [keyword_rules.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def _get_view(self, ctx: RequestContext) -> View:
        await self._store.refresh(ctx.account)
        return self._store.view(ctx.account)

    def _check_new_aliases(self, view: View, ctx: RequestContext, own_id: str, aliases: set[str]) -> None:
        alias_keys = {alias: self._text.name_keys(alias) for alias in sorted(aliases)}
        edits.check_aliases_free(view, ctx, self._text, alias_keys, own_id)

    async def _change(
        self, ctx: RequestContext, keyword_id: str, decide: Decide[View], key: IdempotencyKey | None
    ) -> SavedRow:
        outcome = await commit_with_root(self._store, ctx, decide, key)
        if isinstance(outcome, Unchanged):
            return SavedRow(rendering.add_tree_fields(self._store.view(ctx.account), ctx, outcome.answer), None)
        return self._make_written(ctx, outcome.operation, keyword_id)
