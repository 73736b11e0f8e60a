"""The verbs on infos and their links (seed 000 §7, seed 001 §5.5…5.7): create, read, change, delete, link, list."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from knowhub.core import permissions
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    IdempotencyKey,
    Operation,
    Row,
    Unchanged,
    Write,
    is_live,
)
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields, info_decisions, info_pages, rendering
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.auto_link import AutoLinker, AutoLinks
from knowhub.keywords.caches import INFOS_TTL_S, ResultCache
from knowhub.keywords.creation import commit_with_root, committed, naming_item
from knowhub.keywords.info_pages import InfoPage
from knowhub.keywords.model import (
    INFOS,
    LINKS,
    InfoHead,
    InfoQuery,
    Linking,
    NewInfo,
    Options,
    RelationType,
    ShownRow,
    Written,
    WrittenBatch,
    link_id,
)
from knowhub.keywords.ports import KeywordStore, KeywordText, KeywordView

MAX_ITEMS = 1_000
MAX_KEYWORD_IDS = 1_000
_HEADS_A_TURN = 5_000
_ITEMS_A_TURN = 25
_SAID_OF_LINK = ("relation", "created_by")
_PLACE = {relation: place for place, relation in enumerate(RelationType)}


class InfoService:
    """Infos over a store that makes every decision durable before it is acknowledged.

    An info and its links are written in one operation. What the caller cannot see counts as missing; who owns an
    info changes, deletes and links it. No model is asked while a decision is being made.
    """

    def __init__(
        self,
        store: KeywordStore,
        text: KeywordText,
        ids: Ids,
        agent: KeywordAgent,
        options: Options,
        caches: ResultCache | None = None,
    ) -> None:
        self._store = store
        self._ids = ids
        self._linker = AutoLinker(store, text, ids, agent, options)
        self._caches = caches

    async def create(self, ctx: RequestContext, new: NewInfo, key: IdempotencyKey | None = None) -> Written:
        """Save an info and link it to `keyword_ids` as PRIMARY (KT-235), and to what it is about with `auto_link`.

        `decided` tells what `auto_link` linked and created; it is `degraded` when a model was needed and failed.
        Raises InvalidInput, and Forbidden when the owner is somebody else.
        """
        permissions.check_may_write(ctx)
        fresh = self._fresh(ctx, new)
        auto = AutoLinks()
        if new.auto_link:
            # A retry costs no second question.
            before = await self._store.replayed(ctx.account, key)
            if before is not None:
                return _written(before.operation)
            await self._store.refresh()
            view = self._store.view(ctx.account)
            # What will be refused is refused before a model is asked.
            _check_seen(view, ctx, fresh)
            auto = await self._linker.choose(ctx, fresh.row["content"])

        def decide(view: KeywordView) -> Draft:
            writes = _info_and_links(view, ctx, fresh)
            if not new.auto_link:
                return Draft("create_info", writes)
            linked = self._linker.writes(view, ctx, writes[0].id, auto, explicit=frozenset(fresh.linked))
            reply = {"degraded": list(auto.degraded), "decided": _decided(linked)}
            return Draft("create_info", [*writes, *linked], reply=reply, agent_io=taken() or None)

        with self._linker.keeping_calls(ctx, auto) as taken:
            if auto.names:
                return _written(committed(await commit_with_root(self._store, ctx, decide, key)))
            return _written(committed(await self._store.commit(ctx.account, ctx.actor, decide, key)))

    async def create_batch(
        self, ctx: RequestContext, items: Sequence[NewInfo], key: IdempotencyKey | None = None
    ) -> WrittenBatch:
        """Save up to 1,000 infos with their links in one operation, or none.

        `auto_link` links an item to every keyword that it mentions, as RELATED: a batch asks no model. Raises
        InvalidInput naming `items.<index>.<field>` for the first one that cannot be saved, Forbidden with its index.
        """
        permissions.check_may_write(ctx)
        if not 1 <= len(items) <= MAX_ITEMS:
            raise InvalidInput.of("items", f"must have between 1 and {MAX_ITEMS} entries")
        freshes = await self._fresh_items(ctx, items)
        autos = await self._mentions(ctx, freshes)

        def decide(view: KeywordView) -> Draft:
            writes: list[Write] = []
            for index, (fresh, auto) in enumerate(zip(freshes, autos, strict=True)):
                with naming_item(index):
                    item = _info_and_links(view, ctx, fresh)
                explicit = frozenset(fresh.linked)
                writes += [*item, *self._linker.writes(view, ctx, item[0].id, auto, explicit=explicit)]
            return Draft("batch_create_infos", writes)

        operation = committed(await self._store.commit(ctx.account, ctx.actor, decide, key))
        return WrittenBatch(_infos_of(operation), operation.operation_id)

    async def get(self, ctx: RequestContext, info_id: str) -> ShownRow:
        """Return one info as it is stored. Raises NotFound."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        rendering.visible_info(view, ctx, info_id)
        raw = view.raw(INFOS, info_id) or b""
        return ShownRow(raw, json.loads(raw)["version"])

    async def update(
        self,
        ctx: RequestContext,
        info_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Change content, source, metadata or scopes. Raises NotFound, Forbidden, VersionConflict, InvalidInput."""
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft | Unchanged:
            row = _editable(view, ctx, info_id, expected)
            after = info_decisions.patched_info(row, patch, view.now)
            permissions.check_scopes(ctx, (after or row)["scopes"], standing=row["scopes"])
            return Unchanged(row) if after is None else Draft("update_info", [info_decisions.write_info(after)])

        return await self._change(ctx, decide, key)

    async def delete(
        self, ctx: RequestContext, info_id: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete an info with its links and return the operation, which can be undone. Raises as `update`."""
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft:
            row = _editable(view, ctx, info_id, expected)
            links = [view.get(LINKS, link_id(info_id, link.keyword_id)) for link in view.links_of_info(info_id)]
            tombstones = [info_decisions.unlinked(link, view.now) for link in links if link is not None]
            info = info_decisions.write_info(info_decisions.deleted_info(row, view.now))
            return Draft("delete_info", [info, *map(info_decisions.write_link, tombstones)])

        return committed(await self._store.commit(ctx.account, ctx.actor, decide, key)).operation_id

    async def link(
        self,
        ctx: RequestContext,
        info_id: str,
        keyword_id: str,
        how: Linking | None = None,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Link an info to a keyword that the caller sees; a pair that is linked gets relation and maker (G-05, C-28).

        `row` is the link's. Raises NotFound, Forbidden, InvalidInput, and VersionConflict when the link has moved on.
        """
        permissions.check_may_write(ctx)
        how = how or Linking()
        info_decisions.check_creator(how.created_by)

        def decide(view: KeywordView) -> Draft | Unchanged:
            _editable(view, ctx, info_id, None)
            rendering.visible_node(view, ctx, keyword_id)
            before = view.get(LINKS, link_id(info_id, keyword_id))
            _check_version(before, how.expected)
            row = info_decisions.new_link_row(info_id, keyword_id, how.relation, how.created_by, before, view.now)
            if before is not None and is_live(before) and all(before[name] == row[name] for name in _SAID_OF_LINK):
                return Unchanged(before)
            return Draft("link_info", [info_decisions.write_link(row)])

        return await self._change(ctx, decide, key)

    async def unlink(
        self,
        ctx: RequestContext,
        info_id: str,
        keyword_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> str:
        """Take a link away and return the operation. Raises as `link`, NotFound also where nothing is linked."""
        permissions.check_may_write(ctx)

        def decide(view: KeywordView) -> Draft:
            _editable(view, ctx, info_id, None)
            row = view.get(LINKS, link_id(info_id, keyword_id))
            if row is None or not is_live(row) or rendering.seen_node(view, ctx, keyword_id) is None:
                raise NotFound.of("link", link_id(info_id, keyword_id))
            _check_version(row, expected)
            return Draft("unlink_info", [info_decisions.write_link(info_decisions.unlinked(row, view.now))])

        return committed(await self._store.commit(ctx.account, ctx.actor, decide, key)).operation_id

    async def of_keyword(self, ctx: RequestContext, keyword_id: str, query: InfoQuery) -> Sequence[bytes]:
        """Return a page of a keyword's infos, each with `relation` and `created_by` (KT-241).

        Raises NotFound, and InvalidInput for a page or a size that no list has.
        """
        info_pages.check_query(query)
        await self._store.refresh()
        view = self._store.view(ctx.account)
        rendering.visible_node(view, ctx, keyword_id)
        key = info_pages.page_key(ctx, keyword_id, query)
        kept: Sequence[bytes] | None = self._caches.get(key) if self._caches is not None else None
        if kept is not None:
            return kept
        page = info_pages.page_of_keyword(view, ctx, keyword_id, query)
        rows = info_pages.linked_rows(view, keyword_id, page.shown)
        if self._caches is not None and len(page.examined) <= info_pages.MAX_USES:
            uses = [(ctx.account, used) for used in (keyword_id, *page.examined)]
            self._caches.put(key, rows, INFOS_TTL_S, uses)
        return rows

    async def keywords_of(self, ctx: RequestContext, info_id: str) -> list[tuple[bytes, RelationType, str]]:
        """Return the keywords of an info that the caller sees, with relation and maker, PRIMARY first (KT-242).

        Raises NotFound.
        """
        await self._store.refresh()
        view = self._store.view(ctx.account)
        rendering.visible_info(view, ctx, info_id)
        seen = [(rendering.seen_node(view, ctx, link.keyword_id), link) for link in view.links_of_info(info_id)]
        shown = [(node, link.relation) for node, link in seen if node is not None]
        found = []
        for node, relation in sorted(shown, key=lambda one: (_PLACE[one[1]], one[0].ordinal)):
            row = view.get(LINKS, link_id(info_id, node.id))
            if row is not None:
                json_text = rendering.keyword_json(view, ctx, node, with_children=False)
                found.append((json_text, relation, str(row["created_by"])))
        return found

    async def page(self, ctx: RequestContext, keyword_id: str | None, limit: int, before: int | None) -> InfoPage:
        """Return the newest infos that the caller sees, of a keyword or of all. Raises NotFound, InvalidInput."""
        info_pages.check_size("limit", limit)
        await self._store.refresh()
        if keyword_id is None:
            return await self._newest(ctx, limit, before)
        view = self._store.view(ctx.account)
        rendering.visible_node(view, ctx, keyword_id)
        heads = info_pages.seen_heads(ctx, view.infos_of_keyword(keyword_id, InfoQuery()), before)
        return info_pages.page_of(view, list(islice(heads, limit + 1)), limit)

    async def _newest(self, ctx: RequestContext, limit: int, before: int | None) -> InfoPage:
        found: list[InfoHead] = []
        while True:
            view = self._store.view(ctx.account)
            looked = list(islice(view.infos_newest(before), _HEADS_A_TURN))
            # What was found in an earlier turn may have been deleted or hidden since.
            there = [head for head in map(view.info, (head.id for head in found)) if head is not None]
            found = list(info_pages.seen_heads(ctx, [*there, *looked], None))
            if len(found) > limit or len(looked) < _HEADS_A_TURN:
                return info_pages.page_of(view, found, limit)
            before = looked[-1].ordinal
            # A million infos may be somebody else's: others take their turns.
            await asyncio.sleep(0)

    async def _fresh_items(self, ctx: RequestContext, items: Sequence[NewInfo]) -> list["_Fresh"]:
        freshes = []
        for index, new in enumerate(items, 1):
            with naming_item(index - 1):
                freshes.append(self._fresh(ctx, new))
            if index % _ITEMS_A_TURN == 0:
                await asyncio.sleep(0)
        return freshes

    async def _mentions(self, ctx: RequestContext, freshes: Sequence["_Fresh"]) -> list[AutoLinks]:
        await self._store.refresh()
        autos = []
        for fresh in freshes:
            is_read = fresh.new.auto_link
            autos.append(self._linker.mentions(ctx, fresh.row["content"]) if is_read else AutoLinks())
            if is_read:
                # A thousand long texts are read here; others take their turns.
                await asyncio.sleep(0)
        return autos

    def _fresh(self, ctx: RequestContext, new: NewInfo) -> "_Fresh":
        # Before the decision: reading a thousand of them takes a while, and nobody else writes meanwhile.
        info_decisions.check_creator(new.created_by)
        row = info_decisions.new_info_row(new, uuid4_id(self._ids), self._store.view(ctx.account).now, ctx)
        return _Fresh(new, row, fields.texts("keyword_ids", new.keyword_ids), fields.links("links", new.links))

    async def _change(self, ctx: RequestContext, decide: Decide[KeywordView], key: IdempotencyKey | None) -> Written:
        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Committed):
            return Written(outcome.operation.changes[0].after, outcome.operation.operation_id)
        return Written(outcome.answer, None)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """An info that is about to be saved: its row, times left open, and the keywords that its maker links it to."""

    new: NewInfo
    row: Row
    keyword_ids: Sequence[str]
    links: Sequence[tuple[str, RelationType]]

    @property
    def linked(self) -> dict[str, RelationType]:
        """Return each of those keywords once."""
        return {**dict.fromkeys(self.keyword_ids, RelationType.PRIMARY), **dict(self.links)}


def _info_and_links(view: KeywordView, ctx: RequestContext, fresh: _Fresh) -> list[Write]:
    _check_seen(view, ctx, fresh)
    row = info_decisions.saved_at(fresh.row, view.now)
    links = [
        info_decisions.new_link_row(row["id"], keyword_id, relation, fresh.new.created_by, None, view.now)
        for keyword_id, relation in fresh.linked.items()
    ]
    return [info_decisions.write_info(row), *map(info_decisions.write_link, links)]


def _check_seen(view: KeywordView, ctx: RequestContext, fresh: _Fresh) -> None:
    named = {f"keyword_ids.{index}": keyword_id for index, keyword_id in enumerate(fresh.keyword_ids)}
    named |= {f"links.{index}.keyword_id": keyword_id for index, (keyword_id, _) in enumerate(fresh.links)}
    if len(named) > MAX_KEYWORD_IDS:
        raise InvalidInput.of("keyword_ids", f"must have at most {MAX_KEYWORD_IDS} entries, with those of `links`")
    for field, keyword_id in named.items():
        if rendering.seen_node(view, ctx, keyword_id) is None:
            raise InvalidInput.of(field, f"no keyword with id {keyword_id!r}")


def _editable(view: KeywordView, ctx: RequestContext, info_id: str, expected: int | None) -> Row:
    head = rendering.visible_info(view, ctx, info_id)
    if not ctx.may_edit(head.owner):
        raise Forbidden("only the owner of an info may change, link or delete it")
    row = view.get(INFOS, info_id)
    if row is None:
        raise NotFound.of("info", info_id)
    _check_version(row, expected)
    return row


def _check_version(row: Row | None, expected: int | None) -> None:
    if expected is None:
        return
    if row is None or not is_live(row):
        raise Conflict("nothing is linked; leave the version out to link them", {"current_version": None})
    if expected != row["version"]:
        raise VersionConflict(row["version"])


def _written(operation: Operation) -> Written:
    reply = operation.reply or {}
    info = _infos_of(operation)[0]
    return Written(info, operation.operation_id, reply.get("degraded", ()), reply.get("decided", {}))


def _infos_of(operation: Operation) -> list[Row]:
    return [change.after for change in operation.changes if change.collection == INFOS]


def _decided(writes: Sequence[Write]) -> dict[str, Any]:
    links = [write.after for write in writes if write.collection == LINKS]
    return {
        "linked": [{name: link[name] for name in ("keyword_id", "relation", "created_by")} for link in links],
        "created": [write.id for write in writes if write.collection != LINKS],
    }
