"""Import and export of the keyword tree. A keyword is matched by its id and path, an info by its text."""

import asyncio
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from knowhub.core import permissions
from knowhub.core.clock import free_in_turns
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids
from knowhub.core.operation import (
    Decide,
    Draft,
    Group,
    IdempotencyKey,
    LongDecision,
    Outcome,
    Row,
    Store,
    Unchanged,
    View,
    Write,
    is_live,
)
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.auto_link import NewInfoRow
from knowhub.keywords.creation import KeywordCreation, make_root
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, Dropped, NewInfo, NewKeyword, Node, RelationType
from knowhub.keywords.new_keywords import NewKeywordRow

ROWS_PER_OPERATION = 1_000
MAX_ROWS = 100_000
_DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class ImportedTree:
    """Keywords and infos to import. `refs` are the links of each info to keywords of the import, by their `ref`."""

    keywords: Sequence[NewKeyword]
    infos: Sequence[NewInfo] = ()
    refs: Sequence[Sequence[tuple[str, RelationType]]] = ()


@dataclass(frozen=True, slots=True)
class TreeImportResult:
    """How many rows an import created, and how many keywords it added something to.

    `dropped` counts what it did not keep: keywords and infos of the import that equal an earlier one (`duplicate`), or
    differ from what is stored (`differs`), keywords of others that would have got something (`not_yours`), and aliases
    that are another spelling of a name (`duplicate`). `import_id` names its operations, which are undone together;
    None if it changed nothing.
    """

    keywords: int
    changed: int
    infos: int
    links: int
    dropped: Dropped
    import_id: str | None
    operation_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class _ImportedRows:
    """What one operation did: the keyword or info that each row became, by id, and what is not kept."""

    ids: Mapping[str, str]
    dropped: Dropped


@dataclass(frozen=True, slots=True)
class ExportedKeyword:
    """A keyword with its level, 0 below the root, and the id of the visible keyword above it; None below the root.

    `is_twin` is true if an earlier keyword has the same path.
    """

    row: Row
    level: int
    parent_id: str | None
    is_twin: bool


@dataclass(frozen=True, slots=True)
class ExportedInfo:
    """An info with the rows of its links to keywords that the caller sees."""

    row: Row
    links: Sequence[Row]


class KeywordExchange:
    """Imports and exports the keyword tree as a caller sees it."""

    def __init__(self, store: Store, ids: Ids, creation: KeywordCreation, infos: InfoService) -> None:
        self._store = store
        self._ids = ids
        self._creation = creation
        self._infos = infos

    async def export_keywords(self, ctx: RequestContext) -> Iterator[ExportedKeyword | None]:
        """Return every keyword that the caller sees but the root, each above those below it; None for others."""
        await self._store.refresh(ctx.account)
        return _walk(self._store.view(ctx.account), ctx)

    async def export_infos(self, ctx: RequestContext) -> Iterator[ExportedInfo | None]:
        """Return every info that the caller sees, oldest first; None for others."""
        await self._store.refresh(ctx.account)
        return _list_infos(self._store.view(ctx.account), ctx)

    async def import_tree(
        self, ctx: RequestContext, imported: ImportedTree, key: IdempotencyKey | None = None
    ) -> TreeImportResult:
        """Import all rows or none, in operations of 1,000 rows that are undone together.

        A keyword whose `ref` is the id of a keyword with its path is that keyword, else the oldest with its path; with
        `allow_duplicate` the oldest that is no other keyword of the import. An info that is stored gets the links that
        it lacks: the same import twice changes nothing. Raises InvalidInput naming `keywords.<index>.<field>` or
        `infos.<index>.<field>`, Conflict and Forbidden with the index.
        """
        permissions.check_can_write(ctx)
        count = len(imported.keywords) + len(imported.infos)
        if not 1 <= count <= MAX_ROWS:
            raise InvalidInput.of("body", f"must have 1 to {MAX_ROWS} keywords and infos; these are {count}")
        rows = await self._creation.prepare(ctx, imported.keywords, "keywords") if imported.keywords else []
        infos = await self._infos.prepare(ctx, imported.infos, "infos")
        infos = await asyncio.to_thread(_add_links, infos, imported, rows)
        decides: list[Decide[View]] = []
        outcomes: list[Outcome] = []
        try:
            if rows:
                await make_root(self._store, ctx)
            decides = self._make_decisions(ctx, rows, infos)
            outcomes += await self._store.commit_group(ctx.account, ctx.actor, decides, key)
            return await asyncio.to_thread(_summarize, outcomes)
        finally:
            await free_in_turns(decides, outcomes, rows, infos)

    def _make_decisions(
        self, ctx: RequestContext, rows: Sequence[NewKeywordRow], infos: Sequence[NewInfoRow]
    ) -> list[Decide[View]]:
        starts = [*range(0, len(rows), ROWS_PER_OPERATION)], [*range(0, len(infos), ROWS_PER_OPERATION)]
        import_id, count = f"import-{self._ids.hex(32)}", sum(map(len, starts))
        groups = (Group(import_id, index, count) for index in range(count))
        refs = {row.new.ref: row.name_keys for row in rows}
        return [
            *(
                self._decide_keywords(ctx, rows[start : start + ROWS_PER_OPERATION], start, next(groups), refs)
                for start in starts[0]
            ),
            *(self._decide_infos(ctx, infos, start, next(groups)) for start in starts[1]),
        ]

    def _decide_keywords(
        self,
        ctx: RequestContext,
        chunk: Sequence[NewKeywordRow],
        start: int,
        group: Group,
        refs: Mapping[str | None, Sequence[str]],
    ) -> Decide[View]:
        def decide(view: View) -> Draft | Unchanged:
            # The later decisions look up in it which keywords are there already.
            ids: dict[str, str] = {}
            known = ChainMap(ids, *(note.ids for note in view.earlier_notes))
            writes, dropped = self._creation.make_batch_writes(view, ctx, chunk, known, ("keywords", start), refs)
            return _make_outcome("import_keywords", writes, group, _ImportedRows(ids, dropped))

        return LongDecision(decide)

    def _decide_infos(self, ctx: RequestContext, infos: Sequence[NewInfoRow], start: int, group: Group) -> Decide[View]:
        chunk = infos[start : start + ROWS_PER_OPERATION]

        def decide(view: View) -> Draft | Unchanged:
            ids: Mapping[str, str] = ChainMap({}, *(note.ids for note in view.earlier_notes))
            linked = [
                replace(row, links=[(ids.get(keyword_id, keyword_id), relation) for keyword_id, relation in row.links])
                for row in chunk
            ]
            batch = self._infos.make_batch_writes(view, ctx, linked, ("infos", start))
            written = {write.id: write.after for write in batch.writes}
            own_ids, dropped = dict[str, str](), Dropped()
            for row, info_id in zip(linked, batch.ids, strict=True):
                stored = written.get(info_id) or view.get(INFOS, info_id) or row.row
                differs = any(row.row[name] not in ("", {}, stored[name]) for name in ("content", "source", "metadata"))
                dropped[INFOS, "differs"] += differs
                dropped[INFOS, "duplicate"] += info_id in own_ids or info_id in ids
                own_ids[info_id] = info_id
            return _make_outcome("import_infos", batch.writes, group, _ImportedRows(own_ids, dropped))

        return LongDecision(decide)


