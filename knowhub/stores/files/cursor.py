"""Following the log: taking in, in order, what other processes have acknowledged."""

from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.loader import Loaded, StoreContext
from knowhub.stores.files.log.log_reader import LogReader
from knowhub.stores.files.log.recovery import Damage
from knowhub.stores.files.replica import Replica


class LogCursor:
    """How far this process has applied the log to its replica."""

    def __init__(self, context: StoreContext, replica: Replica, loaded: Loaded) -> None:
        self._log = context.log
        self._lock = context.lock
        self._replica = replica
        self._stamp = loaded.stamp
        self._position = loaded.position
        self.damage = list(loaded.damage)
        self._log.hold(loaded.position.segment)

    @property
    def position(self) -> Position:
        return self._position

    @position.setter
    def position(self, position: Position) -> None:
        # What others have not yet read from here on, no compaction may drop.
        self._log.hold(position.segment)
        self._position = position

    @property
    def is_behind(self) -> bool:
        """Whether another process has published something; one memory read."""
        return self._lock.stamp != self._stamp

    @property
    def is_publishing(self) -> bool:
        """Whether LOCK cannot be read as one: a writer is about to finish, or died while it published."""
        return self._lock.read() is None

    def publish(self, position: Position) -> None:
        """Move to `position` and tell every process that the log is durable up to there. Under the lock."""
        self._stamp = self._lock.publish(position, self._log.inode(position.segment))
        self.position = position

    def catch_up(self, limit: int) -> bool:
        """Apply what others have published, about `limit` bytes at most; True when nothing is left."""
        read = self._lock.read()
        if read is None or self.damage:
            return True
        stamp, target = read
        if target.generation != self._log.active.generation:
            # A rewrite has been published: its files take the place of those that are open here.
            self._log.reload()
        while self.position.segment < target.segment:
            header, length = self._log.header(self.position.segment + 1)
            if header is None or header.previous_length is None:
                self._name_damage(self.position.segment + 1, 0, "the segment's header is damaged")
                return True
            if not self._apply_to(header.previous_length, limit):
                return bool(self.damage)
            self.position = Position(header.generation, header.segment, length)
        if not self._apply_to(target.offset, limit):
            return bool(self.damage)
        self._stamp = stamp
        # A rewrite raises the generation, and leaves the segment and the offset as they are.
        self.position = target
        return True

    def catch_up_publishing(self, limit: int) -> None:
        """Apply what was acknowledged before a publication that does not end, within this segment."""
        target = self._lock.read_publishing()
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
                self.position = Position(header.generation if header else 1, segment, length)
            self._read(None if following is None else following.previous_length or 0)
        self._log.sync(self.position.segment)
        self._log.sync_folder()
        generation = max(self.position.generation, self._log.active.generation)
        self.publish(Position(generation, self.position.segment, self.position.offset))

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
            self.position = Position(position.generation, position.segment, reader.offset)

    def _name_damage(self, segment: int, offset: int, reason: str) -> None:
        self.damage.append(Damage(str(self._log.path(segment)), offset, reason))
