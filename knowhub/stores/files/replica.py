"""What memory holds of the log: rows, history, idempotency keys; and the subscribers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from knowhub.core.collection import Collections, table_schemas
from knowhub.core.erasing import ERASED, ERASING, is_erased
from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.operation import Change, Committed, IdempotencyKey, Operation
from knowhub.engine.account import Account, LoadedChange, WrittenChange
from knowhub.engine.disk_rows import LogLine
from knowhub.stores.files.batch import key_name
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.loader import Loaded, StoreContext
from knowhub.stores.files.log.log_line import BaseHeader, decode_base_line, decode_operation, summarize
from knowhub.stores.files.log.log_reader import Damage, LogReader


class Subscriber(Protocol):
    """Something derived from the log. It is called in the order of the operations, before the acknowledgement."""

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None: ...


@dataclass(frozen=True, slots=True)
class _UsedKey:
    seq: int
    timestamp: float
    key: IdempotencyKey


class IdempotencyKeys:
    """The keys of the last `lifetime_s` seconds, read from the log, so known after a restart and elsewhere."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._used: dict[tuple[str, ...], _UsedKey] = {}

    def remember(self, operation: Operation, key: IdempotencyKey, now: float) -> None:
        self._drop_expired(now)
        self._used[key_name(operation.account, key)] = _UsedKey(operation.seq, operation.timestamp, key)

    def find(self, account: str, key: IdempotencyKey, now: float) -> int | None:
        """Return the sequence number of the operation that answered this key. Raises InvalidInput on another body."""
        used = self._used.get(key_name(account, key))
        if used is None or used.timestamp + self._lifetime_s < now:
            return None
        if used.key.body != key.body:
            raise InvalidInput.of("Idempotency-Key", "was used with another body; choose a new key for a new request")
        return used.seq

    async def find_answers(
        self, history: History, account: str, key: IdempotencyKey, now: float
    ) -> Sequence[Committed]:
        """Return all that the request of this key wrote; nothing for a fresh one.

        Raises InvalidInput as `find`, and Conflict where what it wrote was erased since: the first answer is gone.
        """
        seq = self.find(account, key, now)
        first = await history.at_async(seq) if seq is not None else None
        operations = [] if first is None else [first]
        if first is not None and first.group is not None:
            operations = await history.group(account, first.group.id)
        for operation in operations:
            erased = [change.id for change in operation.changes if is_erased(change.after)]
            if erased and not operation.op.startswith(ERASING):
                raise Conflict(f"the request was answered before, and {erased[0]!r} was erased since", {ERASED: erased})
        return [Committed(operation, replayed=True) for operation in operations]

    def oldest_seq(self, now: float) -> int | None:
        """Return the number of the oldest operation that a retry may still ask for; None when there is none."""
        self._drop_expired(now)
        return min((used.seq for used in self._used.values()), default=None)

    def _drop_expired(self, now: float) -> None:
        # Keys are in the order of time, so the expired keys come first.
        while self._used:
            oldest = next(iter(self._used))
            if self._used[oldest].timestamp + self._lifetime_s >= now:
                return
            del self._used[oldest]


class Replica:
    """All acknowledged operations as memory holds them. It belongs to the event loop's thread."""

    def __init__(self, log: ChangeLog, collections: Collections, retry_key_lifetime_s: float) -> None:
        self._log = log
        self.collections = collections
        self.schemas = table_schemas(collections)
        self.accounts: dict[str, Account] = {}
        self.history = History(log)
        self.idempotency_keys = IdempotencyKeys(retry_key_lifetime_s)
        # Each with the collections that it follows; None means every operation.
        self.subscriptions: list[tuple[Subscriber, frozenset[str] | None]] = []
        self.last_time = 0.0
        self.last_erase_seq = 0

    def account(self, account: str) -> Account:
        """Return the rows of an account; no rows, and nothing remembered, for an account that never wrote."""
        return self.accounts.get(account) or Account(self.schemas, self._log.read)

    def begin_after(self, base: BaseHeader) -> None:
        """Forget the operations in a base: only their rows are left."""
        self.history.begin_after(base.last_seq, base.checksum)
        self.last_time = max(self.last_time, base.last_time)
        self.last_erase_seq = max(self.last_erase_seq, base.last_erase_seq)

    def load_rows(self, line: Line) -> None:
        """Load the rows of a line of the base."""
        read = line.base_line or decode_base_line(line.data)
        self._get_or_create(read.account or "").load(0, read.changes or (), line)

    def move_rows(self, line: Line) -> None:
        """Read the rows that stay on disk from a line of a base from now on, if they are still the same."""
        read = line.base_line
        if read is not None and read.account is not None and read.changes is not None:
            self._get_or_create(read.account).move(read.changes, line)

    def load_operation(self, line: Line) -> None:
        """Load an operation that was read from the log.

        Raises one of SHAPE_ERRORS for a line that holds no operation, or a row of another shape.
        """
        read = line.operation or decode_operation(line.data)
        # At start there are no subscribers and millions of rows, so no change objects are made.
        operation = line.full_operation if self.subscriptions else summarize(read)
        if operation is None:
            raise ValueError("its rows cannot be read")
        for _ in self.apply(operation, read.changes, line):
            pass

    def apply(
        self, operation: Operation, changes: Sequence[LoadedChange | WrittenChange], line: LogLine
    ) -> Iterator[None]:
        """Apply an operation with its changes, from its line of the log.

        It yields after every few rows. Until it ends, only a part of the operation is applied.
        """
        # Rows first: if they cannot be loaded, the history must not know the operation.
        yield from self._get_or_create(operation.account).load_in_steps(operation.seq, changes, line)
        self._remember(operation, line)
        self._notify(operation)

    def _remember(self, operation: Operation, line: LogLine) -> None:
        self.last_time = max(self.last_time, operation.timestamp)
        self.history.remember(operation, line)
        if operation.idempotency is not None:
            self.idempotency_keys.remember(operation, operation.idempotency, self.last_time)
        if operation.undo_of is not None:
            self._get_or_create(operation.account).record_undo(operation.undo_of, operation.operation_id)
        if operation.op.startswith(ERASING):
            self.last_erase_seq = operation.seq

    def _get_or_create(self, account: str) -> Account:
        """Return the state of an account that writes, remembered from now on."""
        state = self.accounts.get(account)
        if state is None:
            state = self.accounts[account] = self.account(account)
        return state

    def _notify(self, operation: Operation) -> None:
        names = {change.collection for change in operation.changes}
        for subscriber, collections in self.subscriptions:
            changes = operation.changes
            if collections is not None:
                if collections.isdisjoint(names):
                    continue
                changes = [change for change in changes if change.collection in collections]
            subscriber.follow(operation.account, operation.seq, changes)


