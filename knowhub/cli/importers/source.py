"""The files of an import: one file, a folder, or a zip archive. Nothing is unpacked, and no symlink is followed."""

import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from knowhub.core import clock
from knowhub.core.errors import InvalidInput, NotFound, TooLarge
from knowhub.web.hooks.transcripts import parse_entry

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
MAX_VALUE_CHARS: Final = 64 * 1024 * 1024
"""One value of a JSON array, or a file that is read whole."""
MAX_ENTRIES: Final = 200_000
# Texts are packed to a fifth or a tenth; zeros to a thousandth.
_MAX_PACKED: Final = 100
_PACKED_FREELY: Final = 64 * 1024 * 1024
_CHUNK_CHARS: Final = 1024 * 1024
_ZIP_MAGIC: Final = b"PK\x03\x04"
_ENCRYPTED: Final = 0x1
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NO_OBJECTS: Final = "lines that are no JSON objects"
_HIDDEN: Final = (".", "__MACOSX")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file by its name in the source, with `/` between folders; `size` in bytes."""

    name: str
    size: int
    modified_at: str | None
    source: "ImportSource"

    @property
    def path(self) -> PurePosixPath:
        """The name as a path."""
        return PurePosixPath(self.name)

    def read(self) -> bytes:
        """Return the content. Raises TooLarge and InvalidInput."""
        if self.size > MAX_VALUE_CHARS:
            raise TooLarge(f"{self.name} has {self.size} bytes; at most {MAX_VALUE_CHARS} are read at once")
        self.source.count(self.size)
        with self.source.open(self) as stream:
            return stream.read(MAX_VALUE_CHARS)

    def iterate_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines, each with its offset in bytes. Lines of over 64 MiB are left out and counted."""
        offset, is_cut = 0, False
        with self.source.open(self) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                is_complete = line.endswith(b"\n") or len(line) < MAX_LINE_BYTES
                if is_complete and not is_cut:
                    yield offset, line
                elif is_complete:
                    self.source.left_out["lines of over 64 MiB"] += 1
                offset, is_cut = offset + len(line), not is_complete
                self.source.count(len(line))

    def iterate_objects(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of the lines; other lines are left out and counted, and a last one is named.

        Raises InvalidInput if the last line is cut off and has no end: so is the file, and more may be missing.
        """
        is_cut = False
        for _, line in self.iterate_lines():
            if not line.strip():
                continue
            entry = parse_entry(line)
            is_cut = entry is None and line.lstrip().startswith(b"{")
            if entry is not None:
                yield entry
            elif is_cut and not line.endswith(b"\n"):
                raise InvalidInput(
                    f"{self.name} is cut off: its last line is no whole JSON object; nothing was imported"
                )
            else:
                self.source.left_out[_NO_OBJECTS] += 1
        if is_cut:
            self.source.left_out[_NO_OBJECTS] -= 1
            self.source.left_out[f"last line of {self.name}, which is cut off"] += 1

    def iterate_items(self, *fields: str) -> Iterator[Any]:
        """Yield the values of a JSON array, or of the arrays that an object has in `fields`, or the object.

        An array is read in pieces, so that its size does not matter. Raises TooLarge, and InvalidInput for a file
        that is no JSON or goes on after its end.
        """
        with self.source.open(self) as stream:
            text = TextIOWrapper(stream, "utf-8-sig")

            def read(count: int) -> str:
                part = text.read(count)
                self.source.count(len(part))
                return part

            try:
                start = read(_CHUNK_CHARS).lstrip()
                if start.startswith("["):
                    whole, rest = None, (yield from _iterate_array(read, start))
                else:
                    start = (start + _read_rest(read)).lstrip()
                    whole, end = json.JSONDecoder().raw_decode(start)
                    rest = start[end:]
                while rest.isspace():
                    rest = read(_CHUNK_CHARS)
            except TooLarge:
                raise TooLarge(f"{self.name}: a value has more than {MAX_VALUE_CHARS} characters") from None
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"{self.name} is cut off or is no JSON: {error}"[:300]) from error
        if rest:
            raise InvalidInput(
                f"{self.name} goes on after the end of its JSON, with {rest.strip()[:20]!r}: export it again, or "
                "delete what follows; nothing was imported"
            )
        if start.startswith("["):
            return
        named = [whole[name] for name in fields if isinstance(whole, dict) and isinstance(whole.get(name), list)]
        yield from (item for values in named for item in values) if named else [whole]


class ImportSource:
    """A file, a folder or a zip archive. `report` gets the bytes that are read, and those that there are.

    Raises NotFound where there is nothing, and InvalidInput for an archive that is damaged, encrypted or hostile.
    """

    def __init__(self, path: Path, report: Callable[[int, int], None]) -> None:
        self.left_out: Counter[str] = Counter()
        self._path = path
        self._report = report
        self._read = self._total = 0
        if not path.exists():
            raise NotFound(f"there is no {path}")
        self._archive = _open_archive(path) if path.is_file() else None

    def list_files(self, *suffixes: str, hidden: bool = False) -> list[SourceFile]:
        """Return the files with a suffix, by name. What is hidden is left out, unless it is asked for."""
        if self._archive is None and self._path.is_file():
            files = [self._make_file(self._path, self._path.name)]
        else:
            files = []
            for file in self._iterate_all(hidden=hidden):
                if file.path.suffix.lower() in suffixes:
                    files.append(file)
                else:
                    self.left_out[f"files *{file.path.suffix[:20]}"] += 1
            files.sort(key=lambda file: file.name)
        self._total += sum(file.size for file in files)
        return files

    @contextmanager
    def open(self, file: SourceFile) -> Iterator[IO[bytes]]:
        """Open a file. Raises InvalidInput when its bytes in the archive are damaged."""
        try:
            if self._archive is not None:
                with self._archive.open(file.name) as stream:
                    yield stream
            else:
                with (self._path if self._path.is_file() else self._path / file.name).open("rb") as stream:
                    yield stream
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise InvalidInput(f"{file.name} cannot be unpacked: {error}; nothing was imported") from error

    def count(self, read: int) -> None:
        """Note that so many bytes more were read."""
        self._read += read
        self._report(self._read, self._total)

    def _iterate_all(self, *, hidden: bool) -> Iterator[SourceFile]:
        if self._archive is not None:
            for info in self._archive.infolist():
                is_hidden = any(part.startswith(_HIDDEN) for part in info.filename.split("/"))
                if not info.is_dir() and (hidden or not is_hidden):
                    yield SourceFile(info.filename, info.file_size, None, self)
            return
        for folder, folders, names in os.walk(self._path):
            if not hidden:
                folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
            for name in [*names, *(name for name in folders if Path(folder, name).is_symlink())]:
                path = Path(folder, name)
                if not stat.S_ISREG(path.lstat().st_mode):
                    self.left_out["symbolic links and special files"] += 1
                elif hidden or not name.startswith(_HIDDEN):
                    yield self._make_file(path, path.relative_to(self._path).as_posix())

    def _make_file(self, path: Path, name: str) -> SourceFile:
        status = path.stat()
        return SourceFile(name, status.st_size, clock.iso(status.st_mtime), self)


def _open_archive(path: Path) -> zipfile.ZipFile | None:
    """Open an archive after a look at each of its names, before anything is read from it; None if it is none."""
    with path.open("rb") as file:
        if file.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
            return None
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{path} is cut off or damaged: {error}; nothing was imported") from error
    entries = archive.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    max_unpacked = max(_PACKED_FREELY, _MAX_PACKED * path.stat().st_size)
    if len(entries) > MAX_ENTRIES or unpacked > max_unpacked:
        raise TooLarge(
            f"{path} holds {len(entries)} files of {unpacked} bytes; at most {MAX_ENTRIES} files and "
            f"{max_unpacked} bytes are taken from an archive of its size; nothing was imported"
        )
    names = Counter(entry.filename for entry in entries)
    for entry in entries:
        parts = entry.filename.rstrip("/").split("/")
        is_unsafe = "\\" in entry.filename or parts[0].endswith(":") or any(part in {"", ".", ".."} for part in parts)
        is_link = stat.S_ISLNK(entry.external_attr >> 16)
        if is_unsafe or is_link or entry.flag_bits & _ENCRYPTED or names[entry.filename] > 1:
            what = "leads out of the archive" if is_unsafe else "is a symbolic link, encrypted, or there twice"
            raise InvalidInput(f"{path}: the entry {entry.filename[:200]!r} {what}; nothing was imported")
    return archive


def _read_rest(read: Callable[[int], str]) -> str:
    rest = read(MAX_VALUE_CHARS)
    if len(rest) == MAX_VALUE_CHARS:
        raise TooLarge("too large")
    return rest


def _iterate_array(read: Callable[[int], str], buffer: str) -> Generator[Any, None, str]:
    """Yield the values of an array that begins with `buffer`. Return what was read after its end."""
    decoder = json.JSONDecoder()
    at, comma = 1, ""
    while True:
        try:
            at = _skip_space(buffer, at)
            if buffer.startswith("]", at):
                return buffer[at + 1 :]
            start = _skip_space(buffer, at + 1) if comma and buffer.startswith(comma, at) else at
            value, end = decoder.raw_decode(buffer, start)
        except ValueError:
            # The value goes on behind the buffer, which doubles each time: so all of it takes linear time.
            more = read(max(_CHUNK_CHARS, len(buffer) - at))
            if not more:
                raise
            buffer, at = buffer[at:] + more, 0
            if len(buffer) > MAX_VALUE_CHARS:
                raise TooLarge("too large") from None
        else:
            yield value
            at, comma = end, ","


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
