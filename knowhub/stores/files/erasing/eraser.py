"""Erase a row: rewrite the files that hold it, and publish them together with the operation that erases it."""

import asyncio
import gzip
import os
import tarfile
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from knowhub.core.erasing import EraseRequest
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Operation, Outcome
from knowhub.core.projection import ErasureProgress
from knowhub.stores.files.batch import Batch, Request
from knowhub.stores.files.data_directory import DataDirectory, list_timestamps, snapshot_path
from knowhub.stores.files.erasing.erase_plan import ErasePlan, contains_row, erase_from_quarantine, plan_erase
from knowhub.stores.files.erasing.line_eraser import Target
from knowhub.stores.files.filesystem import FileSystem, remove_partial_files, translate_errors
from knowhub.stores.files.group_commit import GroupCommit
from knowhub.stores.files.lock import Position, lock_folder, try_flock, try_lock_folder
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.loader import StoreContext
from knowhub.stores.files.log.log_line import BASE
from knowhub.stores.files.log.log_manifest import MANIFEST, SEGMENT_PREFIX, LogFileName, LogFiles, LogManifest
from knowhub.stores.files.log.rewrite import (
    publish,
    remove_unused_files,
    rewrite_file,
    transform_lines,
    write_first_manifest,
    write_version,
)
from knowhub.stores.files.maintenance import Maintenance
from knowhub.stores.files.replica import LogFollower, Replica

# Writers wait while this much is copied; a larger segment is closed first.
_MAX_OPEN_BYTES: Final = 1024 * 1024
_TRIES: Final = 2
_WAIT_FOR_READERS_S: Final = 2.0
_POLL_S: Final = 0.02


@dataclass(slots=True)
class _Rewrite:
    """The new files of an erase that is not published yet. `end` is the end of the log when they were written."""

    plan: ErasePlan
    end: Position
    names: dict[int, LogFileName] = field(default_factory=dict)


