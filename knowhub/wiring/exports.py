"""Everything that is derived from the log, and how the domains want it shown."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from knowhub.context.directories import CONTEXT_DIRECTORIES
from knowhub.core.projection import CheckResult, LogMark
from knowhub.keywords.collections import RECORD_FORMATS
from knowhub.search.full_text import FullText
from knowhub.search.index_files import IndexFiles
from knowhub.search.vector_files import VectorFiles
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.log_contents import CheckedProjection, LogContents, ProjectionsOf
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.projections.directory_export import DirectoryExport
from knowhub.stores.files.projections.json_maps import JsonMaps
from knowhub.stores.files.projections.log_projection import DisabledExport, ProjectionLog
from knowhub.stores.files.projections.record_files import RecordFiles
from knowhub.stores.files.subprocess_runner import SubprocessRunner


@dataclass(frozen=True, slots=True)
class Exports:
    """The files that are written for people and tools to read. Each may be switched off."""

    records: RecordFiles | DisabledExport
    maps: JsonMaps
    directories: DirectoryExport | DisabledExport

    async def request_rebuild(self) -> None:
        """Have the leader write all of them again. Raises Conflict where another process writes them for long."""
        self.maps.request_rebuild()
        await self.records.request_rebuild()
        await self.directories.request_rebuild()


def build_exports(
    files: FileSystem,
    directory: DataDirectory,
    log: ProjectionLog,
    run_subprocess: SubprocessRunner,
    settings: Settings,
) -> Exports:
    """Build what writes record files, maps and directories of a log, as far as the settings want them."""
    records = RecordFiles(files, directory.records, log, RECORD_FORMATS) if settings.record_files else None
    maps = JsonMaps(directory, log, records, run_subprocess, settings.maps_interval_s, files)
    directories: DirectoryExport | DisabledExport = DisabledExport(files, directory.context)
    if settings.context_directories:
        directories = DirectoryExport(files, directory.context, log, CONTEXT_DIRECTORIES)
    return Exports(records or DisabledExport(files, directory.records), maps, directories)


_KINDS: Final[Mapping[str, Callable[[Path], IndexFiles[Any]]]] = {"lexical": FullText, "vectors": VectorFiles}


class IndexCheck:
    """Checks the index of an account by the checksums of its files."""

    def __init__(self, name: str, folder: Path, files: IndexFiles[Any], log: LogMark) -> None:
        self._name = name
        self._folder = folder
        self._files = files
        self._log = log

    def check(self) -> CheckResult:
        """Check the checksums of the files, and compare the metadata with the log. Raises OSError."""
        metadata = self._files.read_metadata()
        if metadata is None:
            is_empty = self._files.erased_through_seq is None
            return CheckResult(None, differences=() if is_empty else [self._name], is_empty=is_empty)
        if not self._files.is_intact(metadata):
            return CheckResult(metadata.seq, differences=[self._name])
        fits = metadata.fits(self._log) and metadata.last_erase_seq == self._log.last_erase_seq
        return CheckResult(metadata.seq, fits=fits, summary=f"{metadata.documents} records")

    def discard(self) -> None:
        """Remove the index. Raises OSError."""
        shutil.rmtree(self._folder)


def projections_of(
    files: FileSystem,
    directory: DataDirectory,
    run_subprocess: SubprocessRunner,
    settings: Settings,
) -> ProjectionsOf:
    """Return what names the projections of a data directory for the doctor."""

    def list_projections(log: LogContents) -> Iterator[tuple[str, CheckedProjection]]:
        exports = build_exports(files, directory, log, run_subprocess, settings)
        yield "records", exports.records
        for family in ("", "context", "tree"):
            for kind, open_files in _KINDS.items():
                # One folder for each account.
                for folder in sorted(path for path in (directory.indexes / family / kind).glob("*") if path.is_dir()):
                    name = str(folder.relative_to(directory.root))
                    yield name, IndexCheck(name, folder, open_files(folder), log)
        yield "maps", exports.maps
        yield "context", exports.directories

    return list_projections
