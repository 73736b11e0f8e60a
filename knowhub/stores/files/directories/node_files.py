"""The directory of one node: five files, of which `.meta.json` is written last and says what the others hold.

Nothing is synced: what stands here is derived from the log. A file that is not as `.meta.json` says is written anew.
"""

import contextlib
import errno
import itertools
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from knowhub.core.errors import Unavailable
from knowhub.stores.files.directories.node_way import Look, is_folder, plain_size, read_plain, remove, seen_of
from knowhub.stores.files.filesystem import FilePath, FileSystem, write_all
from knowhub.stores.files.snapshots.restore_work import remove_tree

ABSTRACT, OVERVIEW, CONTENT = ".abstract.md", ".overview.md", "content.md"
RELATIONS, META = ".relations.json", ".meta.json"
IN_ORDER: Final = (ABSTRACT, OVERVIEW, CONTENT, RELATIONS, META)
"""The files in the order in which a new directory gets them, and in which a look at it goes."""
NODE_FILES: Final = frozenset(IN_ORDER)
TEMPORARY: Final = ".tmp"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
# Of what is to be read: it is not there, or a link stands in its place.
_NO_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO)
_IS_THERE: Final = (errno.ENOTEMPTY, errno.EEXIST)
_TRIES, _PAUSE_S = 200, 0.005
_numbers = itertools.count()

Sum = tuple[int, str]
"""Size and checksum of a file."""


@dataclass(frozen=True, slots=True)
class NodeContent:
    """What the directory of a node holds: `meta` as it is to stand, without the sums of the files that it tells of."""

    texts: Mapping[str, bytes]
    meta: Mapping[str, Any]

    def sums(self) -> dict[str, Sum]:
        """Return size and checksum of each file but `.meta.json`."""
        return {name: sum_of(text) for name, text in self.texts.items()}


