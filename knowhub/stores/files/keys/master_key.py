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
class FileMasterKeys:
    """The master keys of a data directory. During a rotation a second file holds the next key.

    The one before stays as a third, which opens what snapshots of its time bring back, until somebody deletes it.
    `given` wraps, where the environment names it, and `former` still open. Else `path` holds the key. With `can_create`
    it is created when it is first needed. `read(text)` makes a key of the content of a file, and raises ValueError;
    `draw()` returns the text of a new one.
    """

    files: FileSystem
    path: Path
    read: Callable[[str], MasterKey]
    draw: Callable[[], str]
    given: MasterKey | None = None
    former: Sequence[MasterKey] = ()
    can_create: bool = True

    @property
    def _next(self) -> Path:
        return self.path.with_name(self.path.name + _NEXT)

    @property
    def _old(self) -> Path:
        return self.path.with_name(self.path.name + _OLD)

    def keys(self, *, make: bool) -> Sequence[MasterKey]:
        # In this order: a rotation that ends between two looks renames the second file over the first.
        found = [key for key in map(self._read, (self._next, self.path)) if key is not None]
        old = self._read(self._old)
        former = [*self.former, *([] if old is None else [old])]
        if self.given is not None:
            # What a file wrapped opens on, until a rotation has brought it over.
            return [self.given, *found, *former]
        if not found and make and self.can_create:
            found = [self._make_key(self.path)]
            _log.warning(
                "master_key_made",
                path=str(self.path),
                note="keep a copy of it elsewhere: it is in no snapshot, and without it no sealed body opens",
            )
        return [*found, *former] if found else []

    def begin_rotation(self) -> None:
        if self.given is None and self._read(self._next) is None:
            if self._read(self.path) is None:
                # With nothing to go on from, a key that is made here would hide that one is gone.
                raise Unavailable(f"there is no master key at {self.path} yet; there is nothing to rotate")
            self._make_key(self._next)

    def end_rotation(self) -> None:
        if self.given is None and self._read(self._next) is not None:
            with translate_errors("the new master key wraps already; run the rotation again"):
                if self.files.inode(self.path) is not None:
                    self.files.rename(self.path, self._old)
                self.files.rename(self._next, self.path)
                self.files.sync_folder(self.path.parent)

    def _read(self, path: Path) -> MasterKey | None:
        with translate_errors("nothing is sealed, and nothing sealed opens"):
            try:
                return self.read(self.files.read(path).decode())
            except (FileNotFoundError, NotADirectoryError):
                return None
            except ValueError as problem:
                raise Unavailable(f"{path} holds no key: {problem}") from None

    def _make_key(self, path: Path) -> MasterKey:
        text = self.draw()
        with translate_errors("no master key could be made, and nothing was sealed"):
            self.files.make_folder(path.parent)
            replace_file(self.files, path, f"{text}\n".encode(), PRIVATE_MODE)
        return self.read(text)
