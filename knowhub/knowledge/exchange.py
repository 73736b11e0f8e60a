"""Import and export of records: JSON lines, and the workspace tree `global/ agents/ users/`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from knowhub.core import permissions
from knowhub.core.erasing import ERASED, is_erased
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import (
    Decide,
    Draft,
    Group,
    HistoryStore,
    IdempotencyKey,
    LongDecision,
    Row,
    Unchanged,
    View,
    is_live,
)
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import record_rules
from knowhub.knowledge.model import KNOWLEDGE, ImportedKnowledge, KnowledgeType, OnConflict
from knowhub.knowledge.table import find_record, list_live_records
from knowhub.knowledge.visibility import get_superseded_id, render_record_json

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
class ImportResult:
    """The counts of an import. `import_id` names its operations, which are undone together; None if there are none."""

    imported: int
    replaced: int
    skipped: int
    import_id: str | None
    operation_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ImportRun:
    """An import that is watched, or that writes more than records.

    `import_id` names all of it. `report` is called with the number of records that are decided, from a thread.
    """

    import_id: str
    report: Callable[[int], None]


class KnowledgeExchange:
    """Import and export of records."""

    def __init__(self, store: HistoryStore, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def export(self, ctx: RequestContext) -> Iterator[bytes]:
        """Return every live record that the caller sees, as a line of JSON, oldest first; empty text for others."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        return (
            render_record_json(view, ctx, summary) + b"\n" if ctx.sees(summary.audience) else b""
            for summary in list_live_records(view)
        )

    async def import_lines(
        self,
        ctx: RequestContext,
        lines: Sequence[ImportedKnowledge],
        on_conflict: OnConflict,
        key: IdempotencyKey | None = None,
        run: ImportRun | None = None,
    ) -> ImportResult:
        """Import all lines or none, in operations of 1,000 rows that are undone together.

        Raises Conflict with the used ids if `on_conflict` is `fail` (ids of other owners always conflict), and with the
        ids of erased records unless it is `skip`. Raises Forbidden for a line with another owner or another owner's
        superseded record, and for a key that is no admin's. Raises InvalidInput for an id that occurs twice, and for
        records that supersede each other in a circle.
        """
        permissions.check_can_import(ctx)
        _check_unique(lines)
        chunks = [lines[start : start + ROWS_PER_OPERATION] for start in range(0, len(lines), ROWS_PER_OPERATION)]
        run = run or ImportRun(self.make_import_id(), lambda _: None)
        named = frozenset(line.id for line in lines if line.id)
        decides = [
            self._decide(ctx, chunk, Group(run.import_id, index, len(chunks)), (on_conflict, named, run))
            for index, chunk in enumerate(chunks)
        ]
        outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
        operations = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
        if not operations:
            return ImportResult(0, 0, len(lines), None, ())
        last = operations[-1]
        reply = last.reply or {}
        return ImportResult(
            reply["imported"],
            reply["replaced"],
            reply["skipped"],
            last.group.id if last.group else None,
            [operation.operation_id for operation in operations],
        )

    def make_import_id(self) -> str:
        """Return an id for an import."""
        return f"import-{self._ids.hex(32)}"

    def _decide(
        self,
        ctx: RequestContext,
        lines: Sequence[ImportedKnowledge],
        group: Group,
        how: tuple[OnConflict, frozenset[str], ImportRun],
    ) -> Decide[View]:
        """Return the decision on some lines. `how` is what to do with used ids, all ids of the import, and the run."""
        on_conflict, named, run = how
        is_last = group.index == group.of - 1

        def decide(view: View) -> Draft | Unchanged:
            rows: dict[str, Row] = {}
            numbers: dict[str, int] = {}
            counts = view.earlier_notes[-1].copy() if view.earlier_notes else _ImportCounts()

            def is_used(candidate: str) -> bool:
                return candidate in rows or candidate in named or view.raw(KNOWLEDGE, candidate) is not None

            for number, line in enumerate(lines, start=group.index * ROWS_PER_OPERATION + 1):
                row_id = line.id or knowledge_id(view.now, self._ids, is_used)
                before = view.get(KNOWLEDGE, row_id)
                if not counts.add(ctx, row_id, before, on_conflict):
                    continue
                row = record_rules.make_imported_row(line, row_id, before, view.now, ctx)
                _check_superseded(view, ctx, row)
                rows[row_id], numbers[row_id] = row, number
            _check_circles(view, rows, numbers)
            run.report(group.index * ROWS_PER_OPERATION + len(lines))
            if is_last:
                counts.check()
            # The last operation carries the answer to a retry, so it is written even without rows.
            if not rows and not (is_last and counts.has_written):
                return Unchanged(counts)
            counts.has_written = True
            writes = [record_rules.write(row) for row in rows.values()]
            reply = {name: getattr(counts, name) for name in ("imported", "replaced", "skipped")} if is_last else None
            return Draft("import_knowledge", writes, reply=reply, group=group, note=counts)

        return LongDecision(decide)


