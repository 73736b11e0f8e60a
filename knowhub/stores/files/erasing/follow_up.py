"""After an erase: wait until derived files no longer contain the row, and find the snapshots that do."""

import asyncio
import gzip
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from knowhub.core.operation import Operation
from knowhub.core.projection import FollowsErases
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.erase_plan import contains_row
from knowhub.stores.files.erasing.line_eraser import Target
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.maintenance import Maintenance

_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05
_PREFIX, _SUFFIX = "snapshot_", ".tar.gz"


class ErasureFollowUp:
    """Waits for derived data, and searches snapshots."""

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        maintenance: Maintenance,
        derived: Mapping[str, FollowsErases],
        wait_s: float = _WAIT_S,
    ) -> None:
        self._files = files
        self._directory = directory
        self._maintenance = maintenance
        self._derived = derived
        self._wait_s = wait_s

    async def follow(self, operation: Operation) -> Sequence[str]:
        """Update derived data, or wait until the leader has; return the names of data that is still behind."""
        deadline = asyncio.get_running_loop().time() + self._wait_s
        await self._maintenance.tick()
        while True:
            waiting = [name for name, derived in self._derived.items() if _is_behind(derived, operation)]
            if not waiting or self._maintenance.is_leader or asyncio.get_running_loop().time() > deadline:
                return waiting
            await asyncio.sleep(_POLL_S)

    async def snapshots_with(self, account: str, collection: str, row_id: str) -> Sequence[str]:
        """Return the names of the snapshots that contain a version of the row, or cannot be read."""

        def search() -> list[str]:
            folder, target = self._directory.snapshots, Target(account, collection, row_id)
            names = [name for name in self._files.names(folder) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
            return [name[len(_PREFIX) : -len(_SUFFIX)] for name in names if _can_contain(folder / name, target)]

        return await asyncio.to_thread(search)


def _is_behind(derived: FollowsErases, operation: Operation) -> bool:
    try:
        erase_seq = derived.erase_seq
    except OSError:
        # It may contain the row. The leader reports what the disk refuses.
        return True
    return erase_seq is not None and erase_seq < operation.seq


def _can_contain(archive: Path, target: Target) -> bool:
    try:
        with gzip.open(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as members:
            return any(contains_row(line, target) for member in members for line in members.extractfile(member) or ())
    except FileNotFoundError:
        # It was removed meanwhile.
        return False
    except (tarfile.TarError, zlib.error, OSError, EOFError):
        return True
