"""The file store: one log, group commit, and several processes on one directory.

All memory belongs to the event loop's thread. Only the write and its sync leave it, so a read is never
between two rows of one operation, and needs no lock.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from knowhub.core.errors import KnowHubError, ReadOnly, StorageFull, Unavailable
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Operation, Outcome
from knowhub.stores.files.batch import Batch, Request
from knowhub.stores.files.change_log import Line
from knowhub.stores.files.cursor import LogCursor
from knowhub.stores.files.filesystem import NO_ROOM
from knowhub.stores.files.history import History
from knowhub.stores.files.loading import Opening, load, start_segment
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log_line import RawChange, decode, line_checksum
from knowhub.stores.files.raw_changes import raw_changes
from knowhub.stores.files.recovery import Damage
from knowhub.stores.files.retries import RetryKeys
from knowhub.stores.files.state import AccountState, PlacedLine
from knowhub.stores.files.state_view import StateView

_DECISIONS_PER_BATCH = 512
_BYTES_PER_BATCH = 64 * 1024 * 1024
_CATCH_UP_BYTES = 4 * 1024 * 1024
_LOCK_POLL_S = 0.001
_TORN_WAIT_S = 0.25
_ROOM_TO_RESUME = 4 * 1024 * 1024
_FULL = "the disk is full; nothing was written. Reads go on; writing resumes when there is room"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The store's limits. Times in seconds, sizes in bytes."""

    lock_timeout_s: float = 10.0
    segment_bytes: int = 64 * 1024 * 1024
    retry_key_lifetime_s: float = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Whether writes are taken, and what was found wrong with the log."""

    writable: bool
    reason: str | None
    damage: Sequence[Damage]
    quarantined: Sequence[Path]
    last_seq: int


class Follower(Protocol):
    """Something derived that follows the log: called in order, once for each operation, before its acknowledgement."""

    def follow(self, account: str, seq: int, changes: Sequence[RawChange]) -> None: ...


class FileStore:
    """Operations of every account in one data directory. Make it with an event loop running; close it."""

    def __init__(self, opening: Opening, options: StoreOptions) -> None:
        self._opening = opening
        self._options = options
        self._followers: list[Follower] = []
        self._log = opening.log
        self._lock = opening.lock
        self._clock = opening.clock
        self._states: dict[str, AccountState] = {}
        self._history = History(opening.log)
        self._retries = RetryKeys(options.retry_key_lifetime_s)
        self._queue: deque[Request] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="log-writer")
        self._read_only: str | None = None
        self._is_full = False
        self._last_time = 0.0
        self._torn = (0, 0.0)
        self._holds_lock = False
        loaded = load(opening, self._take_in, lambda: self._history.last_seq + 1)
        self._log_id = loaded.header.log_id
        self._quarantined = loaded.quarantined
        self._cursor = LogCursor(
            self._log, self._lock, self._take_in, lambda: self._history.last_seq, (loaded.position, loaded.stamp)
        )
        self._cursor.damage += loaded.damage

    @property
    def log_id(self) -> str:
        return self._log_id

    @property
    def history(self) -> History:
        return self._history

    @property
    def last_seq(self) -> int:
        return self._history.last_seq

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty when there is none."""
        return line_checksum(self._history.line(seq) or b"")

    def subscribe(self, follower: Follower) -> None:
        """Have `follower` told of every operation from now on, in order."""
        self._followers.append(follower)

    @property
    def accounts(self) -> Sequence[str]:
        return list(self._states)

    def status(self) -> StoreStatus:
        reason = self._why_read_only() or (_FULL if self._is_full else None)
        return StoreStatus(reason is None, reason, self._damage, self._quarantined, self._history.last_seq)

    def state(self, account: str) -> AccountState:
        """Return the acknowledged rows of an account. One that never wrote has none, and is not remembered."""
        return self._states.get(account) or AccountState(self._log.read)

    def view(self, account: str) -> StateView:
        return StateView(self.state(account), self._clock.now())

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""
        while self._cursor.is_behind:
            if self._cursor.is_torn:
                if not await self._settle():
                    self._cursor.catch_up_torn(_CATCH_UP_BYTES)
                    return
            elif self._cursor.catch_up(_CATCH_UP_BYTES):
                return
            else:
                await asyncio.sleep(0)

    async def commit(
        self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        """Run `decide` on the newest state and make its draft durable; see `core.operation.Commits`."""
        return (await self.commit_group(account, actor, [decide], idempotency))[0]

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        """Run decisions with nothing between them; all are durable, or none is."""
        loop = asyncio.get_running_loop()
        request = Request(account, actor, decides, idempotency, loop.create_future())
        self._queue.append(request)
        if self._flusher is None or self._flusher.done():
            self._flusher = loop.create_task(self._drain(), name="log-flusher")
        return await request.future

    async def replayed(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        await self.refresh()
        return next(iter(self._retries.answers(self._history, account, idempotency, self._clock.now())), None)

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        return self._history.find(account, operation_id)

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        return self._history.group(account, group_id)

    def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        return self._history.newest_first(account, before_seq)

    def operations_on(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        return self._history.touching(account, collection, row_id)

    def undone_by(self, account: str, operation_id: str) -> str | None:
        return self.view(account).undone_by(operation_id)

    async def close(self) -> None:
        """Finish what is queued, then let go of every file."""
        if self._flusher is not None:
            await self._flusher
        self._writer.shutdown(wait=True)
        self._log.close()
        self._lock.close()

    async def _drain(self) -> None:
        while self._queue:
            requests: list[Request] = []
            while self._queue and len(requests) < _DECISIONS_PER_BATCH:
                requests.append(self._queue.popleft())
            try:
                answers, left = await self._write_batch(requests)
            except Exception as problem:  # noqa: BLE001 -- every waiting request must hear of it, whatever it is
                answers, left = [(request, problem) for request in requests], []
            self._queue.extendleft(reversed(left))
            for request, answer in answers:
                _answer(request, answer)

    async def _write_batch(
        self, requests: Sequence[Request]
    ) -> tuple[Sequence[tuple[Request, Any]], Sequence[Request]]:
        """Decide, append, sync, publish, apply: nobody is told before the last."""
        await self._acquire()
        try:
            if self._cursor.is_torn:
                self._cursor.settle()
            while not self._cursor.catch_up(_CATCH_UP_BYTES):  # noqa: ASYNC110 -- each turn applies more, until nothing is left
                await asyncio.sleep(0)
            await self._require_writable()
            batch = self._new_batch()
            left: Sequence[Request] = []
            for index, request in enumerate(requests):
                if batch.size > _BYTES_PER_BATCH:
                    left = requests[index:]
                    break
                await self._decide(batch, request)
            if batch.decided:
                await self._write(batch)
            return batch.answers, left
        finally:
            self._release()

    async def _acquire(self) -> None:
        # Polling, not waiting: a thread that sleeps in flock could not be called back from a stopped process.
        deadline = asyncio.get_running_loop().time() + self._options.lock_timeout_s
        while not self._lock.try_acquire():
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    f"another process has held the log for {self._options.lock_timeout_s:g} s; nothing was written"
                )
            await asyncio.sleep(_LOCK_POLL_S)
        self._holds_lock = True

    def _release(self) -> None:
        self._holds_lock = False
        self._lock.release()

    async def _settle(self) -> bool:
        """Wait for a writer that is publishing; where it died, find the end of the log in its place.

        False when one publication takes so long that its writer must have been stopped within it.
        """
        if self._holds_lock or not self._lock.try_acquire():
            now, stamp = asyncio.get_running_loop().time(), self._lock.stamp
            if stamp != self._torn[0]:
                # Each stamp is waited for once: reads that come later do not wait for it again.
                self._torn = (stamp, now)
            if now >= self._torn[1] + _TORN_WAIT_S:
                # What is being published is not acknowledged yet: an answer without it is a right one.
                return False
            await asyncio.sleep(_LOCK_POLL_S)
            return True
        try:
            if self._cursor.is_torn:
                self._cursor.settle()
        finally:
            self._lock.release()
        return True

    async def resume(self) -> None:
        """Begin to write again where the disk was full and has room; does nothing otherwise."""
        if not self._is_full or self._opening.files.free(self._opening.directory.root) < _ROOM_TO_RESUME:
            return
        await self._acquire()
        try:
            await self._require_writable()
            self._is_full = False
        finally:
            self._release()

    @property
    def _damage(self) -> Sequence[Damage]:
        return [*self._cursor.damage, *self._history.damage]

    def _why_read_only(self) -> str | None:
        if self._damage:
            return f"the log is damaged: {self._damage[0]}; run `knowhub doctor`"
        return self._read_only

    async def _require_writable(self) -> None:
        reason = self._why_read_only()
        if reason is not None:
            raise ReadOnly(reason)
        position = self._cursor.position
        self._require_in_place(position.segment)
        stale_tail = self._log.size(position.segment) != position.offset
        if self._lock.suspect or stale_tail or position.offset >= self._options.segment_bytes:
            await self._start_segment(position)

    def _require_in_place(self, segment: int) -> None:
        """Stop writing where another file has taken the place of one that is open here."""
        # A process that opens the directory now locks or reads that other file: what is written here it never sees.
        for path, is_in_place in (
            (self._opening.directory.lock, self._lock.is_in_place),
            (self._log.path(segment), self._log.is_in_place(segment)),
        ):
            if not is_in_place:
                self._read_only = f"{path.name} was replaced or removed under this process; restart it. Reads go on"
                raise ReadOnly(self._read_only)

    async def _start_segment(self, previous: Position) -> None:
        """Go on in a fresh segment: bytes behind the durable offset of the old one will never be read."""
        try:
            position = await asyncio.get_running_loop().run_in_executor(
                self._writer, start_segment, self._opening, previous, self._log_id, self._history.last_seq + 1
            )
            self._log.stop_writing()
            self._cursor.publish(position)
        except OSError as problem:
            raise self._failed(problem) from problem

    def _new_batch(self) -> Batch:
        self._last_time = max(self._clock.now(), self._last_time)
        offset = self._cursor.position.offset
        return Batch(self.state, self._opening.ids, self._last_time, offset, self._history.last_seq + 1)

    async def _decide(self, batch: Batch, request: Request) -> None:
        """Answer a retry from the log, anything else by its decisions."""
        try:
            answers = self._retries.answers(self._history, request.account, request.idempotency, batch.now)
        except KnowHubError as problem:
            batch.answers.append((request, problem))
            return
        if answers:
            batch.answers.append((request, answers))
        else:
            await batch.run(request)

    async def _write(self, batch: Batch) -> None:
        segment, data = self._cursor.position.segment, batch.data()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._writer, self._log.append, segment, data, batch.offset
            )
        except OSError as problem:
            raise self._failed(problem) from problem
        self._is_full = False
        self._cursor.publish(Position(self._cursor.position.generation, segment, batch.offset + len(data)))
        offset = batch.offset
        for one in batch.decided:
            operation, line = one.operation, PlacedLine(segment, offset, one.line)
            self._note(operation, line)
            self._state_of(operation.account).apply(operation.seq, one.changes, line, batch.pending(operation.account))
            self._tell(operation, one.changes)
            offset += len(one.line)

    def _failed(self, problem: OSError) -> KnowHubError:
        """Trust nothing behind the durable offset again; the kernel may have forgotten the page."""
        self._lock.mark_suspect()
        self._log.stop_writing()
        failure = _as_failure(problem)
        if isinstance(failure, ReadOnly):
            self._read_only = failure.detail
        else:
            self._is_full = True
        return failure

    def _take_in(self, segment: int, line: Line) -> None:
        record = line.record or {}
        placed = PlacedLine(segment, line.offset, line.data)
        # While a log is loaded nobody follows it, and a million rows are taken in: no object is made that nobody needs.
        operation = decode(record if self._followers else {**record, "changes": ()})
        self._note(operation, placed)
        self._state_of(operation.account).load(operation.seq, record["changes"], placed)
        if self._followers:
            self._tell(operation, raw_changes(operation))

    def _note(self, operation: Operation, line: PlacedLine) -> None:
        self._last_time = max(self._last_time, operation.timestamp)
        group_id = operation.group.id if operation.group else None
        self._history.remember(operation.seq, group_id, line.segment, line.offset)
        self._retries.remember(operation, self._last_time)
        self._state_of(operation.account).note_undo(operation.undo_of, operation.operation_id)

    def _state_of(self, account: str) -> AccountState:
        """Return the state of an account that writes, remembered from now on."""
        state = self._states.get(account)
        if state is None:
            state = self._states[account] = self.state(account)
        return state

    def _tell(self, operation: Operation, changes: Sequence[RawChange]) -> None:
        for follower in self._followers:
            follower.follow(operation.account, operation.seq, changes)


def _answer(request: Request, answer: Sequence[Outcome] | Exception) -> None:
    if request.future.done():
        # Who asked has gone; what was written stays written.
        return
    if isinstance(answer, Exception):
        request.future.set_exception(answer)
    else:
        request.future.set_result(answer)


def _as_failure(problem: OSError) -> KnowHubError:
    if problem.errno in NO_ROOM:
        return StorageFull(_FULL)
    return ReadOnly(f"the log could not be written ({problem}); nothing more is taken until a restart. Reads go on")
