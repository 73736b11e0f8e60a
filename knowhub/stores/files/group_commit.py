"""Writing: commits that wait together are decided one after another, and made durable with one sync."""

import asyncio
import operator
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from knowhub.core.clock import CooperativePause
from knowhub.core.errors import KnowHubError, ReadOnly, StorageFull, Unavailable
from knowhub.core.operation import Decide, IdempotencyKey, Outcome, RunDecision
from knowhub.engine.disk_rows import LogLine
from knowhub.stores.files.batch import Batch, Request
from knowhub.stores.files.filesystem import NO_ROOM
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.loader import StoreContext, start_segment
from knowhub.stores.files.log.log_reader import Damage
from knowhub.stores.files.replica import LogFollower, Replica

CATCH_UP_BYTES = 4 * 1024 * 1024
_DECISIONS_PER_BATCH = 512
_BYTES_PER_BATCH = 64 * 1024 * 1024
_LOCK_POLL_S = 0.001
_PUBLISH_WAIT_S = 0.25
_ROOM_TO_RESUME = 4 * 1024 * 1024
_FULL = "the disk is full; nothing was written. Reads go on; writing resumes when there is room"

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The store's limits, in seconds and bytes, and how it runs decisions."""

    lock_timeout_s: float = 10.0
    segment_bytes: int = 64 * 1024 * 1024
    retry_key_lifetime_s: float = 24 * 3600.0
    # Tests run each decision more than once.
    run_decision: RunDecision = operator.call


