"""Deciding: one decision after another, each on the state that includes those before it in the batch."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from knowhub.core.erasing import ERASING, is_erased
from knowhub.core.errors import InvalidInput, TooLarge
from knowhub.core.ids import Ids, operation_id
from knowhub.core.operation import Change, Committed, Draft, IdempotencyKey, Operation, Outcome, Row, Unchanged, Write
from knowhub.stores.files.log.log_line import RawChange, encode
from knowhub.stores.files.rows.state import AccountState, Pending
from knowhub.stores.files.rows.state_view import StateView

MAX_OPERATION_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Request:
    """Decisions that are to be durable together, and the future of who waits for them."""

    account: str
    actor: str
    decides: Sequence[Callable[[Any], Draft | Unchanged]]
    idempotency: IdempotencyKey | None
    future: asyncio.Future[Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Decided:
    """One decided operation with its line, to be written."""

    operation: Operation
    changes: Sequence[RawChange]
    line: bytes


@dataclass(slots=True)
class Batch:
    """The operations of one write: decided here, written by the store, then applied and acknowledged."""

    states: Callable[[str], AccountState]
    ids: Ids
    now: float
    offset: int
    next_seq: int
    decided: list[Decided] = field(default_factory=list)
    answers: list[tuple[Request, Sequence[Outcome] | Exception]] = field(default_factory=list)
    size: int = 0
    _pending: dict[str, Pending] = field(default_factory=dict)
    _keys: dict[tuple[str, ...], tuple[IdempotencyKey, Sequence[Outcome]]] = field(default_factory=dict)

    async def run(self, request: Request) -> None:
        """Decide one request; what it raises is its answer, and leaves the batch as it was.

        Readers take their turns between the decisions of a group: nothing decided here shows before it is applied.
        """
        mark, size, next_seq = len(self.decided), self.size, self.next_seq
        try:
            self.answers.append((request, await self._decide(request)))
        except Exception as problem:  # noqa: BLE001 -- whatever a decision raises belongs to who asked for it
            self.answers.append((request, problem))
            if len(self.decided) > mark:
                del self.decided[mark:]
                self.size, self.next_seq = size, next_seq
                self._take_back_undecided()

    def data(self) -> bytes:
        return b"".join(one.line for one in self.decided)

    def pending(self, account: str) -> Pending:
        """Return what this batch has decided for an account."""
        if account not in self._pending:
            self._pending[account] = Pending(self.states(account))
        return self._pending[account]

    async def _decide(self, request: Request) -> Sequence[Outcome]:
        key = request.idempotency
        if key is not None and (first := self._keys.get(key_name(request.account, key))):
            check_same_body(first[0], key)
            return [replayed(outcome) for outcome in first[1]]
        outcomes: list[Outcome] = []
        for index in range(len(request.decides)):
            if index:
                await asyncio.sleep(0)
            outcomes.append(self._decide_one(request, index))
        if key is not None and any(isinstance(outcome, Committed) for outcome in outcomes):
            self._keys[key_name(request.account, key)] = (key, outcomes)
        return outcomes

    def _decide_one(self, request: Request, index: int) -> Outcome:
        view = StateView(self.states(request.account), self.now, self.pending(request.account))
        draft = request.decides[index](view)
        if isinstance(draft, Unchanged):
            return draft
        changes = [_raw_change(view, write, is_erasing=draft.op.startswith(ERASING)) for write in draft.writes]
        # The key of a group stands on its last operation, whose reply speaks for all of them.
        last = index == len(request.decides) - 1
        operation = Operation(
            seq=self.next_seq,
            operation_id=operation_id(self.next_seq, self.ids),
            op=draft.op,
            account=request.account,
            actor=request.actor,
            timestamp=self.now,
            changes=[Change(one.collection, one.id, one.before_row, one.after_row) for one in changes],
            reply=draft.reply,
            undo_of=draft.undo_of,
            group=draft.group,
            idempotency=request.idempotency if last else None,
            agent_io=draft.agent_io,
        )
        self._add(operation, changes)
        return Committed(operation)

    def _add(self, operation: Operation, changes: Sequence[RawChange]) -> None:
        line = encode(operation, changes, self.offset)
        if len(line) > MAX_OPERATION_BYTES:
            raise TooLarge(f"one operation is at most {MAX_OPERATION_BYTES} bytes; this one has {len(line)}: split it")
        self.decided.append(Decided(operation, changes, line))
        self.size += len(line)
        self.next_seq += 1
        self.pending(operation.account).take(operation, changes)

    def _take_back_undecided(self) -> None:
        """Forget what a request that failed had decided: the rest is taken in anew."""
        self._pending.clear()
        for one in self.decided:
            self.pending(one.operation.account).take(one.operation, one.changes)


def key_name(account: str, key: IdempotencyKey) -> tuple[str, ...]:
    """Return what two requests with one retry key share: the caller, the route and the key, whatever the body."""
    return (account, key.principal, key.method, key.path, key.key)


def check_same_body(known: IdempotencyKey, sent: IdempotencyKey) -> None:
    """Raise InvalidInput when a retry key comes again with another body."""
    if known.body != sent.body:
        raise InvalidInput.of("Idempotency-Key", "was used with another body; choose a new key for a new request")


def replayed(outcome: Outcome) -> Outcome:
    """Return an outcome as the answer to a retry."""
    return Committed(outcome.operation, replayed=True) if isinstance(outcome, Committed) else outcome


def _raw_change(view: StateView, write: Write, *, is_erasing: bool) -> RawChange:
    before = view.raw(write.collection, write.id)
    before_row = None if before is None else orjson.loads(before)
    if before_row is not None and (is_erasing or is_erased(write.after)):
        before_row = _stub_before(before_row, write.after)
        before = orjson.dumps(before_row)
    # A copy: orjson returns small texts in buffers of four kilobytes, and these stay. Here, and not where a group is
    # applied: there nobody has a turn before all of it is taken in.
    after = bytes(memoryview(orjson.dumps(write.after)))
    return RawChange(write.collection, write.id, before, after, write.after, before_row)


def _stub_before(before: Row, after: Row) -> Row:
    """Return a row that is being erased as its operation may tell of it: with what the erased one keeps."""
    kept = {name: before[name] for name in ("version", "updated_at", "owner", "scopes") if name in before}
    return {name: value for name, value in {**after, **kept}.items() if name != "deleted" or name in before}