class LogFollower:
    """How far this process has applied the log to its replica."""

    def __init__(self, context: StoreContext, replica: Replica, loaded: Loaded) -> None:
        self._log = context.log
        self._lock = context.lock
        self._replica = replica
        self._stamp = loaded.stamp
        self.damage = list(loaded.damage)
        self._move_to(loaded.position)

    @property
    def is_lagging(self) -> bool:
        """Whether another process has published something; one memory read."""
        return self._lock.stamp != self._stamp

    @property
    def has_open_publication(self) -> bool:
        """Whether a publication in LOCK has begun and not ended: its writer still runs, or died."""
        return self._lock.read() is None

    def publish(self, position: Position) -> None:
        """Move to `position` and tell every process that the log is durable up to there. Under the lock."""
        self._stamp = self._lock.publish(position, self._log.inode(position.segment))
        self._move_to(position)

    def catch_up(self, limit: int) -> bool:
        """Apply what others have published, about `limit` bytes at most; True when nothing is left."""
        read = self._lock.read()
        if read is None or self.damage:
            return True
        stamp, target = read
        if target.generation != self._log.generation:
            # A rewrite was published: its files replace those that are open here.
            self._log.reload()
        while self.position.segment < target.segment:
            header, length = self._log.header(self.position.segment + 1)
            if header is None or header.previous_length is None:
                path = self._log.path(self.position.segment + 1)
                self.damage.append(Damage(str(path), 0, "the segment's header is damaged"))
                return True
            if not self._apply_to(header.previous_length, limit):
                return bool(self.damage)
            self._move_to(Position(header.generation, header.segment, length))
        if not self._apply_to(target.offset, limit):
            return bool(self.damage)
        self._stamp = stamp
        # A rewrite raises the generation, and leaves the segment and the offset as they are.
        self._move_to(target)
        return True

    def catch_up_during_publication(self, limit: int) -> None:
        """Apply what was acknowledged in this segment before a publication that does not end."""
        target = self._lock.read_during_publication()
        # Either offset will do: a line is durable before its publication begins. One of another segment will not,
        # as it cannot be told which of the two it belongs to.
        if target is not None and target.segment == self.position.segment and not self.damage:
            while not self._apply_to(target.offset, limit) and not self.damage:
                continue

    def recover(self) -> None:
        """Find the end from the log alone, after a writer died while it published. Under the lock. Raises OSError."""
        self._log.reload()
        for segment in [number for number in self._log.segments() if number >= self.position.segment]:
            following, _ = self._log.header(segment + 1) if segment + 1 in self._log.segments() else (None, 0)
            if segment > self.position.segment:
                header, length = self._log.header(segment)
                self._move_to(Position(header.generation if header else 1, segment, length))
            self._read(None if following is None else following.previous_length or 0)
        self._log.sync(self.position.segment)
        self._log.sync_folder()
        generation = max(self.position.generation, self._log.generation)
        self.publish(Position(generation, self.position.segment, self.position.offset))

    def _move_to(self, position: Position) -> None:
        # What others have not yet read from here on, no compaction may drop.
        self._log.lock_segment(position.segment)
        self.position = position

    def _apply_to(self, end: int, limit: int) -> bool:
        """Apply lines up to offset `end`, about `limit` bytes of them; True when that is reached."""
        segment, start = self.position.segment, self.position.offset
        if start == end <= self._log.size(segment):
            return True
        stop = min(end, start + limit)
        if stop < end:
            # Never cut a line in two: the piece ends where the line that crosses the limit does.
            stop += len(self._log.line_at(segment, stop))
        self._read(stop)
        return self.position.offset >= end

    def _read(self, durable: int | None) -> None:
        """Apply the lines of this segment up to its durable end; None if only the log itself can tell that."""
        position = self.position
        reader = LogReader(self._log, self._replica, self._replica.history.last_seq)
        reader.damage, reader.offset = self.damage, position.offset
        try:
            size = self._log.size(position.segment)
            reader.offset = reader.read_lines(position.segment, position.offset, size, durable)
        finally:
            self._move_to(Position(position.generation, position.segment, reader.offset))