@dataclass(slots=True)
class _ImportCounts:
    """The counts of an import so far. Each decision of the group continues with a copy."""

    imported: int = 0
    replaced: int = 0
    skipped: int = 0
    has_written: bool = False
    taken: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)

    def copy(self) -> "_ImportCounts":
        """Return an independent copy."""
        return replace(self, taken=list(self.taken), erased=list(self.erased))

    def add(self, ctx: RequestContext, row_id: str, before: Row | None, on_conflict: OnConflict) -> bool:
        """Count a line; return whether to write it."""
        # A record that another owner deleted stays theirs; restoring it would reveal its text.
        own = before is None or ctx.can_edit(before["owner"])
        if own and is_erased(before) and on_conflict is not OnConflict.SKIP:
            self.erased.append(row_id)
            return False
        own = own and not is_erased(before)
        if own and not is_live(before):
            self.imported += 1
            return True
        if own and on_conflict is OnConflict.REPLACE:
            self.replaced += 1
            return True
        if on_conflict is OnConflict.SKIP:
            self.skipped += 1
        else:
            self.taken.append(row_id)
        return False

    def check(self) -> None:
        """Raise Conflict for erased and used ids."""
        if self.erased:
            raise Conflict(
                f"these records were erased: {_format_ids(self.erased)}; nothing was imported. "
                "Take them out of the import, or use on_conflict=skip to leave them",
                {ERASED: self.erased[:ROWS_PER_OPERATION]},
            )
        if self.taken:
            raise Conflict(
                f"these ids are taken: {_format_ids(self.taken)}; nothing was imported. "
                "Use on_conflict=skip to leave them or on_conflict=replace to overwrite your own",
                {"conflicts": self.taken[:ROWS_PER_OPERATION]},
            )


def _format_ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(map(repr, ids[:_NAMED])) + more


def group_by_workspace_file(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group records by file of the workspace tree, such as `global/tools.json` and `users/<user>/profile.json`."""
    files: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        files.setdefault(_get_workspace_path(record), []).append(record)
    return files


def _get_workspace_path(record: Mapping[str, Any]) -> str:
    kind, _, owner_id = str(record["owner"]).partition(":")
    # A quoted id cannot leave its folder.
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


def _check_superseded(view: View, ctx: RequestContext, row: Row) -> None:
    # The superseded record may come in a later line, or not at all. It must not hide another owner's record.
    superseded = find_record(view, row["supersedes"]) if row["supersedes"] else None
    if superseded is not None and not ctx.can_edit(superseded.owner):
        raise Forbidden(f"{row['id']!r} supersedes a record of another owner, which only they may do")


def _check_circles(view: View, rows: Mapping[str, Row], numbers: Mapping[str, int]) -> None:
    """Raise InvalidInput for a row that supersedes itself, through others or not: nobody could say which is newer."""
    checked: set[str] = set()
    for row_id in rows:
        chain: dict[str, None] = {}
        current: str | None = row_id
        while current is not None and current not in checked and current not in chain:
            chain[current] = None
            current = rows[current]["supersedes"] if current in rows else get_superseded_id(view, current)
        checked.update(chain)
        if current in chain:
            circle = list(chain)[list(chain).index(current) :]
            # A circle that was stored before is not the fault of a line that leads to it.
            if imported := [item for item in circle if item in rows]:
                last = max(imported, key=lambda item: numbers[item])
                problem = f"these records supersede each other in a circle: {_format_ids(circle)}; nothing was imported"
                raise InvalidInput.of(f"lines.{numbers[last]}.supersedes", problem)


def _check_unique(lines: Sequence[ImportedKnowledge]) -> None:
    seen: set[str] = set()
    errors = []
    for number, line in enumerate(lines, start=1):
        if line.id is not None and line.id in seen:
            errors.append(FieldError(f"lines.{number}.id", f"{line.id!r} occurs in the import twice"))
        seen.add(line.id or "")
    if errors:
        raise InvalidInput("an id occurs in the import twice; nothing was imported", errors[:_REPEATS_NAMED])
