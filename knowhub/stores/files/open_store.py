"""Opening a data directory: one call that gives a store, or says why not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.clock import Clock
from knowhub.core.errors import KnowHubError, Unavailable
from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.loading import Opening
from knowhub.stores.files.store import FileStore, StoreOptions

_LOCK_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Environment:
    """What a store needs of the world; `wait(seconds)` sleeps while another process holds the lock at opening."""

    files: FileSystem
    clock: Clock
    ids: Ids
    wait: Callable[[float], None]


def open_store(root: Path, world: Environment, options: StoreOptions | None = None) -> FileStore:
    """Open a data directory, making it if there is none.

    Raises Unavailable for a newer format, a log that is gone or a lock that a stopped process holds, and OSError.
    """
    directory = DataDirectory(root)
    check_format(world.files, directory)
    check_log(world.files, directory)
    world.files.make_folder(root)
    options = options or StoreOptions()
    lock = LockFile(world.files, directory.lock)
    log = ChangeLog(world.files, directory.change_log)
    try:
        _wait_for(lock, directory, options, world)
        store = FileStore(Opening(world.files, directory, log, lock, world.clock, world.ids), options)
    except (KnowHubError, OSError):
        # Closing lets go of the lock too.
        log.close()
        lock.close()
        raise
    lock.release()
    return store


def _wait_for(lock: LockFile, directory: DataDirectory, options: StoreOptions, world: Environment) -> None:
    waited = 0.0
    while not lock.try_acquire():
        if waited >= options.lock_timeout_s:
            raise Unavailable(f"another process has held {directory.lock} for {options.lock_timeout_s:g} s")
        world.wait(_LOCK_POLL_S)
        waited += _LOCK_POLL_S
