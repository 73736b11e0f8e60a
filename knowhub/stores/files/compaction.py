"""Compaction: replace the oldest segments by a base, and forget their operations."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import msgspec
import orjson

from knowhub.core.store_results import CompactionResult
from knowhub.core.table_schema import TableSchemas
from knowhub.engine.account import BaseNumbers, LoadedChange, change_number
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, create_file, translate_errors
from knowhub.stores.files.group_commit import GroupCommit
from knowhub.stores.files.lock import Position, is_free, lock_folder
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.loader import StoreContext
from knowhub.stores.files.log.log_line import BaseHeader, PartialWrite, add_checksum, end_line, header_line, row_text
from knowhub.stores.files.log.log_manifest import BASE_PREFIX, LogFileName, LogFiles, LogManifest
from knowhub.stores.files.log.log_reader import Damage, DamagedLog, read_log
from knowhub.stores.files.log.rewrite import publish, remove_unused_files
from knowhub.stores.files.replica import LogFollower, Replica
from knowhub.stores.files.subprocess_runner import SubprocessRunner

_WAIT_FOR_OTHERS_S = 2.0
_POLL_S = 0.05
_REFUSAL = "the log is being compacted, erased from or copied to a snapshot; try again when that has ended"


class Compaction:
    """Writes a base in a child process, publishes it, and finds the rows that stay on disk in it."""

    def __init__(
        self, context: StoreContext, log_id: str, replica: Replica, follower: LogFollower, commits: GroupCommit
    ) -> None:
        self._context = context
        self._log_id = log_id
        self._replica = replica
        self._follower = follower
        self._commits = commits
        self._log = context.log
        self._generation = context.log.generation
        self._unread_base: int | None = None
        self._remapping: asyncio.Task[None] | None = None
        self._running = asyncio.Lock()

    async def is_due(self, retention_s: float) -> bool:
        """Return whether a compaction would remove more than half of the size of the last base."""
        going = [
            segment for segment in await self._list_expired(retention_s) if segment != self._follower.position.segment
        ]
        base_size = 0 if self._log.base is None else self._log.size(self._log.base)
        return sum(map(self._log.size, going)) > base_size // 2

    async def run(self, retention_s: float, run_subprocess: SubprocessRunner) -> CompactionResult:
        """Forget the operations that are older than `retention_s` seconds, a segment at a time.

        What an idempotency key may still ask for stays, and so does what another process has yet to read. Raises
        Conflict while the log is compacted, erased from or copied, ReadOnly, StorageFull and Unavailable.
        """
        directory, files = self._context.directory, self._context.files
        async with self._running, lock_folder(files, directory.change_log, self._commits.lock_timeout_s, _REFUSAL):
            base, held = await self._plan_base(retention_s)
            # The files of a rewrite that died are removed too.
            await self._remove_unused_files()
            if base is None:
                size = self._size()
                return CompactionResult(bytes_before=size, bytes_after=size, held_by_others=held)
            forgotten, before = base.last_seq - self._replica.history.base_seq, self._size()
            name = LogFileName(BASE_PREFIX, base.segment, base.generation)
            path = self._log.folder / str(name)
            try:
                searched = name_searched_values(self._replica.schemas)
                order = {"header": msgspec.to_builtins(base), "path": str(path), "searched": searched}
                made = await run_subprocess("write_base", directory.root, order)
                await self._publish(base, name, made)
            except BaseException:
                with suppress(OSError):
                    self._log.reload()
                    # The new manifest may be on the disk already: then the base is in use.
                    if str(name) not in self._log.files().names:
                        files.remove(path)
                raise
            self.follow()
            await self._remove_unused_files()
            return CompactionResult(forgotten, made["rows"], before, self._size(), held)

    def follow(self) -> None:
        """Adapt to a rewrite of the log, here or by another process: operations in a base are no longer in the history.

        In the background the rows that stay on disk are looked up in a new base, and replaced files are closed. Until
        then they are read from what is open.
        """
        if self._log.generation == self._generation:
            return
        self._generation, base = self._log.generation, self._log.base
        header = self._log.base_header(base)[0] if base is not None else None
        if header is not None and header.last_seq > self._replica.history.base_seq:
            self._replica.begin_after(header)
            self._unread_base = base
        if self._remapping is not None:
            self._remapping.cancel()
        self._remapping = asyncio.get_running_loop().create_task(self._remap_files(), name="adopt-base")

    async def _remap_files(self) -> None:
        if self._unread_base is not None and await self._remap_base(self._unread_base):
            self._unread_base = None
        await asyncio.to_thread(self._log.close_replaced)
        self._log.lock_manifest()

    async def _remap_base(self, number: int) -> bool:
        """Find the rows that stay on disk in a new base, in small steps, and close the files that it replaces.

        Returns False for a damaged base, and reports the damage.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        _, start = self._log.base_header(number)
        for line in self._log.lines(number, start, self._log.size(number)):
            if line.base_line is None:
                # What is open here still reads well: it stays open, and the next opening must not be the first to see.
                what = Damage(str(self._log.path(number)), line.offset, "its checksum or its JSON is wrong")
                self._replica.history.damage.append(what)
                return False
            self._replica.move_rows(line)
            # Rest as long as the work took: requests get half of the time.
            await asyncio.sleep(loop.time() - began)
            began = loop.time()
        for descriptor in self._log.release_before(number):
            # The file is gone already: closing it frees its room, which takes tens of milliseconds.
            await asyncio.to_thread(self._context.files.close, descriptor)
        return True

    async def finish_remap(self) -> None:
        """Wait until this process has closed all replaced files."""
        self.follow()
        if self._remapping is not None:
            await asyncio.wait([self._remapping])

    async def close(self) -> None:
        """Stop looking up rows: nobody will read them."""
        if self._remapping is not None:
            self._remapping.cancel()
            await asyncio.wait([self._remapping])

    async def _remove_unused_files(self) -> None:
        """Remove the files that are not current and that nobody needs. Raises OSError."""
        # Freeing the room of a large file takes tens of milliseconds.
        await asyncio.to_thread(remove_unused_files, self._context.files, self._log)

    async def _plan_base(self, retention_s: float) -> tuple[BaseHeader | None, bool]:
        async with self._commits.lock_for_write():
            # A process that died while it published may have left files that nobody knows.
            self._log.reload()
            history = self._replica.history
            segments = await self._list_expired(retention_s)
            if segments and segments[-1] == self._follower.position.segment:
                # Only whole segments go: what was written so far becomes one.
                await self._commits.end_segment()
            free = await self._wait_for_readers(segments)
            last_seq = self._last_seq_of(free[-1]) if free else history.base_seq
            operation = await history.at_async(last_seq)
            if operation is None:
                return None, len(free) < len(segments)
            header = BaseHeader(
                log_id=self._log_id,
                segment=free[-1] + 1,
                generation=max(self._follower.position.generation, self._log.generation) + 1,
                last_seq=last_seq,
                checksum=history.checksum(last_seq),
                last_time=operation.timestamp,
                last_erase_seq=self._replica.last_erase_seq,
            )
            return header, len(free) < len(segments)

    async def _list_expired(self, retention_s: float) -> list[int]:
        """Return the oldest segments whose operations are all old enough and answer no retry."""
        history, now = self._replica.history, self._context.clock.now()
        oldest_key = self._replica.idempotency_keys.oldest_seq(now)
        found = []
        for segment in self._log.segments():
            last_seq = self._last_seq_of(segment)
            operation = await history.at_async(last_seq)
            is_young = operation is not None and operation.timestamp > now - retention_s
            if last_seq < history.base_seq or is_young or (oldest_key is not None and last_seq >= oldest_key):
                break
            found.append(segment)
        # An empty current segment stays.
        if found and found[-1] == self._follower.position.segment:
            header, _ = self._log.header(found[-1])
            if header is None or header.first_seq > history.last_seq:
                found.pop()
        return found

    async def _wait_for_readers(self, segments: list[int]) -> list[int]:
        """Return the first segments that no other process has locked; wait a little for each."""
        deadline = asyncio.get_running_loop().time() + _WAIT_FOR_OTHERS_S
        free: list[int] = []
        for segment in segments:
            # No process has locked the segment, or an older version of it.
            versions = [self._log.name(segment), *(name for name in self._log.list_unused() if name.number == segment)]
            while not all(is_free(self._context.files, self._log.folder / str(name)) for name in versions):
                if asyncio.get_running_loop().time() > deadline:
                    return free
                await asyncio.sleep(_POLL_S)
            free.append(segment)
        return free

    async def _publish(self, base: BaseHeader, name: LogFileName, made: Mapping[str, Any]) -> None:
        files, log = self._context.files, self._log
        async with self._commits.lock_for_write():

            def publish_base() -> None:
                check_base(files, log.folder / str(name), base, made)
                later = [log.name(segment) for segment in log.segments() if segment >= base.segment]
                publish(files, log, LogManifest(base.generation, LogFiles(name, later)), base.segment - 1)

            # After an error the log is unchanged, and writing goes on.
            with translate_errors("the log was not compacted"):
                await asyncio.to_thread(publish_base)
            log.reload()
            position = self._follower.position
            self._follower.publish(Position(base.generation, position.segment, position.offset))

    def _last_seq_of(self, segment: int) -> int:
        if segment == self._follower.position.segment:
            return self._replica.history.last_seq
        following, _ = self._log.header(segment + 1)
        return following.first_seq - 1 if following is not None else 0

    def _size(self) -> int:
        return sum(map(self._log.size, self._log.numbers()))


