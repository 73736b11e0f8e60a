"""keys/master.key: the key that wraps every data key, where the environment gives none; in no snapshot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from knowhub.core.data_keys import MasterKey
from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem, replace_file, translate_errors

_log = structlog.get_logger("knowhub.keys")
_NEXT, _OLD = ".next", ".old"


@dataclass(frozen=True, slots=True)
class MasterKeyOptions:
    """`given` wraps, where the environment names it, and `former` still open. Else `path` holds the key.

    With `can_create` it is created when it is first needed. `read(text)` makes a key of the content of a file, and
    raises ValueError; `draw()` returns the text of a new one.
    """

    path: Path
    read: Callable[[str], MasterKey]
    draw: Callable[[], str]
    given: MasterKey | None = None
    former: Sequence[MasterKey] = ()
    can_create: bool = True


class FileMasterKeys:
    """The master keys of a data directory. During a rotation a second file holds the next key.

    The one before stays as a third, which opens what snapshots of its time bring back, until somebody deletes it.
    """

    def __init__(self, files: FileSystem, options: MasterKeyOptions) -> None:
        self._files = files
        self._options = options
        self._next = options.path.with_name(options.path.name + _NEXT)
        self._old = options.path.with_name(options.path.name + _OLD)

    def keys(self, *, make: bool) -> Sequence[MasterKey]:
        options = self._options
        # In this order: a rotation that ends between two looks renames the second file over the first.
        found = [key for key in map(self._read, (self._next, options.path)) if key is not None]
        old = self._read(self._old)
        former = [*options.former, *([] if old is None else [old])]
        if options.given is not None:
            # What a file wrapped opens on, until a rotation has brought it over.
            return [options.given, *found, *former]
        if not found and make and options.can_create:
            found = [self._make_key(options.path)]
            _log.warning(
                "master_key_made",
                path=str(options.path),
                note="keep a copy of it elsewhere: it is in no snapshot, and without it no sealed body opens",
            )
        return [*found, *former] if found else []

    def begin_rotation(self) -> None:
        options = self._options
        if options.given is None and self._read(self._next) is None:
            if self._read(options.path) is None:
                # With nothing to go on from, a key that is made here would hide that one is gone.
                raise Unavailable(f"there is no master key at {options.path} yet; there is nothing to rotate")
            self._make_key(self._next)

    def end_rotation(self) -> None:
        path = self._options.path
        if self._options.given is None and self._read(self._next) is not None:
            with translate_errors("the new master key wraps already; run the rotation again"):
                if self._files.inode(path) is not None:
                    self._files.rename(path, self._old)
                self._files.rename(self._next, path)
                self._files.sync_folder(path.parent)

    def _read(self, path: Path) -> MasterKey | None:
        with translate_errors("nothing is sealed, and nothing sealed opens"):
            try:
                return self._options.read(self._files.read(path).decode())
            except (FileNotFoundError, NotADirectoryError):
                return None
            except ValueError as problem:
                raise Unavailable(f"{path} holds no key: {problem}") from None

    def _make_key(self, path: Path) -> MasterKey:
        text = self._options.draw()
        with translate_errors("no master key could be made, and nothing was sealed"):
            self._files.make_folder(path.parent)
            replace_file(self._files, path, f"{text}\n".encode(), PRIVATE_MODE)
        return self._options.read(text)
