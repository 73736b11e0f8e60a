"""The verbs on infos and their links: create, get, change, delete, link, list."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core import permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.errors import Conflict, InvalidInput, NotFound, VersionConflict
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import (
    Committed,
    Draft,
    HistoryStore,
    IdempotencyKey,
    LongDecision,
    Operation,
    Outcome,
    Row,
    Unchanged,
    View,
    Write,
    add_version,
    get_operation,
    is_live,
    make_tombstone,
)
from knowhub.core.owned_rows import OwnedRows, RowText, RowTextPage, SavedBatch, SavedRow, list_visible, scan_newest
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields, info_rules, rendering
from knowhub.keywords.auto_link import AutoLinks, KeywordMatcher, NewInfoRow, check_links
from knowhub.keywords.cache import NO_CACHE, ResultCache
from knowhub.keywords.collections import INFO
from knowhub.keywords.creation import commit_with_root
from knowhub.keywords.edits import PendingRows
from knowhub.keywords.fields import prefix_errors
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    RELATION_RANKS,
    InfoQuery,
    LinkRequest,
    NewInfo,
    RelationType,
    TreeOptions,
    make_link_id,
)
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.tree import BY_INFO, INFO_TABLE, find_equal_info, scan_infos_of_keyword

MAX_ITEMS = 1_000
_LINK_FIELDS = ("relation", "created_by")


@dataclass(frozen=True, slots=True)
class InfoBatch:
    """The writes of a batch of infos, the id of each info, and the indexes of those that are stored already."""

    writes: Sequence[Write]
    ids: Sequence[str]
    duplicates: Sequence[int]


class InfoService(OwnedRows):
    """The infos of the keyword tree.

    Hidden rows count as missing. The owner of an info may change, delete and link it.
    """

    edit_verb = "update"

    def __init__(
        self,
        store: HistoryStore,
        text: KeywordText,
        ids: Ids,
        agent: KeywordAgent,
        options: TreeOptions,
        cache: ResultCache = NO_CACHE,
    ) -> None:
        super().__init__(store, INFO)
        self._ids = ids
        self._agent = agent
        self._linker = KeywordMatcher(store, text, ids, agent, options)
        self._cache = cache

    def find(self, view: View, ctx: RequestContext, row_id: str) -> Row:
        """Return an info that the caller sees. Raises NotFound."""
        # The scopes of an info are in memory, its text is on disk.
        rendering.require_info(view, ctx, row_id)
        return super().find(view, ctx, row_id)

    def edit(self, view: View, row: Row, patch: Mapping[str, Any]) -> Row | None:
        """Return the next version of an info; None if nothing changes. Raises InvalidInput."""
        return info_rules.apply_info_patch(row, patch, view.now)

    def cascade(self, view: View, row: Row) -> Sequence[Write]:
        """Return the tombstones of the links of an info."""
        links = [view.get(LINKS, link.id) for link in view.lookup(BY_INFO, row["id"])]
        return [info_rules.write_link(make_tombstone(link, view.now)) for link in links if link is not None]

    async def create(self, ctx: RequestContext, new: NewInfo, key: IdempotencyKey | None = None) -> SavedRow:
        """Save an info and its links, or link its duplicate; with `auto_link` also to keywords that it is about.

        `decided` lists what `auto_link` linked and created, and how much of the text it left unread; `dropped` counts
        the links of the model to what it was not shown. The answer is `degraded` if a model was needed and failed.
        Raises InvalidInput, and Forbidden for an owner that the caller may not set.
        """
        permissions.check_can_write(ctx)
        new_row = self._make_new_row(ctx, new)
        if new.auto_link:
            # A retry asks no second question.
            before = await self._store.find_replay(ctx.account, key)
            if before is not None:
                return self._make_written(ctx, before)
            await self._store.refresh(ctx.account)
            # Invalid input is refused before a model is asked.
            check_links(self._store.view(ctx.account), ctx, new_row)
            new_row = replace(new_row, auto=await self._linker.select_keywords(ctx, new_row.row["content"]))
        auto = new_row.auto

        def decide(view: View) -> Draft | Unchanged:
            info_id, is_stored, writes = self._make_writes(view, ctx, new_row)
            reply: dict[str, Any] = {"duplicate_of": info_id} if is_stored else {}
            if new.auto_link:
                reply |= {"degraded": list(auto.degraded), "decided": _describe_links(writes, new_row)}
                reply |= (
                    {"dropped": [{"what": "links", "why": "not_shown", "count": auto.unknown_targets}]}
                    if auto.unknown_targets
                    else {}
                )
            if not writes:
                return Unchanged(reply)
            op = "link_info" if is_stored else "create_info"
            return Draft(op, writes, reply=reply or None, agent_io=list(auto.calls) or None)

        outcome: Outcome | None = None
        try:
            if auto.names:
                outcome = await commit_with_root(self._store, ctx, decide, key)
            else:
                outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        finally:
            if not isinstance(outcome, Committed) or outcome.replayed:
                # The info was refused or cancelled, or is a retry of a concurrent request.
                self._agent.record_calls(ctx, auto.calls)
        return self._make_written(ctx, outcome)

    async def create_batch(
        self, ctx: RequestContext, items: Sequence[NewInfo], key: IdempotencyKey | None = None
    ) -> SavedBatch:
        """Save up to 1,000 infos with their links in one operation, all or none.

        A batch asks no model: `auto_link` links an item to every keyword that it names, as RELATED. With `dedup` an
        item may be an info that is stored, or an earlier item. Raises
        InvalidInput naming `items.<index>.<field>` for the first invalid item, Forbidden with its index.
        """
        permissions.check_can_write(ctx)
        if not 1 <= len(items) <= MAX_ITEMS:
            raise InvalidInput.of("items", f"must have between 1 and {MAX_ITEMS} entries")
        new_rows = await self.prepare(ctx, items)

        def decide(view: View) -> Draft | Unchanged:
            batch = self.make_batch_writes(view, ctx, new_rows)
            reply = {"ids": batch.ids, "duplicates": batch.duplicates}
            if not batch.writes:
                return Unchanged(reply)
            return Draft("batch_create_infos", batch.writes, reply=reply if batch.duplicates else None)

        outcome = await self._store.commit(ctx.account, ctx.actor, LongDecision(decide), key)
        operation = None if isinstance(outcome, Unchanged) else outcome.operation
        rows = {row["id"]: row for row in _list_info_rows(operation)}
        reply = _get_reply(outcome) or {"ids": list(rows)}
        view, duplicates = self._store.view(ctx.account), frozenset(reply.get("duplicates", ()))
        operation_id = None if operation is None else operation.operation_id
        saved = [
            SavedRow(
                rows.get(info_id) or view.get(INFOS, info_id) or {},
                operation_id,
                duplicate_of=info_id if index in duplicates else None,
                decided=_describe_unread(new.auto),
            )
            for index, (info_id, new) in enumerate(zip(reply["ids"], new_rows, strict=True))
        ]
        return SavedBatch(saved, operation_id)

    async def get(self, ctx: RequestContext, info_id: str) -> RowText:
        """Return one info as it is stored. Raises NotFound."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        rendering.require_info(view, ctx, info_id)
        raw = view.raw(INFOS, info_id) or b""
        return RowText(raw, json.loads(raw)["version"])

    async def link(
        self,
        ctx: RequestContext,
        info_id: str,
        keyword_id: str,
        how: LinkRequest | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Link an info to a visible keyword, or change the relation and creator of an existing link.

        The answer has the row of the link. Raises NotFound, Forbidden, InvalidInput and VersionConflict.
        """
        permissions.check_can_write(ctx)
        how = how or LinkRequest()
        info_rules.check_creator(how.created_by)

        def decide(view: View) -> Draft | Unchanged:
            self.find_for_edit(view, ctx, info_id, None)
            rendering.require_node(view, ctx, keyword_id)
            before = view.get(LINKS, make_link_id(info_id, keyword_id))
            _check_version(before, how.expected)
            row = info_rules.make_link_row(info_id, keyword_id, how.relation, how.created_by, before, view.now)
            if before is not None and is_live(before) and all(before[name] == row[name] for name in _LINK_FIELDS):
                return Unchanged(before)
            return Draft("link_info", [info_rules.write_link(row)])

        return self.make_saved(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key))

    async def unlink(
        self,
        ctx: RequestContext,
        info_id: str,
        keyword_id: str,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> str:
        """Delete a link and return the operation id. Raises the errors of `link`, NotFound also without a link."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            self.find_for_edit(view, ctx, info_id, None)
            row = view.get(LINKS, make_link_id(info_id, keyword_id))
            if row is None or not is_live(row) or rendering.get_visible_node(view, ctx, keyword_id) is None:
                raise NotFound.of("link", make_link_id(info_id, keyword_id))
            _check_version(row, expected)
            return Draft("unlink_info", [info_rules.write_link(make_tombstone(row, view.now))])

        return get_operation(await self._store.commit(ctx.account, ctx.actor, decide, key)).operation_id

    async def list_for_keyword(self, ctx: RequestContext, keyword_id: str, query: InfoQuery) -> Sequence[bytes]:
        """Return a page of a keyword's infos, each with `relation` and `created_by`. Raises NotFound, InvalidInput."""
        rendering.check_query(query)
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        rendering.require_node(view, ctx, keyword_id)
        # With descendants it would depend on too many rows to be cached.
        cache = NO_CACHE if query.descendants else self._cache
        key = rendering.make_page_key(ctx, keyword_id, query)
        cached: Sequence[bytes] | None = cache.get(key)
        if cached is not None:
            return cached
        page = rendering.get_info_page(view, ctx, keyword_id, query)
        rows = rendering.render_linked_infos(view, ctx, keyword_id, query, page.shown)
        if len(page.examined) <= rendering.MAX_DEPENDENCIES:
            dependencies = [(ctx.account, row_id) for row_id in (keyword_id, *page.examined)]
            cache.put(key, rows, dependencies, rows)
        return rows

    async def list_keywords(self, ctx: RequestContext, info_id: str) -> list[tuple[bytes, RelationType, str]]:
        """Return the visible keywords of an info with relation and creator, PRIMARY first. Raises NotFound."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        rendering.require_info(view, ctx, info_id)
        links = [(link, view.get(LINKS, link.id)) for link in view.lookup(BY_INFO, info_id)]
        seen = [(rendering.get_visible_node(view, ctx, link.keyword_id), link, row) for link, row in links]
        shown = [(node, link.relation, row) for node, link, row in seen if node is not None and row is not None]
        shown.sort(key=lambda item: (RELATION_RANKS[item[1]], item[0].ordinal))
        return [
            (rendering.render_keyword(view, ctx, node), relation, str(row["created_by"]))
            for node, relation, row in shown
        ]

    async def list_newest(
        self, ctx: RequestContext, keyword_id: str | None, limit: int, before: int | None
    ) -> RowTextPage:
        """Return a page of the newest visible infos, of a keyword or of all. Raises NotFound, InvalidInput."""
        rendering.check_size("limit", limit)
        await self._store.refresh(ctx.account)
        scan = scan_newest(INFO_TABLE, before)
        if keyword_id is not None:
            rendering.require_node(self._store.view(ctx.account), ctx, keyword_id)
            scan = scan_infos_of_keyword(keyword_id, before)
        found = await list_visible(self._store, ctx, scan, limit + 1)
        page = rendering.render_infos(self._store.view(ctx.account), found[:limit])
        return RowTextPage(page, found[limit - 1].ordinal if len(found) > limit else None)

    async def prepare(self, ctx: RequestContext, items: Sequence[NewInfo], group: str = "items") -> list[NewInfoRow]:
        """Make the rows of new infos. Raises as `create_batch`, naming the group."""
        await self._store.refresh(ctx.account)
        new_rows, pause = [], CooperativePause()
        for index, new in enumerate(items):
            with prefix_errors(f"{group}.{index}", item=index):
                new_row = self._make_new_row(ctx, new)
            auto = self._linker.match_text(ctx, new_row.row["content"]) if new.auto_link else AutoLinks()
            new_rows.append(replace(new_row, auto=auto))
            await pause.pause()
        return new_rows

    def make_batch_writes(
        self,
        view: View,
        ctx: RequestContext,
        new_rows: Sequence[NewInfoRow],
        position: tuple[str, int] = ("items", 0),
    ) -> InfoBatch:
        """Return the writes of prepared infos; `position` is their group in errors, and the index of the first."""
        (group, start), pending = position, PendingRows(view)
        ids, duplicates = [], []
        for index, new_row in enumerate(new_rows, start):
            with prefix_errors(f"{group}.{index}", item=index):
                info_id, is_stored, writes = self._make_writes(pending.view, ctx, new_row)
            pending.put(writes)
            ids.append(info_id)
            duplicates.extend([index] if is_stored else [])
        return InfoBatch(pending.list_writes(), ids, duplicates)

    def _make_new_row(self, ctx: RequestContext, new: NewInfo) -> NewInfoRow:
        # Before the decision, which blocks other writers.
        info_rules.check_creator(new.created_by)
        row = info_rules.make_info_row(new, uuid4_id(self._ids), self._store.view(ctx.account).now, ctx)
        return NewInfoRow(
            new, row, fields.parse_texts("keyword_ids", new.keyword_ids), fields.parse_links("links", new.links)
        )

    def _make_writes(self, view: View, ctx: RequestContext, new_row: NewInfoRow) -> tuple[str, bool, list[Write]]:
        """Return the id of an info, whether it is stored already, and the writes: its row and the missing links."""
        check_links(view, ctx, new_row)
        stored = find_equal_info(view, new_row.row) if new_row.new.dedup else None
        info_id = new_row.row["id"] if stored is None else stored.id
        row = add_version(new_row.row, None, view.now)
        links = info_rules.make_missing_links(view, info_id, new_row.relations, new_row.new.created_by)
        return (
            info_id,
            stored is not None,
            [
                *([info_rules.write_info(row)] if stored is None else []),
                *map(info_rules.write_link, links),
                *self._linker.make_writes(view, ctx, info_id, new_row),
            ],
        )

    def _make_written(self, ctx: RequestContext, outcome: Outcome) -> SavedRow:
        operation = None if isinstance(outcome, Unchanged) else outcome.operation
        reply = _get_reply(outcome)
        row_id, rows = reply.get("duplicate_of"), _list_info_rows(operation)
        row = rows[0] if rows else self._store.view(ctx.account).get(INFOS, str(row_id)) or {}
        return SavedRow(
            row,
            None if operation is None else operation.operation_id,
            duplicate_of=row_id,
            degraded=reply.get("degraded", ()),
            decided=reply.get("decided", {}),
            dropped=reply.get("dropped", ()),
        )


def _check_version(row: Row | None, expected: int | None) -> None:
    if expected is None:
        return
    if row is None or not is_live(row):
        raise Conflict("nothing is linked; leave the version out to link them", {"current_version": None})
    if expected != row["version"]:
        raise VersionConflict(row["version"])


def _get_reply(outcome: Outcome) -> Row:
    return (outcome.answer if isinstance(outcome, Unchanged) else outcome.operation.reply) or {}


def _list_info_rows(operation: Operation | None) -> list[Row]:
    changes = () if operation is None else operation.changes
    return [change.after for change in changes if change.collection == INFOS]


def _describe_links(writes: Sequence[Write], new_row: NewInfoRow) -> dict[str, Any]:
    links = [write.after for write in writes if write.collection == LINKS]
    return {
        "linked": [
            {name: link[name] for name in ("keyword_id", "relation", "created_by")}
            for link in links
            if link["keyword_id"] not in new_row.relations
        ],
        "created": [write.id for write in writes if write.collection == KEYWORDS],
        **_describe_unread(new_row.auto),
    }


def _describe_unread(auto: AutoLinks) -> dict[str, int]:
    return {"unread_characters": auto.unread_characters} if auto.unread_characters else {}