# A line of a base is parsed in one step while requests wait.
_LINE_BYTES: Final = 64 * 1024


def name_searched_values(schemas: TableSchemas) -> dict[str, str]:
    """Return the names of the `searched_value` functions by collection, for the arguments of `write_base`."""
    functions = {name: schema.searched_value for name, schema in schemas.items()}
    return {name: f"{get.__module__}:{get.__name__}" for name, get in functions.items() if get is not None}


def write_base(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write and sync the base that `header` describes to `path`; it is not published yet.

    `searched` names functions as `name_searched_values` does. Returns the number of `rows` and `bytes`. Raises OSError,
    and DamagedLog if the log is not what the header says.
    """
    header, path = msgspec.convert(arguments["header"], BaseHeader), Path(arguments["path"])
    folder = DataDirectory(root).change_log
    with closing(ChangeLog(files, folder)) as log:
        end = log.durable_end(header.segment - 1)
        if end is None:
            raise DamagedLog(log.path(header.segment), 0, "the segment's header is damaged")
        newest = _NewestRows(arguments.get("searched", {}))
        summary = read_log(files, folder, newest.load, end=(header.segment - 1, end))
        if (summary.log_id, summary.last_seq, summary.checksum) != (header.log_id, header.last_seq, header.checksum):
            raise DamagedLog(log.path(header.segment), 0, f"operation {header.last_seq} was to stand before it")
    count = 0
    with create_file(files, path) as writer:
        writer.write(header_line(header))
        for line, rows in newest.lines():
            writer.write(line)
            count += rows
        writer.write(end_line(count))
    return {"rows": count, "bytes": writer.size}


def check_base(files: FileSystem, path: Path, header: BaseHeader, result: Mapping[str, Any]) -> None:
    """Check the first line, the last line and the size of a base that `write_base` has written.

    To be called before the base replaces older files. Raises DamagedLog and OSError.
    """
    first, last = header_line(header), end_line(result["rows"])
    descriptor = files.open(path, os.O_RDONLY)
    try:
        size = files.size(descriptor)
        is_complete = (
            size == result["bytes"]
            and files.read_at(descriptor, len(first), 0) == first
            and files.read_at(descriptor, len(last), size - len(last)) == last
        )
    finally:
        files.close(descriptor)
    if not is_complete:
        raise DamagedLog(path, size, "it is not the base that was written; the log was not compacted")


class _NewestRows:
    """The newest text of every row, in the order in which the rows were created.

    `texts` is by account, then by collection and id. `numbers` holds the change number of each row of a searched
    collection.
    """

    def __init__(self, searched: Mapping[str, str]) -> None:
        self.texts: dict[str, dict[tuple[str, str], bytes]] = {}
        self.numbers: dict[tuple[str, str, str], int] = {}
        self._searched = {collection: resolve_name(name) for collection, name in searched.items()}
        self._searched_values: dict[tuple[str, str, str], int] = {}
        self._base_numbers: defaultdict[str, BaseNumbers] = defaultdict(BaseNumbers)

    def load(self, account: str, changes: Sequence[LoadedChange], seq: int) -> None:
        """Load the rows of a line. There are millions of them, so this calls as little as possible."""
        texts = self.texts.setdefault(account, {})
        if changes and isinstance(changes[0], PartialWrite):
            numbers = [change_number(seq, index) for index in range(len(changes))]
        else:
            numbers = self._base_numbers[account].list(changes)
        for change, number in zip(changes, numbers, strict=True):
            collection, row_id = change.collection, change.id
            texts[collection, row_id] = text = row_text(change)
            if collection in self._searched:
                # As in memory: the number stays while the searched value is the same.
                value, key = hash(self._searched[collection](orjson.loads(text))), (account, collection, row_id)
                if self._searched_values.get(key) != value:
                    self._searched_values[key] = value
                    self.numbers[key] = number

    def lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield the lines of a base, each with the number of its rows."""
        for account, texts in self.texts.items():
            head = b'{"account":%s,"changes":[' % orjson.dumps(account)
            rows, size = list[bytes](), 0
            for (collection, row_id), text in texts.items():
                number = self.numbers.get((account, collection, row_id))
                name = orjson.dumps({"collection": collection, "id": row_id})[:-1]
                rows.append(b"".join((name, b',"after":', text, b"}" if number is None else b',"number":%d}' % number)))
                size += len(text)
                if size >= _LINE_BYTES:
                    yield add_checksum(head, b",".join(rows), b"]"), len(rows)
                    rows, size = [], 0
            if rows:
                yield add_checksum(head, b",".join(rows), b"]"), len(rows)
