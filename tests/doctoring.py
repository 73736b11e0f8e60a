"""The doctor as tests ask for it: with another file system, or with ids that can be foretold."""

from pathlib import Path

from knowhub.core.ids import Ids, RandomIds
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor import directory_check
from knowhub.stores.files.doctor import repair as doctor_repair
from knowhub.stores.files.doctor.findings import Finding
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.subprocess_runner import run_in_process
from knowhub.wiring.collections import COLLECTIONS, row_checks
from knowhub.wiring.exports import projections_of


def inspect(folder: Path, files: FileSystem | None = None) -> list[Finding]:
    """Look at a data directory."""
    files, directory = files or FileSystem(), DataDirectory(folder)
    return directory_check.inspect(
        files, directory, COLLECTIONS, projections_of(files, directory, run_in_process(files), Settings()), row_checks()
    )


def repair(folder: Path, files: FileSystem | None = None, ids: Ids | None = None) -> list[Finding]:
    """Repair a data directory that nobody has open."""
    files, directory = files or FileSystem(), DataDirectory(folder)
    projections = projections_of(files, directory, run_in_process(files), Settings())
    return doctor_repair.repair(files, directory, ids or RandomIds(), COLLECTIONS, projections)
