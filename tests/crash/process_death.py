"""A process that dies in one of its file-system calls."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from knowhub.stores.files.store import FileStore, StoreOptions
from tests.builders import open_files
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan

ONE_SEGMENT = StoreOptions()
# Every write after the first begins a fresh segment.
MANY_SEGMENTS = StoreOptions(segment_bytes=1)
# Nothing that is tried makes as many calls.
NEVER_REACHED = 200


def open_or_die(folder: Path, plan: Plan) -> FileStore | None:
    """Open the store of a folder; return None if the process died during the open."""
    files = FaultyFileSystem(plan)
    try:
        return open_files(folder, files)
    except CrashNow:
        files.bury()
        return None


def open_doomed(folder: Path, plan: Plan, options: StoreOptions = ONE_SEGMENT) -> tuple[FileStore, FaultyFileSystem]:
    """Open the store of a folder, on a file system that follows a plan from now on."""
    files = FaultyFileSystem()
    store = open_files(folder, files, options)
    files.begin(plan)
    return store, files


async def wait_for_death(store: FileStore, files: FaultyFileSystem, doing: Awaitable[object]) -> bool:
    """Wait until `doing` is done and close the store, False, or until its process is dead, True."""
    task = asyncio.ensure_future(doing)
    while not task.done() and not files.crashed:  # noqa: ASYNC110 -- the file system runs in a thread and sets no event
        await asyncio.sleep(0)
    if files.crashed:
        # What the dead process still tries does nothing; it is waited for, so that it does not try it later.
        flushers = [other for other in asyncio.all_tasks() if other.get_name() == "log-flusher"]
        adopting = [other for other in asyncio.all_tasks() if other.get_name() == "adopt-base"]
        await asyncio.gather(*flushers, *adopting, return_exceptions=True)
        if not flushers:
            # It was no commit, which would wait for ever: a thread that works for it must have ended first.
            await asyncio.wait([task], timeout=1)
        task.cancel()
        with suppress(asyncio.CancelledError, CrashNow):
            await task
        files.bury()
        return True
    await task
    await store.close()
    return False