class NodeFiles:
    """Writes, reads and removes such directories. Who writes holds the lock on the folder of all memories.

    Readers need none: what they read is all of one moment, or they read again.
    """

    def __init__(self, files: FileSystem, pause: Callable[[float], None] = time.sleep) -> None:
        self._files = files
        self._pause = pause

    def note(self, folder: Path) -> Mapping[str, Any] | None:
        """Return what `.meta.json` says; None where there is none, or none that reads back. Raises OSError."""
        try:
            value = orjson.loads(read_plain(self._files, f"{folder}/{META}"))
        except orjson.JSONDecodeError:
            return None
        except OSError as problem:
            if problem.errno in _NO_FILE:
                return None
            raise
        return value if isinstance(value, dict) and isinstance(value.get("files"), dict) else None

    def put(self, folder: Path, content: NodeContent, *, anew: bool = False) -> None:
        """Write a node: as a directory that appears at once, or, where there is one, file by file. Raises OSError.

        Of one that is there only those files are written that `.meta.json` tells to differ, unless all are `anew`.
        """
        if self._files.look(folder) is None and self.made(folder, content) is not None:
            return
        sums = content.sums()
        note = None if anew else self.note(folder)
        if note is None:
            # What is no file would not give way to one.
            for path in (folder / name for name in NODE_FILES):
                if is_folder(self._files, path):
                    remove(self._files, path)
        known = noted_sums(note)
        for name, text in content.texts.items():
            if known.get(name) != sums[name]:
                put_file(self._files, folder / name, text)
        put_file(self._files, folder / META, meta_text(content.meta, sums))
        self.tidy(folder)

    def made(self, folder: FilePath, content: NodeContent) -> Look | None:
        """Make the directory under another name, and give it its own; return how its files look `IN_ORDER`.

        None where there is one. Raises OSError, NotADirectoryError where a file or a link bears its name.
        """
        texts = {**content.texts, META: meta_text(content.meta, content.sums())}
        making = temporary_name(folder)
        try:
            self._files.make_folder(making)
            look = tuple([_write(self._files, f"{making}/{name}", texts[name]) for name in IN_ORDER])
            self._files.rename(making, folder)
        except OSError as problem:
            # The failure that counts is the first; what stays behind is swept away.
            with contextlib.suppress(OSError):
                remove_tree(self._files, Path(making))
            if problem.errno in _IS_THERE:
                return None
            raise
        return look

    def extend(self, folder: Path, note: Mapping[str, Any], content: NodeContent, tail: bytes) -> None:
        """Write `tail` behind what `note` says `content.md` to hold, and the other files as they are to be.

        Who reads meanwhile reads as much of it as its `.meta.json` said. Raises OSError.
        """
        known = noted_sums(note)
        size, checksum = known[CONTENT]
        if tail:
            descriptor = self._files.open(folder / CONTENT, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                write_all(self._files, descriptor, tail, size)
                # What a process left behind that died is not part of it.
                self._files.truncate(descriptor, size + len(tail))
            finally:
                self._files.close(descriptor)
        sums = {**content.sums(), CONTENT: (size + len(tail), _hex(zlib.crc32(tail, int(checksum, 16))))}
        for name, text in content.texts.items():
            if name != CONTENT and known.get(name) != sums[name]:
                put_file(self._files, folder / name, text)
        put_file(self._files, folder / META, meta_text(content.meta, sums))
        self.tidy(folder)

    def read(self, folder: Path, names: frozenset[str]) -> tuple[Mapping[str, Any], dict[str, bytes]] | None:
        """Return `.meta.json` and some other files, all of one moment; None where there is no such node (any more).

        Raises OSError, and Unavailable where they never fit each other.
        """
        for attempt in range(_TRIES):
            if attempt:
                self._pause(_PAUSE_S)
            note = self.note(folder)
            if note is None:
                if self._files.look(folder / META) is None:
                    return None
                continue
            texts = self._fitting(folder, noted_sums(note), names)
            if texts is not None:
                return note, texts
        raise Unavailable(f"{folder} is not as its {META} says: the keeper of the data directory writes it anew")

    def is_whole(self, folder: Path, note: Mapping[str, Any], *, thorough: bool = False) -> bool:
        """Tell by their sizes, or by all of their bytes, whether the files are as `note` says. Raises OSError."""
        sums = noted_sums(note)
        if sums.keys() != NODE_FILES - {META}:
            return False
        if any(plain_size(self._files, f"{folder}/{name}") != size for name, (size, _) in sums.items()):
            return False
        return not thorough or self._fitting(folder, sums, frozenset(sums)) is not None

    def is_extensible(self, folder: Path, note: Mapping[str, Any], *, thorough: bool = False) -> bool:
        """Tell the same where `content.md` may be longer, with what a process left behind that died. Raises OSError."""
        sums = noted_sums(note)
        sizes = {name: plain_size(self._files, f"{folder}/{name}") for name in sums}
        fits = sums.keys() == NODE_FILES - {META} and all(
            size == sums[name][0] or (name == CONTENT and size is not None and size > sums[name][0])
            for name, size in sizes.items()
        )
        return fits and (not thorough or self._fitting(folder, sums, frozenset(sums)) is not None)

    def tidy(self, folder: Path) -> None:
        """Remove what is in the directory of a node and does not belong there. Raises OSError."""
        for name in self._files.names(folder):
            if name not in NODE_FILES:
                remove(self._files, folder / name)

    def remove(self, folder: Path) -> bool:
        """Remove a node, which vanishes at once; tell whether there was one. Raises OSError."""
        if self._files.look(folder) is None:
            return False
        aside = temporary_name(folder)
        self._files.rename(folder, aside)
        remove(self._files, Path(aside))
        return True

    def _fitting(self, folder: Path, sums: Mapping[str, Sum], names: frozenset[str]) -> dict[str, bytes] | None:
        texts = {}
        for name in names:
            if name not in sums:
                return None
            try:
                # What stands behind was added since.
                text = read_plain(self._files, f"{folder}/{name}")[: sums[name][0]]
            except OSError as problem:
                if problem.errno in _NO_FILE:
                    return None
                raise
            if sum_of(text) != sums[name]:
                return None
            texts[name] = text
        return texts


def sum_of(text: bytes) -> Sum:
    """Return size and checksum of a text."""
    return len(text), _hex(zlib.crc32(text))


def noted_sums(note: Mapping[str, Any] | None) -> dict[str, Sum]:
    """Return what a note says of each file, as far as it can be read."""
    found = {}
    for name, noted in ((note or {}).get("files") or {}).items():
        match noted:
            case [int() as size, str() as checksum]:
                found[name] = (size, checksum)
    return found


def meta_text(meta: Mapping[str, Any], sums: Mapping[str, Sum]) -> bytes:
    """Write `.meta.json`."""
    return orjson.dumps({**meta, "files": sums}, option=orjson.OPT_INDENT_2) + b"\n"


def temporary_name(path: FilePath) -> str:
    """Return a name beside a path that nobody else uses, and that no node has."""
    above, slash, name = str(path).rpartition("/")
    # Of a name that begins with a dot the dot is enough.
    return f"{above}{slash}.{name.removeprefix('.')}.{os.getpid()}.{next(_numbers)}{TEMPORARY}"


def put_file(files: FileSystem, path: Path, text: bytes) -> None:
    """Put a file in the place of what is there, in one step that survives no power cut. Raises OSError."""
    making = temporary_name(path)
    try:
        _write(files, making, text)
        files.rename(making, path)
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(making)
        raise


def prune(files: FileSystem, root: Path, folder: Path) -> None:
    """Remove a folder that is empty, and those above it that become so, up to `root`. Raises OSError."""
    while folder != root and is_folder(files, folder) and not files.names(folder):
        files.remove_folder(folder)
        folder = folder.parent


def _write(files: FileSystem, path: FilePath, text: bytes) -> tuple[int, int, int]:
    descriptor = files.open(path, _NEW)
    try:
        if text:
            write_all(files, descriptor, text, 0)
        return seen_of(files.look_into(descriptor))
    finally:
        files.close(descriptor)


def _hex(checksum: int) -> str:
    return f"{checksum:08x}"
