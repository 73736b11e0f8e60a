"""The manifest of the log: which files of `change_log/` are current.

`MANIFEST` names the base, if there is one, and the segments that existed when it was written. A segment with a higher
number and no generation in its name was started since, and is current too. No other file is read: an interrupted
rewrite left it, or a rewrite replaced it.

A rewrite writes files with its own generation in their names (`segment-00000003.g4.jsonl`), syncs them, and replaces
the manifest with one rename. So after a crash either the old files are current, or the new ones. A rewritten segment
keeps its number, and each of its lines keeps its offset.

A copy (`cp -r`) of a directory in use takes its files at different moments. So the manifest names two sets: the
current files, and those before the last rewrite, which are removed only after the manifest is published. If a copy
lacks a file of the newer set and its older set is complete, it is opened with the older set, as the log was then. The
older set may lack its last segments, if they were started after the copy had listed its files. If neither set is
complete, the copy is opened for reading only, or not at all, and the missing files are named.

A directory without a manifest was written by an earlier version: the newest base and all segments are current.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.log.log_line import BASE, format_line, parse_line

MANIFEST: Final = "MANIFEST"
SEGMENT_PREFIX: Final = "segment-"
BASE_PREFIX: Final = "base-"
SUFFIX: Final = ".jsonl"
_NAME: Final = re.compile(r"(segment-|base-)(\d+)(?:\.g(\d+))?\.jsonl")


@dataclass(frozen=True, slots=True, order=True)
class LogFileName:
    """The name of a file of the log. `generation` is that of the rewrite that wrote it, 0 for a file as it began."""

    prefix: str
    number: int
    generation: int = 0

    def __str__(self) -> str:
        generation = f".g{self.generation}" if self.generation else ""
        return f"{self.prefix}{self.number:08d}{generation}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A base and the segments after it, in their order."""

    base: LogFileName | None
    segments: Sequence[LogFileName]

    @property
    def names(self) -> set[str]:
        return {str(name) for name in (*([self.base] if self.base else []), *self.segments)}


@dataclass(frozen=True, slots=True)
class LogManifest:
    """What `MANIFEST` says: the current files, since the rewrite `generation`, and those before it."""

    generation: int
    files: LogFiles
    before: LogFiles | None = None


def parse_name(name: str) -> LogFileName | None:
    """Return what the name of a file says; None for a file that is no part of the log.

    Raises ValueError for a name that begins and ends as that of a segment or a base does, and has no number.
    """
    match = _NAME.fullmatch(name)
    if match is not None:
        return LogFileName(match[1], int(match[2]), int(match[3] or 0))
    if name.startswith((SEGMENT_PREFIX, BASE_PREFIX)) and name.endswith(SUFFIX):
        raise ValueError(f"{name} has no number")
    return None


def read_manifest(files: FileSystem, folder: Path) -> LogManifest | None:
    """Return the manifest of a folder; None where there is none. Raises ValueError for a damaged one, and OSError."""
    try:
        data = files.read(folder / MANIFEST)
    except FileNotFoundError:
        return None
    match parse_line(data):
        case {"knowhub_manifest": 1, "generation": int() as generation, "files": dict() as current, "before": before}:
            return LogManifest(generation, _files_of(current), _files_of(before) if before is not None else None)
    raise ValueError("its checksum or its JSON is wrong")


def publish_manifest(
    files: FileSystem, folder: Path, manifest: LogManifest, before_rename: Callable[[], None] = lambda: None
) -> None:
    """Replace the manifest durably. The files that it names must be synced. Raises OSError.

    `before_rename()` is called when the new manifest is written, but not yet current.
    """
    # The names of new files first: without them the manifest would name what a power cut has taken.
    files.sync_folder(folder)
    record = {
        "knowhub_manifest": 1,
        "generation": manifest.generation,
        "files": _record_of(manifest.files),
        "before": None if manifest.before is None else _record_of(manifest.before),
    }
    replace_file(files, folder / MANIFEST, format_line(record), before_rename=before_rename)


def newest_files(names: Sequence[LogFileName]) -> LogFiles:
    """Return the newest base and the newest file of each segment after it, for a log without a manifest."""
    newest: dict[tuple[str, int], LogFileName] = {(name.prefix, name.number): name for name in sorted(names)}
    base = max((name for name in newest.values() if name.prefix == BASE_PREFIX), default=None)
    first = base.number if base is not None else 0
    segments = [name for name in newest.values() if name.prefix == SEGMENT_PREFIX and name.number >= first]
    return LogFiles(base, sorted(segments))


def _record_of(files: LogFiles) -> Mapping[str, Any]:
    base = None if files.base is None else str(files.base)
    return {"base": base, "segments": [str(name) for name in files.segments]}


def _files_of(record: Mapping[str, Any]) -> LogFiles:
    match record:
        case {"base": str() | None as base, "segments": list() as segments}:
            named = [parse_name(str(name)) for name in segments]
            base_name = parse_name(base) if base is not None else None
            if all(named) and (base is None or base_name is not None):
                return LogFiles(base_name, [name for name in named if name is not None])
    raise ValueError("it names no files of a log")


