"""The verbs on keywords (seed 000 §7, seed 001 §5): create, read, change, move, merge, delete, alias."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core import permissions
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import Committed, Decide, Draft, IdempotencyKey, Unchanged
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, edits, rendering
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.creation import KeywordCreation, commit_with_root, committed, make_root
from knowhub.keywords.model import InfoPolicy, NewKeyword, Options, ShownRow, Written, WrittenBatch
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView

MAX_DEPTH = 50
MAX_NODES = 10_000
_ROWS_A_TURN = 500


@dataclass(frozen=True, slots=True)
class Deletion:
    """How a keyword is deleted: with all below it or not, what becomes of its infos, and the version that was read."""

    cascade: bool = False
    policy: InfoPolicy = InfoPolicy.REATTACH
    expected: int | None = None


class KeywordService:
    """Keywords over a store that makes every decision durable before it is acknowledged.

    What the caller cannot see counts as missing. Who owns a keyword changes it; who sees one may create below it.
    The root is there in every account, and made by the first write that needs it.
    """

    def __init__(self, store: KeywordStore, text: KeywordText, ids: Ids, agent: KeywordAgent, options: Options) -> None:
        self._store = store
        self._text = text
        self._creation = KeywordCreation(store, text, ids, agent, options)

    async def make_root(self, ctx: RequestContext) -> None:
        """Make the root of the caller's account where there is none; else the first write does (KT-074)."""
        await self._store.refresh()
        await make_root(self._store, ctx)

    async def get(self, ctx: RequestContext, keyword_id: str) -> ShownRow:
        """Return one keyword with `level`, `children` and `child_count`. Raises NotFound."""
        view = await self._view(ctx)
        node = rendering.visible_node(view, ctx, keyword_id)
        return ShownRow(rendering.keyword_json(view, ctx, node, with_children=True), node.version)

    async def children(self, ctx: RequestContext, keyword_id: str) -> list[bytes]:
        """Return the live children of a keyword, oldest first. Raises NotFound."""
        view = await self._view(ctx)
        rendering.visible_node(view, ctx, keyword_id)
        # The same for all: a walk to the root for each of them would cost the depth times their number.
        level = rendering.level_of(view, ctx, keyword_id) + 1
        shown = []
        for number, child in enumerate(rendering.visible_children(view, ctx, keyword_id), 1):
            # It may have been deleted while others took their turns.
            node = rendering.seen_node(view, ctx, child.id)
            if node is not None:
                shown.append(rendering.keyword_json(view, ctx, node, with_children=True, level=level))
            if number % _ROWS_A_TURN == 0:
                await asyncio.sleep(0)
        return shown

    async def path(self, ctx: RequestContext, keyword_id: str) -> list[bytes]:
        """Return the keywords from the root to this one (KT-170). Raises NotFound."""
        view = await self._view(ctx)
        node = rendering.visible_node(view, ctx, keyword_id)
        return rendering.path_json(view, ctx, node, with_children=False)

    async def subtree(self, ctx: RequestContext, keyword_id: str, depth: int | None = None) -> dict[str, Any]:
        """Return a keyword with what hangs below it in `children_nodes`, `depth` levels deep, 50 at most.

        At the last level `children_nodes` is empty, and `children` tells what was left out. Raises NotFound, and
        InvalidInput for another depth, and for more than 10,000 keywords.
        """
        depth = MAX_DEPTH if depth is None else depth
        if not 0 <= depth <= MAX_DEPTH:
            raise InvalidInput.of("depth", f"must be between 0 and {MAX_DEPTH}")
        view = await self._view(ctx)
        top = _shown(view, ctx, rendering.visible_node(view, ctx, keyword_id).id)
        waiting = [top]
        for number, above in enumerate(waiting, 1):
            if above["level"] - top["level"] < depth:
                above["children_nodes"] = _shown_children(view, ctx, above)
                waiting += above["children_nodes"]
                if len(waiting) > MAX_NODES:
                    raise InvalidInput.of("depth", f"takes in more than {MAX_NODES} keywords; lower it, or begin lower")
            if number % _ROWS_A_TURN == 0:
                await asyncio.sleep(0)
        return top

    async def create(
        self,
        ctx: RequestContext,
        new: NewKeyword,
        key: IdempotencyKey | None = None,
        *,
        auto_place: bool = True,
        dedup_check: bool = False,
    ) -> Written:
        """Make a keyword, see `KeywordCreation.create`. Raises InvalidInput, Forbidden and Conflict."""
        return await self._creation.create(ctx, new, key, auto_place=auto_place, dedup_check=dedup_check)

    async def create_batch(
        self, ctx: RequestContext, items: Sequence[NewKeyword], key: IdempotencyKey | None = None
    ) -> WrittenBatch:
        """Make many keywords in one operation, see `KeywordCreation.create_batch`. Raises InvalidInput."""
        return await self._creation.create_batch(ctx, items, key)

    async def update(
        self,
        ctx: RequestContext,
        keyword_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Change name, aliases, description, metadata or scopes (KT-175, KT-223).

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Conflict for an alias that is another's name.
        """
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft | Unchanged:
            row = edits.editable_row(view, ctx, keyword_id, expected)
            after = decisions.patched_keyword(row, patch, self._text, view.now)
            permissions.check_scopes(ctx, (after or row)["scopes"], standing=row["scopes"])
            if after is None:
                return Unchanged(row)
            self._check_new_aliases(view, ctx, keyword_id, set(after["aliases"]) - set(row["aliases"]))
            return Draft("update_keyword", [decisions.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def move(
        self,
        ctx: RequestContext,
        keyword_id: str,
        new_parent_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Hang a keyword, with all below it, under another one (KT-224…226). Raises as `edits.moved`."""
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft | Unchanged:
            after = edits.moved(view, ctx, keyword_id, new_parent_id, expected)
            if after is None:
                return Unchanged(rendering.keyword_row(view, keyword_id))
            return Draft("move_keyword", [decisions.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def merge(
        self,
        ctx: RequestContext,
        source_id: str,
        into_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Merge a keyword into another and return that one (KT-227…230); `decided` is what went where.

        `expected` is the version of the one that goes. Raises as `edits.merged`.
        """
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft:
            edit = edits.merged(view, ctx, source_id, into_id, self._text, expected)
            return Draft("merge_keywords", edit.writes, reply=edit.reply)

        return await self._change(ctx, into_id, decide, key)

    async def delete(
        self, ctx: RequestContext, keyword_id: str, how: Deletion | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete a keyword and return the operation, which can be undone (KT-231…233).

        Raises as `edits.deleted_subtree`.
        """
        permissions.check_may_write(ctx)
        how = how or Deletion()

        def decide(view: KeywordView) -> Draft:
            edit = edits.deleted_subtree(view, ctx, keyword_id, how.policy, cascade=how.cascade, expected=how.expected)
            return Draft("delete_keyword", edit.writes, reply=edit.reply)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        return committed(outcome).operation_id

    async def add_alias(
        self,
        ctx: RequestContext,
        keyword_id: str,
        alias: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Give a keyword another name (KT-179); nothing changes when it has one that is spelt so.

        Raises NotFound, Forbidden, VersionConflict, InvalidInput, and Conflict for the root, for the name of another
        keyword, and where there are 200 already.
        """
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft | Unchanged:
            edits.refuse_root(keyword_id, "found by an alias")
            row = edits.editable_row(view, ctx, keyword_id, expected)
            after = decisions.with_alias(row, alias, self._text, view.now)
            if after is None:
                return Unchanged(row)
            self._check_new_aliases(view, ctx, keyword_id, {alias})
            return Draft("add_alias", [decisions.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def remove_alias(
        self,
        ctx: RequestContext,
        keyword_id: str,
        alias: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Take an alias away. Raises NotFound, also for an alias that is not there; Forbidden, VersionConflict."""
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft:
            row = edits.editable_row(view, ctx, keyword_id, expected)
            after = decisions.without_alias(row, alias, self._text, view.now)
            return Draft("remove_alias", [decisions.write_keyword(after)])

        return await self._change(ctx, keyword_id, decide, key)

    async def _view(self, ctx: RequestContext) -> KeywordView:
        await self._store.refresh()
        return self._store.view(ctx.account)

    def _check_new_aliases(self, view: KeywordView, ctx: RequestContext, own_id: str, aliases: set[str]) -> None:
        forms = {alias: self._text.tokens(alias) for alias in sorted(aliases)}
        edits.check_aliases_free(view, ctx, self._text, forms, own_id)

    async def _change(
        self, ctx: RequestContext, keyword_id: str, decide: Decide[KeywordView], key: IdempotencyKey | None
    ) -> Written:
        outcome = await commit_with_root(self._store, ctx, decide, key)
        view = self._store.view(ctx.account)
        if not isinstance(outcome, Committed):
            return Written(rendering.keyword_answer(view, ctx, outcome.answer), None)
        operation = outcome.operation
        rows = [change.after for change in operation.changes if change.id == keyword_id]
        row = rows[0] if rows else rendering.keyword_row(view, keyword_id)
        shown = rendering.keyword_answer(view, ctx, row)
        return Written(shown, operation.operation_id, decided=operation.reply or {})


def _shown(view: KeywordView, ctx: RequestContext, keyword_id: str) -> dict[str, Any]:
    row = rendering.keyword_answer(view, ctx, rendering.keyword_row(view, keyword_id))
    return {**row, "children_nodes": []}


def _shown_children(view: KeywordView, ctx: RequestContext, above: Mapping[str, Any]) -> list[dict[str, Any]]:
    children = [rendering.seen_node(view, ctx, child_id) for child_id in above["children"]]
    return [_shown(view, ctx, child.id) for child in children if child is not None]
