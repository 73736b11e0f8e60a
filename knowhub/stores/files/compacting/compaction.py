"""Compaction: a base takes the place of the oldest segments, and their operations are forgotten (KT-097, KT-250)."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from knowhub.operations.model import Compacted
from knowhub.stores.files.apart import Apart
from knowhub.stores.files.claims import claimed
from knowhub.stores.files.compacting.base_writer import check_base
from knowhub.stores.files.filesystem import failure_of
from knowhub.stores.files.group_commit import GroupCommit
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.cursor import LogCursor
from knowhub.stores.files.log.loading import Opening
from knowhub.stores.files.log.log_base import BASE, BaseHeader
from knowhub.stores.files.log.recovery import Damage
from knowhub.stores.files.replica import Replica

_WAIT_FOR_OTHERS_S = 2.0
_POLL_S = 0.05
_TEMPORARY, _TEMPORARY_DIGITS = ".tmp", 16
_REFUSAL = "another process compacts this directory, or erases from it; try again when it has ended"


class Compaction:
    """Writes a base apart, puts it in place under the writers' lock, and finds in it the rows that stay on disk."""

    def __init__(
        self, opening: Opening, log_id: str, replica: Replica, cursor: LogCursor, commits: GroupCommit
    ) -> None:
        self._opening = opening
        self._log_id = log_id
        self._replica = replica
        self._cursor = cursor
        self._commits = commits
        self._log = opening.log
        self._generation = cursor.position.generation
        self._adopting: asyncio.Task[None] | None = None
        self._running = asyncio.Lock()

    def is_worth_it(self, retention_s: float) -> bool:
        """Tell whether so much would go that a base is worth its writing: half of what the last one had, and more."""
        base, _ = self.files()
        going = [segment for segment in self._droppable(retention_s) if segment != self._cursor.position.segment]
        return sum(map(self._log.size, going)) > (self._log.size(base) // 2 if base is not None else 0)

    async def run(self, retention_s: float, apart: Apart) -> Compacted:
        """Forget the operations that are older than `retention_s` seconds, a segment at a time.

        What a retry key may still ask for stays, and so does what another process has yet to read. Raises Conflict
        while another process compacts or erases, ReadOnly, StorageFull and Unavailable.
        """
        directory, files = self._opening.directory, self._opening.files
        async with self._running, claimed(files, directory.change_log, self._commits.patience_s, _REFUSAL):
            base, held = await self._base_to_write(retention_s)
            # What a compaction that was killed has left behind goes too.
            self._sweep()
            await self._drop_superseded()
            if base is None:
                size = self._size()
                return Compacted(bytes_before=size, bytes_after=size, held_by_others=held)
            forgotten, before = base.last_seq - self._replica.history.base_seq, self._size()
            path = self._log.path(BASE | base.segment)
            # No other may ever write to it: whoever was to write an earlier one may still do so.
            temporary = path.with_name(f"{path.name}.{self._opening.ids.hex(_TEMPORARY_DIGITS)}{_TEMPORARY}")
            order = {"header": asdict(base), "path": str(temporary)}
            try:
                made = await apart("write_base", directory.root, order)
                await self._install(base, temporary, made)
            except BaseException:
                with suppress(OSError):
                    files.remove(temporary)
                raise
            self.follow()
            await self._drop_superseded()
            return Compacted(forgotten, made["rows"], before, self._size(), held)

    def follow(self) -> None:
        """Take in that the log was compacted, here or by another process: what is in the base is history no more.

        The rows that stay on disk are looked up in it in the background: until then they are read from what is open.
        """
        if self._cursor.position.generation == self._generation:
            return
        self._generation, bases = self._cursor.position.generation, self._log.bases()
        header, start = self._log.base_header(bases[-1]) if bases else (None, 0)
        if header is not None and header.last_seq > self._replica.history.base_seq:
            self._replica.begin_after(header)
            if self._adopting is not None:
                self._adopting.cancel()
            adopting = self._adopt(bases[-1], start)
            self._adopting = asyncio.get_running_loop().create_task(adopting, name="adopt-base")

    async def _adopt(self, number: int, start: int) -> None:
        """Find in a base the rows that stay on disk, a little at a time, and close what it stands for."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for line in self._log.lines(number, start, self._log.size(number)):
            if line.base_line is None:
                # What is open here still reads well: it stays open, and the next opening must not be the first to see.
                what = Damage(str(self._log.path(number)), line.offset, "its checksum or its JSON is wrong")
                self._replica.history.damage.append(what)
                return
            self._replica.move_rows(number, line)
            # As long a rest as the work was: requests have half of the time, and nobody waits for this.
            await asyncio.sleep(loop.time() - began)
            began = loop.time()
        for opened in self._log.opened():
            if _is_superseded(opened, number) and (descriptor := self._log.release(opened)) is not None:
                # The file is gone already: closing it frees its room, which takes tens of milliseconds.
                await asyncio.to_thread(self._opening.files.close, descriptor)

    def files(self) -> tuple[int | None, list[int]]:
        """Return the numbers of the base that the log begins with, None where there is none, and of its segments."""
        bases = self._log.bases()
        return bases[-1] if bases else None, self._segments()

    async def close(self) -> None:
        """Break off looking up rows: nobody will read them."""
        if self._adopting is not None:
            self._adopting.cancel()
            await asyncio.wait([self._adopting])

    async def _drop_superseded(self) -> None:
        """Remove the files that the newest base stands for, as far as nobody else needs them. Raises OSError."""
        bases = self._log.bases()
        numbers = [*bases, *self._log.segments()]
        for number in sorted(numbers, key=lambda one: (one & ~BASE, one)):
            if bases and _is_superseded(number, bases[-1]):
                if not self._log.is_free(number):
                    return
                # Freeing the room of a large file takes tens of milliseconds.
                await asyncio.to_thread(self._log.drop, number)

    async def _base_to_write(self, retention_s: float) -> tuple[BaseHeader | None, bool]:
        async with self._commits.writing():
            history = self._replica.history
            segments = self._droppable(retention_s)
            if segments and segments[-1] == self._cursor.position.segment:
                # Only whole segments go: what was written so far becomes one.
                await self._commits.end_segment()
            free = await self._free(segments)
            last_seq = self._last_seq_of(free[-1]) if free else history.base_seq
            operation = history.at(last_seq)
            if operation is None:
                return None, len(free) < len(segments)
            header = BaseHeader(
                log_id=self._log_id,
                segment=free[-1] + 1,
                generation=self._cursor.position.generation + 1,
                last_seq=last_seq,
                checksum=history.checksum(last_seq),
                last_time=operation.timestamp,
                erases=self._replica.erases,
            )
            return header, len(free) < len(segments)

    def _droppable(self, retention_s: float) -> list[int]:
        """Return the oldest segments of which every operation is old enough, and answers no retry."""
        history, now = self._replica.history, self._opening.clock.now()
        oldest_key = self._replica.retries.oldest_seq(now)
        found = []
        for segment in self._segments():
            last_seq = self._last_seq_of(segment)
            operation = history.at(last_seq)
            is_young = operation is not None and operation.timestamp > now - retention_s
            if last_seq < history.base_seq or is_young or (oldest_key is not None and last_seq >= oldest_key):
                break
            found.append(segment)
        # A segment that nothing was written to yet stays the one that is written to.
        if found and found[-1] == self._cursor.position.segment and self._is_bare(found[-1]):
            found.pop()
        return found

    async def _free(self, segments: list[int]) -> list[int]:
        """Return the first ones that no other process stands in; wait a little for one that is about to move on."""
        deadline = asyncio.get_running_loop().time() + _WAIT_FOR_OTHERS_S
        free: list[int] = []
        for segment in segments:
            while not self._log.is_free(segment):
                if asyncio.get_running_loop().time() > deadline:
                    return free
                await asyncio.sleep(_POLL_S)
            free.append(segment)
        return free

    def _sweep(self) -> None:
        """Remove what compactions were writing that died. Only while this one has its claim."""
        folder = self._opening.directory.change_log
        for name in self._opening.files.names(folder):
            if name.startswith("base-") and name.endswith(_TEMPORARY):
                self._opening.files.remove(folder / name)

    async def _install(self, base: BaseHeader, temporary: Path, made: Mapping[str, Any]) -> None:
        files, path = self._opening.files, self._log.path(BASE | base.segment)
        async with self._commits.writing():

            def put_in_place() -> None:
                check_base(files, temporary, base, made)
                files.rename(temporary, path)
                files.sync_folder(path.parent)

            try:
                await asyncio.to_thread(put_in_place)
            except OSError as problem:
                # The log stands as it was: writing goes on.
                raise failure_of(problem, "the log was not compacted") from problem
            position = self._cursor.position
            self._cursor.publish(Position(base.generation, position.segment, position.offset))

    def _segments(self) -> list[int]:
        first = self._first_segment()
        return [segment for segment in self._log.segments() if segment >= first]

    def _first_segment(self) -> int:
        bases = self._log.bases()
        return bases[-1] & ~BASE if bases else self._log.segments()[0]

    def _last_seq_of(self, segment: int) -> int:
        if segment == self._cursor.position.segment:
            return self._replica.history.last_seq
        following, _ = self._log.header(segment + 1)
        return following.first_seq - 1 if following is not None else 0

    def _is_bare(self, segment: int) -> bool:
        header, _ = self._log.header(segment)
        return header is None or header.first_seq > self._replica.history.last_seq

    def _size(self) -> int:
        bases = self._log.bases()[-1:]
        return sum(self._log.size(number) for number in (*bases, *self._segments()))


def _is_superseded(number: int, base: int) -> bool:
    """Tell whether a file of the log stands before a base."""
    return number < base if number & BASE else number < base & ~BASE
