"""What lies around the log and may tell of a row that was erased from it: derived files, and snapshots."""

import asyncio
import gzip
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.erased_lines import Target
from knowhub.stores.files.erasing.erasing import tells
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keeper import Keeper

_WAIT_S = 10.0
_POLL_S = 0.05
_PREFIX, _SUFFIX = "snapshot_", ".tar.gz"


class Derived(Protocol):
    """Something that is made of the log, and says so."""

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that it knows of; None where nothing of it is on disk. Raises OSError."""


class ErasureSurroundings:
    """Waits until what is derived was built anew, and looks into snapshots."""

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        keeper: Keeper,
        derived: Mapping[str, Derived],
        wait_s: float = _WAIT_S,
    ) -> None:
        self._files = files
        self._directory = directory
        self._keeper = keeper
        self._derived = derived
        self._wait_s = wait_s

    async def follow(self, operation: Operation) -> Sequence[str]:
        """Build anew what is derived, or wait until the process that does so has; name what still waits."""
        deadline = asyncio.get_running_loop().time() + self._wait_s
        await self._keeper.run_once()
        while True:
            waiting = [name for name, one in self._derived.items() if _is_behind(one, operation)]
            if not waiting or self._keeper.is_keeper or asyncio.get_running_loop().time() > deadline:
                return waiting
            await asyncio.sleep(_POLL_S)

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        """Return the names of the snapshots that hold a version of the row, and of those that cannot be read."""
        return await asyncio.to_thread(self._search, Target(account, collection, row_id))

    def _search(self, target: Target) -> list[str]:
        folder = self._directory.snapshots
        names = [name for name in self._files.names(folder) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
        return [name[len(_PREFIX) : -len(_SUFFIX)] for name in names if _holds(folder / name, target)]


def _is_behind(derived: Derived, operation: Operation) -> bool:
    try:
        erases = derived.noted_erases
    except OSError:
        # Nobody can tell: it may speak of the row. The keeper names what the disk refuses.
        return True
    return erases is not None and erases < operation.seq


def _holds(archive: Path, target: Target) -> bool:
    try:
        with gzip.open(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as members:
            return any(tells(line, target) for member in members for line in _lines(members.extractfile(member)))
    except FileNotFoundError:
        # It was removed meanwhile.
        return False
    except (tarfile.TarError, zlib.error, OSError, EOFError):
        # Nobody can tell: it may.
        return True


def _lines(member: "IO[bytes] | None") -> Iterator[bytes]:
    yield from member or ()
