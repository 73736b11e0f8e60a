"""A program that writes to a data directory that other processes write to as well.

`python -m tests.crash.shared_writer FOLDER NAME COUNT` prints each write on standard output, after it was
acknowledged; with `hold` for COUNT it takes the writers' lock, says so, and keeps it.
"""

import asyncio
import sys
import time
from pathlib import Path

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.store import StoreOptions
from tests.builders import domain_on, local, new_knowledge
from tests.crash.killed_writers import open_writer_store

WRITERS = 8


async def write(folder: Path, name: str, count: int) -> None:
    """Save `count` records by eight writers."""
    store = open_writer_store(folder, StoreOptions())
    hub = domain_on(store)

    async def one_writer(first: int) -> None:
        for number in range(first, count, WRITERS):
            saved = await hub.knowledge.records.save(local(), new_knowledge(f"{name} {number}"))
            sys.stdout.write(f"{saved.record['id']}\n")
            sys.stdout.flush()

    await asyncio.gather(*(one_writer(first) for first in range(WRITERS)))
    await store.close()


def hold(folder: Path) -> None:
    """Take the writers' lock and never give it back."""
    lock = LockFile(FileSystem(), DataDirectory(folder).lock)
    while not lock.try_acquire():
        time.sleep(0.001)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    time.sleep(3600)


if __name__ == "__main__":
    if sys.argv[3] == "hold":
        hold(Path(sys.argv[1]))
    else:
        asyncio.run(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