class Eraser:
    """Erases rows of one data directory."""

    def __init__(
        self,
        context: StoreContext,
        replica: Replica,
        follower: LogFollower,
        commits: GroupCommit,
        finish_remap: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._files = context.files
        self._directory = context.directory
        self._log = context.log
        self._replica = replica
        self._follower = follower
        self._commits = commits
        self._finish_remap = finish_remap
        # For each erase its sequence number and the manifest before it, which other processes lock while they use it.
        self._unconfirmed: list[tuple[int, int]] = []
        self._has_unused_files = False

    async def commit(self, wanted: EraseRequest) -> Outcome:
        """Erase a row. When this returns, no file of the log contains it.

        Another process may still have a replaced file open: see `erased_through_seq`.

        Files are copied without the writers' lock. If somebody writes about the row meanwhile, copying starts again.
        A crash leaves the row complete, or erased. Raises what its decision raises, with nothing written; Conflict if
        a compaction or a snapshot takes longer than the lock timeout; ReadOnly, StorageFull and Unavailable.
        """
        wait_s = self._commits.lock_timeout_s
        compacting = "the log is being compacted; erase when that has ended"
        archiving = "a snapshot is being made or restored; erase after that"
        # No compaction and no snapshot copies the log meanwhile. In this order, as a snapshot locks them too.
        async with (
            lock_folder(self._files, self._directory.snapshots, wait_s, archiving),
            lock_folder(self._files, self._directory.change_log, wait_s, compacting),
        ):
            outcome = await self._erase(wanted)
            await self._finish_remap()
            # Wait a little until no other process has a replaced file open. `erased_through_seq` tells whether one has.
            deadline = asyncio.get_running_loop().time() + _WAIT_FOR_READERS_S
            while self.erased_through_seq is not None:
                if asyncio.get_running_loop().time() > deadline:
                    break
                await asyncio.sleep(_POLL_S)
            await asyncio.to_thread(self._remove_unused_files)
        return outcome

    async def remove_replaced_files(self) -> None:
        """Remove replaced files that another process had open when their row was erased. Raises OSError."""
        if self._has_unused_files and self.erased_through_seq is None:
            with try_lock_folder(self._files, self._directory.change_log) as is_locked:
                if is_locked:
                    await asyncio.to_thread(self._remove_unused_files)

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that all processes have applied; None if no erase waits for a process.

        A process that has not applied an erase may have files open that still contain the row.
        """
        while self._unconfirmed and try_flock(self._unconfirmed[0][1]):
            self._files.close(self._unconfirmed.pop(0)[1])
        return self._unconfirmed[0][0] - 1 if self._unconfirmed else None

    def close(self) -> None:
        while self._unconfirmed:
            self._files.close(self._unconfirmed.pop()[1])

    async def _erase(self, wanted: EraseRequest) -> Outcome:
        for _ in range(_TRIES):
            async with self._commits.lock_for_write():
                end = await self._close_segment()
            rewrite = await self._rewrite(wanted, end)
            try:
                async with self._commits.lock_for_write():
                    if not await asyncio.to_thread(self._is_stale, rewrite):
                        return await self._publish(wanted, rewrite)
            finally:
                self._discard(rewrite)
        # Others write about the row again and again: now they wait.
        async with self._commits.lock_for_write():
            rewrite = await self._rewrite(wanted, await self._close_segment())
            try:
                return await self._publish(wanted, rewrite)
            finally:
                self._discard(rewrite)

    async def _close_segment(self) -> Position:
        """Return the end of the log, after starting a new segment if the current one is large. Needs the lock."""

        def prepare() -> None:
            write_first_manifest(self._files, self._log, self._follower.position.generation + 1)
            remove_unused_files(self._files, self._log)

        # A process that died while it published may have left files that nobody knows.
        self._log.reload()
        with translate_errors("nothing was erased"):
            await asyncio.to_thread(prepare)
        if self._follower.position.offset > _MAX_OPEN_BYTES:
            await self._commits.end_segment()
        return self._follower.position

    async def _rewrite(self, wanted: EraseRequest, end: Position) -> _Rewrite:
        """Write the files that contain the row again, without it. They are not published yet."""

        def work() -> _Rewrite:
            target = Target.of(wanted.account, wanted.collection, wanted.id, wanted.rules)
            plan = plan_erase(self._files, self._directory, target, wanted.rules, end)
            rewrite = _Rewrite(plan, end)
            try:
                with closing(ChangeLog(self._files, self._directory.change_log)) as log:
                    for number in [number for number in plan.numbers if number != end.segment]:
                        rewrite.names[number] = rewrite_file(self._files, log, number, plan.transform)
                erase_from_quarantine(self._files, self._directory, plan)
            except BaseException:
                self._discard(rewrite)
                raise
            return rewrite

        with translate_errors("nothing was erased"):
            return await asyncio.to_thread(work)

    def _is_stale(self, rewrite: _Rewrite) -> bool:
        """Return whether something was written about the row since the search. Needs the lock."""
        now = self._follower.position
        if now.segment != rewrite.end.segment:
            return True
        with closing(ChangeLog(self._files, self._directory.change_log)) as log:
            lines = log.lines(now.segment, rewrite.end.offset, now.offset)
            return any(rewrite.plan.affects(line.data) for line in lines)

    async def _publish(self, wanted: EraseRequest, rewrite: _Rewrite) -> Outcome:
        """Decide, append the operation, and publish all new files together. Needs the lock."""
        batch = self._commits.new_batch(self._follower.position.offset)
        future: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
        decides = [lambda view: wanted.decide(view, rewrite.plan.found)]
        request = Request(wanted.account, wanted.actor, decides, wanted.idempotency, future)
        await self._commits.decide(batch, request)
        answer = batch.answers[0][1]
        if isinstance(answer, Exception):
            raise answer
        if batch.decided:
            await self._publish_batch(batch, rewrite)
        return answer[0]

    async def _publish_batch(self, batch: Batch, rewrite: _Rewrite) -> None:
        log, end = self._log, self._follower.position
        number, generation = end.segment, max(end.generation, log.generation) + 1
        name = LogFileName(SEGMENT_PREFIX, number, log.generation + 1)

        def write() -> None:
            # They may hold what is erased. Nobody writes them under these locks.
            for folder in (self._directory.change_log, self._directory.snapshots):
                remove_partial_files(self._files, folder)
            # The current segment is copied only now: it is small, and nobody writes to it under the lock.
            lines = transform_lines(log, number, end.offset, rewrite.plan.transform)
            write_version(self._files, log, name, chain(lines, batch.pieces()))
            rewrite.names[number] = name

        with translate_errors("nothing was erased"):
            await asyncio.to_thread(write)
            manifest = self._files.open(log.folder / MANIFEST, os.O_RDONLY)
        active = log.files()
        base = active.base and rewrite.names.get(BASE | active.base.number, active.base)
        segments = [rewrite.names.get(segment.number, segment) for segment in active.segments]
        new = LogManifest(generation, LogFiles(base, segments))
        try:
            # Whoever takes the lock after a crash in here looks for the end of the log in the files.
            await self._commits.in_thread(
                lambda: publish(self._files, log, new, number, self._context.lock.begin_publication)
            )
        except KnowHubError:
            self._files.close(manifest)
            log.reload()
            if log.generation != generation:
                self._follower.publish(self._follower.position)
            raise
        log.reload()
        self._follower.publish(Position(generation, number, batch.offset + batch.size))
        await self._commits.apply(batch, number)
        self._unconfirmed.append((batch.decided[0].operation.seq, manifest))

    def _discard(self, rewrite: _Rewrite) -> None:
        """Remove the files of a rewrite that was not published."""
        active = self._log.files().names
        for name in rewrite.names.values():
            if str(name) not in active:
                with suppress(OSError):
                    self._files.remove(self._log.folder / str(name))

    def _remove_unused_files(self) -> None:
        try:
            with translate_errors("the row is erased, and files that held it could not be removed"):
                remove_unused_files(self._files, self._log)
        finally:
            self._has_unused_files = bool(self._log.list_unused())


_WAIT_S: Final = 10.0


class ErasureFollowUp:
    """Waits for derived data, and searches snapshots."""

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        maintenance: Maintenance,
        derived: Mapping[str, ErasureProgress],
        wait_s: float = _WAIT_S,
    ) -> None:
        self._files = files
        self._directory = directory
        self._maintenance = maintenance
        self._derived = derived
        self._wait_s = wait_s

    async def follow(self, operation: Operation) -> Sequence[str]:
        """Update derived data, or wait until the leader has; return the names of data that still lags."""
        deadline = asyncio.get_running_loop().time() + self._wait_s
        await self._maintenance.tick()
        while True:
            waiting = [name for name, derived in self._derived.items() if _is_lagging(derived, operation)]
            if not waiting or self._maintenance.is_leader or asyncio.get_running_loop().time() > deadline:
                return waiting
            await asyncio.sleep(_POLL_S)

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        """Return the names of the snapshots that contain a version of the row, or cannot be read."""

        def search() -> list[str]:
            directory, target = self._directory, Target(account, collection, row_id)
            found = list_timestamps(self._files, directory)
            return [ts for ts in found if _can_contain(snapshot_path(directory, ts), target)]

        return await asyncio.to_thread(search)


def _is_lagging(derived: ErasureProgress, operation: Operation) -> bool:
    try:
        erased_through_seq = derived.erased_through_seq
    except OSError:
        # It may contain the row. The leader reports what the disk refuses.
        return True
    return erased_through_seq is not None and erased_through_seq < operation.seq


def _can_contain(archive: Path, target: Target) -> bool:
    try:
        with gzip.open(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as members:
            return any(contains_row(line, target) for member in members for line in members.extractfile(member) or ())
    except FileNotFoundError:
        # It was removed meanwhile.
        return False
    except (tarfile.TarError, zlib.error, OSError, EOFError):
        return True
