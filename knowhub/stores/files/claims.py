"""Claims: what one process at a time does beside the log, such as compacting it; a lock on the folder holds one."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from knowhub.core.errors import Conflict
from knowhub.stores.files.filesystem import FileSystem, failure_of
from knowhub.stores.files.lock import try_flock, unlock

_POLL_S = 0.05


@asynccontextmanager
async def claimed(files: FileSystem, folder: Path, wait_s: float, refusal: str) -> AsyncIterator[None]:
    """Hold the one claim on a folder, which is made where it is missing. It dies with its holder.

    Raises Conflict with `refusal` when another holds it for longer than `wait_s` seconds; StorageFull, Unavailable.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    try:
        if files.inode_at(folder) is None:
            files.make_folder(folder)
            await asyncio.to_thread(files.sync_folder, folder.parent)
        descriptor = files.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        raise failure_of(problem, f"{folder} could not be used, and nothing was done") from problem
    try:
        while not try_flock(descriptor):
            if loop.time() > deadline:
                raise Conflict(refusal)
            await asyncio.sleep(_POLL_S)
        yield
    finally:
        # A process that was forked off shares the open folder, and would hold the claim for as long as it lives.
        unlock(descriptor)
        files.close(descriptor)
