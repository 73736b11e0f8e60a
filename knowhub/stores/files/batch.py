"""Run decisions one after another, each on the state that includes the decisions before it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from knowhub.core.collection import Collections, check_rows
from knowhub.core.erasing import ERASING, is_erased
from knowhub.core.errors import TooLarge
from knowhub.core.ids import Ids, operation_id
from knowhub.core.operation import (
    Change,
    Committed,
    Draft,
    IdempotencyKey,
    LongDecision,
    Operation,
    Outcome,
    Row,
    RunDecision,
    Unchanged,
    Write,
)
from knowhub.engine.account import Account, WrittenChange, change_number
from knowhub.engine.view import AccountView, Overlay
from knowhub.stores.files.log.log_line import encode_operation

MAX_OPERATION_BYTES = 64 * 1024 * 1024
# Lines are joined up to this size before they are written.
_JOINED_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Request:
    """Decisions that are to be durable together, and the future of who waits for them."""

    account: str
    actor: str
    decides: Sequence[Callable[[Any], Draft | Unchanged]]
    idempotency: IdempotencyKey | None
    future: asyncio.Future[Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class DecidedOperation:
    """One decided operation with its line, to be written."""

    operation: Operation
    changes: Sequence[WrittenChange]
    line: bytes


@dataclass(slots=True)
class Batch:
    """The operations of one write: decided here, written by the store, then applied and acknowledged."""

    accounts: Callable[[str], Account]
    collections: Collections
    ids: Ids
    now: float
    offset: int
    next_seq: int
    run_decision: RunDecision
    decided: list[DecidedOperation] = field(default_factory=list)
    answers: list[tuple[Request, Sequence[Outcome] | Exception]] = field(default_factory=list)
    size: int = 0
    _overlays: dict[str, Overlay] = field(default_factory=dict)
    _keys: set[tuple[str, ...]] = field(default_factory=set)

    async def run(self, request: Request) -> None:
        """Decide one request. An error that it raises is its answer, and leaves the batch unchanged.

        Readers take their turns between the decisions of a group: nothing decided here shows before it is applied.
        """
        mark, size, next_seq = len(self.decided), self.size, self.next_seq
        outcomes: list[Outcome] = []
        notes: list[Any] = []
        try:
            for index, decide in enumerate(request.decides):
                if index:
                    await asyncio.sleep(0)
                if isinstance(decide, LongDecision):
                    # Nothing is applied while the writers' lock is held for this batch: what is read stays as it is.
                    outcome, note = await asyncio.to_thread(self._decide, request, index, tuple(notes))
                else:
                    outcome, note = self._decide(request, index, tuple(notes))
                outcomes.append(outcome)
                notes.append(note)
            self.answers.append((request, outcomes))
        except Exception as problem:  # noqa: BLE001 -- whatever a decision raises belongs to who asked for it
            self.answers.append((request, problem))
            if len(self.decided) > mark:
                del self.decided[mark:]
                self.size, self.next_seq = size, next_seq
                self._overlays.clear()
                for item in self.decided:
                    self._put(item)

    def has_key_of(self, request: Request) -> bool:
        """Return whether an operation of this batch has the idempotency key of a request."""
        key = request.idempotency
        return key is not None and key_name(request.account, key) in self._keys

    def pieces(self) -> Iterator[bytes]:
        """Yield the lines, short ones joined: to join many mebibytes would keep the interpreter for long."""
        short: list[bytes] = []
        size = 0
        for item in self.decided:
            short.append(item.line)
            size += len(item.line)
            if size >= _JOINED_BYTES:
                yield b"".join(short)
                short, size = [], 0
        yield b"".join(short)

    def overlay(self, account: str) -> Overlay:
        """Return what this batch has decided for an account, over its rows."""
        if account not in self._overlays:
            self._overlays[account] = Overlay(self.accounts(account))
        return self._overlays[account]

    def _decide(self, request: Request, index: int, notes: Sequence[Any]) -> tuple[Outcome, Any]:
        """Run one decision; return what came of it, and its note for those after it."""
        view = AccountView(self.overlay(request.account), self.now, notes)
        draft = self.run_decision(request.decides[index], view)
        if isinstance(draft, Unchanged):
            return draft, draft.answer
        if not draft.is_checked:
            check_rows(self.collections, view, {(write.collection, write.id): write.after for write in draft.writes})
        changes = [_make_change(view, write, is_erasing=draft.op.startswith(ERASING)) for write in draft.writes]
        # The last operation of a group has its idempotency key, and its reply answers for all.
        last = index == len(request.decides) - 1
        operation = Operation(
            seq=self.next_seq,
            operation_id=operation_id(self.next_seq, self.ids),
            op=draft.op,
            account=request.account,
            actor=request.actor,
            timestamp=self.now,
            changes=[Change(change.collection, change.id, change.before_row, change.row) for change in changes],
            reply=draft.reply,
            undo_of=draft.undo_of,
            group=draft.group,
            idempotency=request.idempotency if last else None,
            agent_io=draft.agent_io,
        )
        line = encode_operation(operation, changes, self.offset)
        if len(line) > MAX_OPERATION_BYTES:
            raise TooLarge(f"one operation is at most {MAX_OPERATION_BYTES} bytes; this one has {len(line)}: split it")
        decided = DecidedOperation(operation, changes, line)
        self.decided.append(decided)
        self.size += len(line)
        self.next_seq += 1
        if operation.idempotency is not None:
            self._keys.add(key_name(operation.account, operation.idempotency))
        self._put(decided)
        return Committed(operation), draft.note

    def _put(self, decided: DecidedOperation) -> None:
        operation = decided.operation
        overlay = self.overlay(operation.account)
        for position, change in enumerate(decided.changes):
            number = change_number(operation.seq, position)
            change.summary = overlay.put(change.collection, change.id, change.row, change.after, number)
        if operation.undo_of is not None:
            overlay.record_undo(operation.undo_of, operation.operation_id)


def key_name(account: str, key: IdempotencyKey) -> tuple[str, ...]:
    """Return what two requests with one idempotency key share: the caller, the route and the key, whatever the body."""
    return (account, key.principal, key.method, key.path, key.key)


def _make_change(view: AccountView, write: Write, *, is_erasing: bool) -> WrittenChange:
    before = view.raw(write.collection, write.id)
    before_row = None if before is None else orjson.loads(before)
    if before_row is not None and (is_erasing or is_erased(write.after)):
        before_row = _stub_before(before_row, write.after)
        before = orjson.dumps(before_row)
    # A copy: orjson returns small texts in buffers of four kilobytes, and these stay. Here, and not where a group is
    # applied: there nobody has a turn before all of it is applied.
    after = bytes(memoryview(orjson.dumps(write.after)))
    return WrittenChange(write.collection, write.id, before, after, write.after, before_row)


def _stub_before(before: Row, after: Row) -> Row:
    """Return a row that is being erased as its operation may tell of it: with what the erased one keeps."""
    kept = {name: before[name] for name in ("version", "updated_at", "owner", "scopes") if name in before}
    return {name: value for name, value in {**after, **kept}.items() if name != "deleted" or name in before}