def _make_outcome(op: str, writes: Sequence[Write], group: Group, done: _ImportedRows) -> Draft | Unchanged:
    # A retry reads in the reply what was not kept.
    dropped = [[*what_why, count] for what_why, count in (+done.dropped).items()]
    reply = {_DROPPED: dropped} if dropped else None
    return Draft(op, writes, group=group, reply=reply, note=done) if writes else Unchanged(done)


def _add_links(infos: Sequence[NewInfoRow], imported: ImportedTree, rows: Sequence[NewKeywordRow]) -> list[NewInfoRow]:
    """Return the infos with their links to the keywords of the import."""
    by_ref = {row.new.ref: row.id for row in rows}
    named = imported.refs or [()] * len(infos)
    return [
        replace(row, links=[*row.links, *((by_ref[ref], relation) for ref, relation in links)])
        for row, links in zip(infos, named, strict=True)
    ]


def _walk(view: View, ctx: RequestContext) -> Iterator[ExportedKeyword | None]:
    """Yield the visible keywords depth first, oldest first. Those below a hidden one come where it would be."""
    waiting: list[tuple[Iterator[Node], int, str | None]] = [(iter(tree.list_children(view, ROOT_ID)), 0, None)]
    paths: set[tuple[str | None, str]] = set()
    while waiting:
        nodes, level, parent_id = waiting[-1]
        node = next(nodes, None)
        if node is None:
            waiting.pop()
            continue
        is_seen = rendering.get_visible_node(view, ctx, node.id) is not None
        if is_seen:
            row = rendering.get_keyword_row(view, node.id)
            # The first normal form is that of the name.
            path = parent_id, row["normalized"][0]
            yield ExportedKeyword(row, level, parent_id, is_twin=path in paths)
            paths.add(path)
        else:
            yield None
        below = (level + 1, node.id) if is_seen else (level, parent_id)
        waiting.append((iter(tree.list_children(view, node.id)), *below))


def _list_infos(view: View, ctx: RequestContext) -> Iterator[ExportedInfo | None]:
    for info in view.rows(tree.INFO_TABLE):
        row = view.get(INFOS, info.id)
        if row is None or not is_live(row) or not ctx.sees(info.audience):
            yield None
            continue
        seen = [
            link.id
            for link in view.lookup(tree.BY_INFO, info.id)
            if rendering.get_visible_node(view, ctx, link.keyword_id) is not None
        ]
        links = (view.get(LINKS, link_id) for link_id in seen)
        yield ExportedInfo(row, [link for link in links if link is not None])


def _summarize(outcomes: Sequence[Outcome]) -> TreeImportResult:
    operations = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
    counts = {KEYWORDS: 0, INFOS: 0, LINKS: 0}
    changed = 0
    for change in (change for operation in operations for change in operation.changes):
        if is_live(change.before):
            changed += 1
        else:
            counts[change.collection] += 1
    group = operations[-1].group if operations else None
    return TreeImportResult(
        counts[KEYWORDS],
        changed,
        counts[INFOS],
        counts[LINKS],
        sum(map(_get_dropped, outcomes), Dropped()),
        group.id if group is not None else None,
        [operation.operation_id for operation in operations],
    )


def _get_dropped(outcome: Outcome) -> Dropped:
    if isinstance(outcome, Unchanged):
        return outcome.answer.dropped if isinstance(outcome.answer, _ImportedRows) else Dropped()
    listed = (outcome.operation.reply or {}).get(_DROPPED, ())
    return Dropped({(what, why): count for what, why, count in listed})
