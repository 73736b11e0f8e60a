"""The folder of snapshots: create, list, remove and prepare a restore."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from knowhub.core.clock import Clock, iso
from knowhub.core.collection import Collection, Collections, Key, table_schemas
from knowhub.core.errors import Conflict, NotFound, StorageFull, Unavailable
from knowhub.core.ids import Ids
from knowhub.core.operation import Row, View
from knowhub.core.store_results import SnapshotEntry, SnapshotReason, SnapshotRow
from knowhub.engine.account import Account
from knowhub.engine.view import Overlay
from knowhub.stores.files.data_directory import (
    KEYRING,
    TIMESTAMP,
    DataDirectory,
    list_timestamps,
    snapshot_path,
)
from knowhub.stores.files.filesystem import SCRATCH, FileSystem, remove_partial_files, remove_path, translate_errors
from knowhub.stores.files.keys import FileKeyring
from knowhub.stores.files.lock import lock_folder
from knowhub.stores.files.snapshots.archive import DamagedSnapshot, read_manifest, temporary_path
from knowhub.stores.files.snapshots.restore import DIFFERENCES
from knowhub.stores.files.store import FileStore, LogEnd
from knowhub.stores.files.subprocess_runner import SubprocessRunner

_COMPACTING = "the log is being compacted; make a snapshot when that has ended"
_REFUSAL = "another snapshot is being made or restored in this directory; wait for its end"
_SECOND_CHARS = len("20261121T120000Z")
_SCRATCH_DIGITS = 16
_LINES_A_TURN = 200


def list_snapshots(files: FileSystem, directory: DataDirectory) -> list[SnapshotEntry]:
    """Return every snapshot of a directory, newest first; one whose manifest does not read says so. Raises OSError."""
    # Of one second, the later ones are numbered: `-2` comes before `-10`.
    found = [ts for ts in list_timestamps(files, directory) if TIMESTAMP.fullmatch(ts)]
    found.sort(key=lambda ts: (ts[:_SECOND_CHARS], len(ts), ts), reverse=True)
    entries = [_describe_snapshot(files, directory, ts) for ts in found]
    return [entry for entry in entries if entry is not None]


@dataclass(frozen=True, slots=True)
class SnapshotFolder:
    """Snapshots of one open directory. One process at a time changes them: it holds a lock on their folder.

    `fixed` are ids that every account has, by collection. `wait_s` is how long to wait for another process that makes
    a snapshot, in seconds, `max_bytes` how much a snapshot may unpack to.
    """

    files: FileSystem
    directory: DataDirectory
    log: FileStore
    clock: Clock
    ids: Ids
    run_subprocess: SubprocessRunner
    fixed: Mapping[str, frozenset[str]]
    collections: Collections
    wait_s: float = 10.0
    max_bytes: int = 64 * 1024**3

    async def entries(self) -> Sequence[SnapshotEntry]:
        return await asyncio.to_thread(list_snapshots, self.files, self.directory)

    async def create(self, reason: SnapshotReason) -> SnapshotEntry:
        async with self._lock_snapshots():
            return await self.create_under_lock(reason)

    async def delete(self, ts: str) -> None:
        async with self._lock_snapshots():
            path = self._find_archive(ts)
            with translate_errors(f"it is not certain that snapshot {ts} is gone"):
                self.files.remove(path)
                await asyncio.to_thread(self.files.sync_folder, path.parent)

    @asynccontextmanager
    async def prepare(self, ts: str, account: str) -> AsyncIterator["PreparedSnapshot"]:
        async with self._lock_snapshots():
            archive = self._find_archive(ts)
            scratch = self.directory.snapshots / f"{SCRATCH}{self.ids.hex(_SCRATCH_DIGITS)}"
            try:
                end = await self._prepare(archive, scratch, account)
                yield PreparedSnapshot(self, account, end.last_seq, scratch, archive.name)
            finally:
                remove_path(self.files, scratch)

    async def _prepare(self, archive: Path, scratch: Path, account: str) -> LogEnd:
        end = await self.log.get_end()
        order = {
            "archive": str(archive),
            "scratch": str(scratch),
            "account": account,
            "fixed": {name: sorted(ids) for name, ids in self.fixed.items()},
            "end": [end.position.segment, end.position.offset],
            "max_bytes": self.max_bytes,
        }
        with translate_errors("nothing was restored"):
            self.files.make_folder(scratch)
            answer = await self.run_subprocess("prepare_restore", self.directory.root, order)
        if "damaged" in answer:
            raise DamagedSnapshot(*answer["damaged"])
        if "no_room" in answer:
            raise StorageFull(answer["no_room"])
        if "unreadable" in answer:
            raise Unavailable(f"the log is damaged: {answer['unreadable']}; run `knowhub doctor`")
        return end

    async def create_under_lock(self, reason: SnapshotReason) -> SnapshotEntry:
        """Create a snapshot. The caller holds the lock on the folder, so nobody erases meanwhile."""
        async with lock_folder(self.files, self.directory.change_log, self.wait_s, _COMPACTING):
            end, created_at = await self.log.get_end(), iso(self.clock.now())
            with translate_errors("no snapshot was made"):
                ts = self._next_timestamp()
                manifest = {
                    "ts": ts,
                    "log_id": end.log_id,
                    "last_seq": end.last_seq,
                    "generation": end.position.generation,
                    "erases": end.last_erase_seq,
                    "reason": reason.value,
                    "created_at": created_at,
                }
                order = {"manifest": manifest, "numbers": end.numbers, "end": end.position.offset}
                path = snapshot_path(self.directory, ts)

                def put_in_place() -> None:
                    self.files.rename(temporary_path(self.directory, ts), path)
                    self.files.sync_folder(path.parent)

                answer = await self.run_subprocess("write_snapshot", self.directory.root, order)
                await asyncio.to_thread(put_in_place)
        return SnapshotEntry(ts, str(path), answer["bytes"], created_at, end.last_seq, reason)

    @asynccontextmanager
    async def _lock_snapshots(self) -> AsyncIterator[None]:
        async with lock_folder(self.files, self.directory.snapshots, self.wait_s, _REFUSAL):
            remove_partial_files(self.files, self.directory.snapshots)
            yield

    def _find_archive(self, ts: str) -> Path:
        path = snapshot_path(self.directory, ts)
        if not TIMESTAMP.fullmatch(ts) or self.files.inode(path) is None:
            raise NotFound.of("snapshot", ts)
        return path

    def _next_timestamp(self) -> str:
        second = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.clock.now()))
        taken, ts, number = set(list_timestamps(self.files, self.directory)), second, 1
        while ts in taken:
            number += 1
            ts = f"{second}-{number}"
        return ts


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot that was compared with the log up to operation `last_seq`; its differences lie in `scratch`."""

    folder: SnapshotFolder
    account: str
    last_seq: int
    scratch: Path
    archive: str

    async def snapshot_before_restore(self) -> SnapshotEntry:
        # Keys before rows: no row may be without its key. A destroyed key stays destroyed.
        folder = self.folder
        keyring = FileKeyring(folder.files, folder.directory, folder.wait_s)
        await keyring.import_keys(self.scratch / KEYRING)
        return await folder.create_under_lock(SnapshotReason.BEFORE_RESTORE)

    async def differences(self) -> AsyncIterator[SnapshotRow]:
        empty = Account(table_schemas(self.folder.collections), lambda _segment, _start, _end: b"")
        with (self.scratch / DIFFERENCES).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                wanted = SnapshotRow(**orjson.loads(line))
                self._check(wanted, empty)
                yield wanted
                if number % _LINES_A_TURN == 0:
                    await asyncio.sleep(0)

    def list_changes(self, after_seq: int, view: View) -> Iterator[tuple[Key, Row | None]]:
        history = self.folder.log.history
        if after_seq < history.base_seq:
            raise Conflict("the log was compacted while the restore was prepared; nothing was restored, try it again")
        for seq in range(after_seq + 1, history.last_seq + 1):
            operation = history.at(seq)
            if operation is not None and operation.account == self.account:
                for change in operation.changes:
                    yield (change.collection, change.id), change.before
        for key in view.changed_keys:
            yield key, view.get_acknowledged(*key)

    def _check(self, wanted: SnapshotRow, empty: Account) -> None:
        """Raise DamagedSnapshot for a row that this KnowHub could not hold; `empty` has no rows."""
        row, name = wanted.row, wanted.collection
        if row is None:
            return
        declared = self.folder.collections.get(name) or Collection(name)
        try:
            Overlay(empty).put(name, wanted.id, row, b"", 0)
            is_right = declared.id_of(row) == wanted.id and int(row["version"]) > 0
        except (KeyError, TypeError, ValueError, AttributeError):
            is_right = False
        if not is_right:
            raise DamagedSnapshot(self.archive, "change_log", f"{name} {wanted.id!r} is no row of this KnowHub")


def _describe_snapshot(files: FileSystem, directory: DataDirectory, ts: str) -> SnapshotEntry | None:
    """Describe a snapshot by its manifest; None if it was removed meanwhile."""
    path, size = snapshot_path(directory, ts), 0
    try:
        size = path.stat().st_size
        manifest = read_manifest(files, path)
        reason = SnapshotReason(manifest.reason)
    except FileNotFoundError:
        return None
    except (DamagedSnapshot, ValueError, OSError) as problem:
        return SnapshotEntry(ts, str(path), size, problem=str(problem))
    return SnapshotEntry(ts, str(path), size, manifest.created_at, manifest.last_seq, reason)