_MANIFEST_GONE = "it is missing, and only it names the files that a rewrite has put here"


@dataclass(frozen=True, slots=True)
class _View:
    """The files that this process uses."""

    generation: int
    files: LogFiles
    problem: str | None
    is_due: bool


class ActiveFiles:
    """The files that a log consists of. The manifest is read once and by `reload`; the folder is read each time."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files = files
        self.folder = folder
        self._view: _View | None = None
        self._names: dict[int, LogFileName] = {}

    def reload(self) -> None:
        """Use the manifest that is on disk now. Raises OSError."""
        listed = self._list()
        try:
            manifest, problem = read_manifest(self._files, self.folder), None
        except ValueError as wrong:
            manifest, problem = None, str(wrong)
        if manifest is None and problem is None and any(name.generation for name in listed):
            problem = _MANIFEST_GONE
        guess = _View(0, newest_files(listed), problem, is_due=True)
        view = self._view = _choose(manifest, listed) if manifest is not None else guess
        # Older names stay known: this process may still read from a file that a base has replaced.
        self._names |= {name.number: name for name in view.files.segments}
        if view.files.base is not None:
            self._names[BASE | view.files.base.number] = view.files.base

    @property
    def generation(self) -> int:
        """The number of the newest rewrite; 0 where there is no manifest."""
        return self._current.generation

    @property
    def manifest_problem(self) -> str | None:
        """What is wrong with the manifest, so that nothing may be written; None if it is good."""
        return self._current.problem

    @property
    def is_manifest_due(self) -> bool:
        """Whether the manifest is missing, or its newer set is not the one in use."""
        return self._current.is_due

    def files(self) -> LogFiles:
        """Return the active files, for a new manifest."""
        base = None if self.base is None else self.name(self.base)
        return LogFiles(base, [self.name(number) for number in self.segments()])

    def list_segments(self) -> Sequence[LogFileName]:
        """Return the segments that the manifest names, also those that are not there."""
        return self._current.files.segments

    def missing(self) -> list[Path]:
        """Return the files that the manifest names and that are not there."""
        there = set(self._files.names(self.folder))
        return [self.folder / name for name in sorted(self._current.files.names - there)]

    @property
    def newest_generation(self) -> int:
        """The highest generation that a manifest or the name of a file here has."""
        return max([self.generation, *(name.generation for name in self._list())])

    def list_unused(self) -> list[LogFileName]:
        """Return the files of the log that are not current, in the order of their numbers."""
        active = self.files().names
        found = [name for name in self._list() if str(name) not in active]
        return sorted(found, key=lambda name: (name.number, name))

    def segments(self) -> list[int]:
        """Return the numbers of the current segments that are on disk, oldest first."""
        files, listed = self._current.files, self._list(SEGMENT_PREFIX)
        there = [name.number for name in files.segments if name in listed]
        last = files.segments[-1].number if files.segments else 0
        return [*there, *(name.number for name in listed if name.number > last and not name.generation)]

    @property
    def base(self) -> int | None:
        """The number of the current base, `BASE` plus that of the segment after it; None if it is missing."""
        base = self._current.files.base
        return BASE | base.number if base is not None and base in self._list(BASE_PREFIX) else None

    def name(self, number: int) -> LogFileName:
        """Return the name of the file with this number that is current, or was last."""
        if self._view is None:
            self.reload()
        return self._names.get(number) or plain_name(number)

    @property
    def _current(self) -> _View:
        if self._view is None:
            self.reload()
        assert self._view is not None  # noqa: S101 -- `reload` has set it
        return self._view

    def _list(self, prefix: str = "") -> list[LogFileName]:
        names = [name for name in map(parse_name, self._files.names(self.folder)) if name is not None]
        return sorted(name for name in names if name.prefix.startswith(prefix))


def plain_name(number: int) -> LogFileName:
    """Return the name with which the file of this number begins, before any rewrite."""
    return LogFileName(BASE_PREFIX if number & BASE else SEGMENT_PREFIX, number & ~BASE)


def _choose(manifest: LogManifest, listed: list[LogFileName]) -> _View:
    """Choose the newer set of the manifest; the older set if only that is complete."""
    there = {str(name) for name in listed}
    sets = [manifest.files]
    if (before := manifest.before) is not None:
        # Where the rewrite has left no file, a copy was begun before it. Else a segment that is missing was lost.
        is_earlier = there.isdisjoint(manifest.files.names - before.names)
        sets.append(_without_later_segments(before, there) if is_earlier else before)
    files = next((files for files in sets if files.names <= there), manifest.files)
    return _View(manifest.generation, files, None, is_due=files is not manifest.files)


def _without_later_segments(files: LogFiles, there: Collection[str]) -> LogFiles:
    """Leave out segments at the end that were begun after a copy had listed its files: no rewrite has touched them."""
    segments = list(files.segments)
    while len(segments) > 1 and not segments[-1].generation and str(segments[-1]) not in there:
        segments.pop()
    return LogFiles(files.base, segments)
