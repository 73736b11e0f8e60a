"""Following the log: taking in, in order, what other processes have acknowledged."""

from collections.abc import Callable
from functools import partial

from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.log.change_log import ChangeLog, Line, lines_of
from knowhub.stores.files.log.recovery import Damage, check_segment, try_load


class LogCursor:
    """How far this process has applied the log. `load_operation(segment, line)` applies one line."""

    def __init__(
        self,
        log: ChangeLog,
        lock: LockFile,
        take_in: Callable[[int, Line], None],
        last_seq: Callable[[], int],
        start: tuple[Position, int],
    ) -> None:
        self._log = log
        self._lock = lock
        self._take_in = take_in
        self._last_seq = last_seq
        self._stamp = start[1]
        self._position = start[0]
        self.damage: list[Damage] = []
        log.hold(start[0].segment)

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
            end = self._log.size(segment) if following is None else following.previous_length or 0
            start = self.position.offset
            data = self._log.read(segment, start, end)
            path, durable = self._log.path(segment), following is not None
            judged = check_segment(path, data, start, self._last_seq() + 1, durable=durable)
            take = partial(self._take_in, segment)
            self.damage += [damage for line in judged.lines if (damage := try_load(path, line, take))]
            self.damage += judged.damage
            self.position = Position(self.position.generation, segment, judged.end)
        self._log.sync(self.position.segment)
        self._log.sync_folder()
        generation = max(self.position.generation, self._log.active.generation)
        self.publish(Position(generation, self.position.segment, self.position.offset))

    def _apply_to(self, end: int, limit: int) -> bool:
        """Apply lines up to offset `end`, about `limit` bytes of them; True when that is reached."""
        segment, start = self.position.segment, self.position.offset
        stop = min(end, start + limit)
        if stop < end:
            # Never cut a line in two: the piece ends where the line that crosses the limit does.
            stop += len(self._log.line_at(segment, stop))
        for line in lines_of(self._log.read(segment, start, stop), start):
            told = line.operation if line.record is not None else None
            if told is None or told.seq != self._last_seq() + 1:
                self._name_damage(segment, line.offset, "an acknowledged line is damaged")
                return False
            odd = try_load(self._log.path(segment), line, partial(self._take_in, segment))
            if odd is not None:
                self.damage.append(odd)
                return False
            self.position = Position(self.position.generation, segment, line.offset + len(line.data))
        if self.position.offset < stop:
            self._name_damage(segment, self.position.offset, "the file ends here, acknowledged bytes are gone")
        return self.position.offset >= end

    def _name_damage(self, segment: int, offset: int, reason: str) -> None:
        self.damage.append(Damage(str(self._log.path(segment)), offset, reason))
