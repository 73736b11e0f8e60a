"""The one lock on the folder of all memories: who writes a directory in it holds it, for as long as that takes."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock, unlock

WAIT_S: Final = 2.0
_POLL_S: Final = 0.001


@contextmanager
def held(
    files: FileSystem, folder: Path, wait_s: float = WAIT_S, pause: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold it, in a thread that may wait. Raises Unavailable when another holds it for longer, and OSError."""
    with _opened(files, folder) as descriptor:
        waited = 0.0
        while not try_flock(descriptor):
            if waited >= wait_s:
                raise _taken(folder, wait_s)
            pause(_POLL_S)
            waited += _POLL_S
        yield


@asynccontextmanager
async def held_meanwhile(files: FileSystem, folder: Path, wait_s: float = WAIT_S) -> AsyncIterator[None]:
    """Hold it while others have their turns. Raises Unavailable when another holds it for longer, and OSError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    with _opened(files, folder) as descriptor:
        while not try_flock(descriptor):
            if loop.time() >= deadline:
                raise _taken(folder, wait_s)
            await asyncio.sleep(_POLL_S)
        yield


@contextmanager
def _opened(files: FileSystem, folder: Path) -> Iterator[int]:
    if files.inode_at(folder) is None:
        files.make_folder(folder)
    descriptor = files.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        # A process that was forked off shares the open folder, and would hold the lock for as long as it lives.
        unlock(descriptor)
        files.close(descriptor)


def _taken(folder: Path, wait_s: float) -> Unavailable:
    return Unavailable(f"another process has been writing in {folder} for {wait_s:g} s")