class GroupCommit:
    """Appends to the log. Only the write and its sync run in another thread."""

    def __init__(
        self, context: StoreContext, options: StoreOptions, log_id: str, replica: Replica, follower: LogFollower
    ) -> None:
        self._context = context
        self._options = options
        self._log_id = log_id
        self._replica = replica
        self._follower = follower
        self._log = context.log
        self._lock = context.lock
        self._queue: deque[Request] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-writer")
        self._read_only: str | None = None
        self._is_full = False
        self._awaited_stamp = (0, 0.0)
        self._holds_lock = False
        # The accounts of the batch that is being applied.
        self.applying: set[str] = set()
        self._applied = asyncio.Event()

    @property
    def damage(self) -> Sequence[Damage]:
        return [*self._follower.damage, *self._replica.history.damage]

    @property
    def lock_timeout_s(self) -> float:
        """How long a write waits for what another process holds, in seconds."""
        return self._options.lock_timeout_s

    def refusal_reason(self) -> str | None:
        """Return why writes are refused now; None if they are not."""
        return self._read_only_reason() or (_FULL if self._is_full else None)

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None
    ) -> Sequence[Outcome]:
        """Run decisions with nothing between them; all are durable, or none is."""
        loop = asyncio.get_running_loop()
        request = Request(account, actor, decides, idempotency, loop.create_future())
        self._queue.append(request)
        if self._flusher is None or self._flusher.done():
            self._flusher = loop.create_task(self._drain(), name="log-flusher")
        return await request.future

    async def close(self) -> None:
        """Write what is queued, and end the thread."""
        if self._flusher is not None:
            await self._flusher
        self._thread.shutdown(wait=True)

    @asynccontextmanager
    async def lock_for_write(self) -> AsyncIterator[None]:
        """Hold the writers' lock, with everything applied that others wrote, and a segment that can be written to.

        Raises ReadOnly, StorageFull and Unavailable.
        """
        async with self.lock_log():
            await self._check_writable()
            yield

    @asynccontextmanager
    async def lock_log(self) -> AsyncIterator[None]:
        """Hold the writers' lock, with everything applied that others wrote. Raises Unavailable."""
        # Polling, not waiting: a thread that sleeps in flock could not be called back from a stopped process. Within
        # this process the lock is held by one task at a time: flock does not keep two of one process apart.
        deadline = asyncio.get_running_loop().time() + self._options.lock_timeout_s
        while self._holds_lock or not self._lock.try_acquire():
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    f"another process has held the log for {self._options.lock_timeout_s:g} s; nothing was written"
                )
            await asyncio.sleep(_LOCK_POLL_S)
        self._holds_lock = True
        try:
            if self._follower.is_lagging:
                if self._follower.has_open_publication:
                    self._follower.recover()
                while not self._follower.catch_up(CATCH_UP_BYTES):  # noqa: ASYNC110 -- each turn applies more, until nothing is left
                    await asyncio.sleep(0)
            yield
        finally:
            self._holds_lock = False
            self._lock.release()

    async def in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        """Do something with the log's files that may wait for the disk. Raises ReadOnly and StorageFull."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as problem:
            raise self._mark_failed(problem) from problem

    async def end_segment(self) -> None:
        """Continue in a new segment: bytes after the durable offset of the old one are never read. Needs the lock."""
        previous, first_seq = self._follower.position, self._replica.history.last_seq + 1
        # Others who would append to the old segment must learn of the new one, also if this process dies in between.
        # After a failed write nobody appends to the old segment, and its end must not be looked for.
        is_announced = not self._lock.is_suspect and self._log.size(previous.segment) == previous.offset

        def start() -> Position:
            try:
                return start_segment(self._context, previous, self._log_id, first_seq)
            except OSError:
                with suppress(OSError):
                    self._context.files.remove(self._log.path(previous.segment + 1))
                raise

        if is_announced:
            self._lock.begin_publication()
        try:
            position = await self.in_thread(start)
        except KnowHubError:
            if is_announced:
                self._lock.cancel_publication()
            raise
        self._log.close_writer()
        try:
            self._follower.publish(position)
        except OSError as problem:
            raise self._mark_failed(problem) from problem

    async def write(self, requests: Sequence[Request]) -> Batch:
        """Decide requests, append, sync, publish and apply. Needs the lock."""
        batch = self.new_batch(self._follower.position.offset)
        for request in requests:
            if batch.size > _BYTES_PER_BATCH or (request.idempotency is not None and batch.has_key_of(request)):
                # A retry is answered from what is durable.
                break
            await self.decide(batch, request)
        if not batch.decided:
            return batch
        segment = self._follower.position.segment
        await self.in_thread(lambda: self._log.append(segment, batch.pieces(), batch.offset))
        self._is_full = False
        self._follower.publish(Position(self._follower.position.generation, segment, batch.offset + batch.size))
        await self.apply(batch, segment)
        return batch

    async def wait_for_publication(self) -> bool:
        """Wait a moment for another writer to end its publication; if it died, find the end of the log in its place.

        Returns False, without waiting, if this process is publishing, or if the publication takes so long that its
        writer must have been stopped.
        """
        if self._holds_lock:
            return False
        if not self._lock.try_acquire():
            now, stamp = asyncio.get_running_loop().time(), self._lock.stamp
            if stamp != self._awaited_stamp[0]:
                # Each stamp is waited for once: reads that come later do not wait for it again.
                self._awaited_stamp = (stamp, now)
            if now >= self._awaited_stamp[1] + _PUBLISH_WAIT_S:
                # What is being published is not acknowledged yet: an answer without it is correct.
                return False
            await asyncio.sleep(_LOCK_POLL_S)
            return True
        try:
            if self._follower.has_open_publication:
                self._follower.recover()
        finally:
            self._lock.release()
        return True

    async def resume(self) -> None:
        """Resume writing if the disk was full and has room now."""
        if self._is_full and self._context.files.free(self._context.directory.root) >= _ROOM_TO_RESUME:
            async with self.lock_for_write():
                self._is_full = False

    async def _drain(self) -> None:
        while self._queue:
            requests: list[Request] = []
            while self._queue and len(requests) < _DECISIONS_PER_BATCH:
                requests.append(self._queue.popleft())
            try:
                async with self.lock_for_write():
                    batch = await self.write(requests)
                answers, left = batch.answers, requests[len(batch.answers) :]
            except Exception as problem:  # noqa: BLE001 -- every waiting request must hear of it, whatever it is
                answers, left = [(request, problem) for request in requests], []
            self._queue.extendleft(reversed(left))
            for request, answer in answers:
                # Where the client has gone, what was written stays.
                if request.future.done():
                    continue
                if isinstance(answer, Exception):
                    request.future.set_exception(answer)
                else:
                    request.future.set_result(answer)

    def _read_only_reason(self) -> str | None:
        if self.damage:
            return f"the log is damaged: {self.damage[0]}; run `knowhub doctor`"
        return self._read_only

    async def _check_writable(self) -> None:
        """Raise ReadOnly if nothing may be written, as where LOCK or the segment was replaced by another file."""
        reason = self._read_only_reason()
        if reason is not None:
            raise ReadOnly(reason)
        position = self._follower.position
        # A process that opens the directory now uses the other file, and would never see what is written here.
        if not (self._lock.is_in_place and self._log.is_in_place(position.segment)):
            path = self._log.path(position.segment) if self._lock.is_in_place else self._context.directory.lock
            self._read_only = f"{path.name} was replaced or removed under this process; restart it. Reads go on"
            raise ReadOnly(self._read_only)
        stale_tail = self._log.size(position.segment) != position.offset
        if self._lock.is_suspect or stale_tail or position.offset >= self._options.segment_bytes:
            await self.end_segment()

    def new_batch(self, offset: int) -> Batch:
        """Return a batch whose first line will begin at this offset of its segment. Needs the lock."""
        replica = self._replica
        replica.last_time = max(self._context.clock.now(), replica.last_time)
        next_seq, run_decision = replica.history.last_seq + 1, self._options.run_decision
        return Batch(
            accounts=replica.account,
            collections=replica.collections,
            ids=self._context.ids,
            now=replica.last_time,
            offset=offset,
            next_seq=next_seq,
            run_decision=run_decision,
        )

    async def decide(self, batch: Batch, request: Request) -> None:
        """Answer a retry from the log, anything else by its decisions."""
        replica, key = self._replica, request.idempotency
        if key is not None:
            try:
                answers = await replica.idempotency_keys.find_answers(replica.history, request.account, key, batch.now)
            except KnowHubError as problem:
                batch.answers.append((request, problem))
                return
            if answers:
                batch.answers.append((request, answers))
                return
        await batch.run(request)

    async def apply(self, batch: Batch, segment: int) -> None:
        """Apply a batch that was written to a segment and published. Needs the lock."""
        # Applying a large group at once would stall the event loop. Reads of its account wait until the end.
        self.applying, done = {item.operation.account for item in batch.decided}, asyncio.Event()
        self._applied = done
        pace, offset = CooperativePause(), batch.offset
        try:
            for number, item in enumerate(batch.decided):
                if number:
                    await pace.pause()
                for _ in self._replica.apply(item.operation, item.changes, LogLine(segment, offset, item.line)):
                    # No pause within an operation that is no part of a group: even those who do not wait see all of it.
                    if item.operation.group is not None:
                        await pace.pause()
                offset += len(item.line)
        finally:
            self.applying = set()
            done.set()

    async def wait_applied(self, account: str | None) -> None:
        """Wait until what was written to an account, or to all, is applied."""
        while self.applying if account is None else account in self.applying:
            await self._applied.wait()

    def _mark_failed(self, problem: OSError) -> KnowHubError:
        """Mark the segment as suspect: the kernel may have dropped the page that it could not write."""
        self._lock.mark_suspect()
        self._log.close_writer()
        if problem.errno in NO_ROOM:
            self._is_full = True
            return StorageFull(_FULL)
        failure = ReadOnly(
            f"the log could not be written ({problem}); nothing more is taken until a restart. Reads go on"
        )
        self._read_only = failure.detail
        return failure
