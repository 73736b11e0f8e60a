"""Records out of KnowHub and into it: JSON lines, and the workspace tree of seed 004 (文件系统结构)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from knowhub.core import permissions
from knowhub.core.erasing import ERASED, is_erased
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import Decide, Draft, Group, IdempotencyKey, Row, Unchanged, is_live
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import decisions
from knowhub.knowledge.model import COLLECTION, ImportedKnowledge, KnowledgeType, OnConflict
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView
from knowhub.knowledge.shown import shown_json

ROWS_PER_OPERATION = 1000

_NAMED = 5
_REPEATS_NAMED = 100

_PROFILE_FILES = {"preference": "preferences", "habit": "habits", "constraint": "constraints"}
_GLOBAL_FILES = {
    KnowledgeType.TOOL: "tools",
    KnowledgeType.DEFINITION: "definitions",
    KnowledgeType.PLAN: "plans",
    KnowledgeType.STRATEGY: "strategies",
    KnowledgeType.USECASE: "usecases",
    KnowledgeType.USER_PROFILE: "profiles",
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did. `import_id` names its operations, which are undone together; None when it did nothing."""

    imported: int
    replaced: int
    skipped: int
    import_id: str | None
    operation_ids: Sequence[str]


class KnowledgeExchange:
    """Import and export of records."""

    def __init__(self, store: KnowledgeStore, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def export(self, ctx: RequestContext) -> Iterator[bytes]:
        """Return every live record that the caller sees as JSON text, oldest first."""
        await self._store.refresh()
        view = self._store.view(ctx.account)
        return (shown_json(view, ctx, head) for head in view.live_heads() if ctx.sees(head.audience))

    async def import_lines(
        self,
        ctx: RequestContext,
        lines: Sequence[ImportedKnowledge],
        on_conflict: OnConflict,
        key: IdempotencyKey | None = None,
    ) -> Imported:
        """Import all lines or none, in operations of 1,000 rows that are undone together (KS-058).

        Raises Conflict naming the ids that are taken when `on_conflict` is `fail` (those of other owners always), and
        those of records that were erased, which only `skip` lets pass,
        Forbidden for a line that would be or supersede somebody else's, and InvalidInput for an id that stands in
        the import twice. Where a key is asked for it must be an admin's: Forbidden.
        """
        permissions.check_may_import(ctx)
        _check_repeats(lines)
        chunks = [lines[start : start + ROWS_PER_OPERATION] for start in range(0, len(lines), ROWS_PER_OPERATION)]
        import_id = f"import-{self._ids.hex(32)}"
        tally = _Tally(on_conflict, {line.id for line in lines if line.id})
        decides = [
            self._decide(ctx, chunk, Group(import_id, index, len(chunks)), tally) for index, chunk in enumerate(chunks)
        ]
        outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
        operations = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
        if not operations:
            return Imported(0, 0, tally.skipped, None, ())
        last = operations[-1]
        reply = last.reply or {}
        return Imported(
            reply["imported"],
            reply["replaced"],
            reply["skipped"],
            last.group.id if last.group else None,
            [operation.operation_id for operation in operations],
        )

    def _decide(
        self,
        ctx: RequestContext,
        lines: Sequence[ImportedKnowledge],
        group: Group,
        tally: "_Tally",
    ) -> Decide[KnowledgeView]:
        def decide(view: KnowledgeView) -> Draft | Unchanged:
            rows: dict[str, Row] = {}

            def taken(candidate: str) -> bool:
                return candidate in rows or candidate in tally.named or view.raw(COLLECTION, candidate) is not None

            for line in lines:
                row_id = line.id or knowledge_id(view.now, self._ids, taken)
                before = view.get(COLLECTION, row_id)
                if not tally.takes(ctx, row_id, before):
                    continue
                row = decisions.imported_row(line, row_id, before, view.now, ctx)
                _check_superseded(view, ctx, row)
                rows[row_id] = row
            # The last operation speaks for the whole import, so it is written even when it brings no row.
            last = group.index == group.of - 1
            if last:
                tally.check()
            if not rows and not (last and tally.wrote):
                return Unchanged()
            tally.wrote = True
            writes = [decisions.write(row) for row in rows.values()]
            return Draft("import_knowledge", writes, reply=tally.reply() if last else None, group=group)

        return decide


class _Tally:
    """Counts over all operations of one import, which are decided one after another."""

    def __init__(self, on_conflict: OnConflict, named: Collection[str]) -> None:
        self.named = named
        self.imported = 0
        self.replaced = 0
        self.skipped = 0
        self.wrote = False
        self._on_conflict = on_conflict
        self._taken: list[str] = []
        self._erased: list[str] = []

    def takes(self, ctx: RequestContext, row_id: str, before: Row | None) -> bool:
        """Count a line and tell whether it is to be written."""
        # What somebody else deleted stays theirs: bringing it back would show what it said.
        own = before is None or ctx.may_edit(before["owner"])
        if own and is_erased(before) and self._on_conflict is not OnConflict.SKIP:
            self._erased.append(row_id)
            return False
        own = own and not is_erased(before)
        if own and not is_live(before):
            self.imported += 1
            return True
        if own and self._on_conflict is OnConflict.REPLACE:
            self.replaced += 1
            return True
        if self._on_conflict is OnConflict.SKIP:
            self.skipped += 1
        else:
            self._taken.append(row_id)
        return False

    def check(self) -> None:
        if self._erased:
            raise Conflict(
                f"these records were erased: {_named(self._erased)}; nothing was imported. "
                "Take them out of the import, or use on_conflict=skip to leave them",
                {ERASED: self._erased[:ROWS_PER_OPERATION]},
            )
        if self._taken:
            raise Conflict(
                f"these ids are taken: {_named(self._taken)}; nothing was imported. "
                "Use on_conflict=skip to leave them or on_conflict=replace to overwrite your own",
                {"conflicts": self._taken[:ROWS_PER_OPERATION]},
            )

    def reply(self) -> dict[str, int]:
        return {"imported": self.imported, "replaced": self.replaced, "skipped": self.skipped}


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(map(repr, ids[:_NAMED])) + more


def workspace_files(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Sort records into seed 004's tree, such as `global/tools.json` and `users/<user>/profile.json`."""
    files: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        files.setdefault(_workspace_path(record), []).append(record)
    return files


def _workspace_path(record: Mapping[str, Any]) -> str:
    kind, _, owner_id = str(record["owner"]).partition(":")
    # An id may hold any character; quoted, it cannot name a place outside its own folder.
    folder = quote(owner_id, safe="").replace(".", "%2E")
    first_type = KnowledgeType(record["types"][0])
    if KnowledgeType.USER_PROFILE in record["types"] and kind == "user":
        category = record["tags"].get("category")
        return (
            f"users/{folder}/{_PROFILE_FILES.get(category, 'profile') if isinstance(category, str) else 'profile'}.json"
        )
    if "public" in record["scopes"] or kind == "user":
        return f"global/{_GLOBAL_FILES[first_type]}.json"
    return f"agents/{folder}/{_GLOBAL_FILES[first_type]}.json"


def _check_superseded(view: KnowledgeView, ctx: RequestContext, row: Row) -> None:
    # The record that is superseded may stand in a later line, or nowhere; somebody else's would vanish from search.
    superseded = view.head(row["supersedes"]) if row["supersedes"] else None
    if superseded is not None and not ctx.may_edit(superseded.owner):
        raise Forbidden(f"{row['id']!r} supersedes a record of another owner, which only they may do")


def _check_repeats(lines: Sequence[ImportedKnowledge]) -> None:
    seen: set[str] = set()
    errors = []
    for number, line in enumerate(lines, start=1):
        if line.id is not None and line.id in seen:
            errors.append(FieldError(f"lines.{number}.id", f"{line.id!r} stands in the import twice"))
        seen.add(line.id or "")
    if errors:
        raise InvalidInput("an id stands in the import twice; nothing was imported", errors[:_REPEATS_NAMED])
