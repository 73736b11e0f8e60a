"""The folder `keys/`.

keyring.json holds the wrapped data keys of sealed bodies. It is replaced before a row is written. A destroyed key
stays marked as destroyed, so that no older copy of the file, such as one in a snapshot, revives it. master.key wraps
every data key, unless the environment gives a master key. It is in no snapshot.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from knowhub.core.data_keys import MasterKey, WrappedKey
from knowhub.core.errors import Unavailable
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import (
    PRIVATE_MODE,
    FileSystem,
    remove_partial_files,
    replace_file,
    translate_errors,
)
from knowhub.stores.files.lock import lock_folder

_REFUSAL = "another process has held the keyring for too long; nothing was changed, try it again"

Keys = Mapping[str, WrappedKey]


class FileKeyring:
    """The keyring of a data directory. Several processes may change it: one at a time, and each the newest version."""

    def __init__(self, files: FileSystem, directory: DataDirectory, wait_s: float) -> None:
        self._files = files
        self._directory = directory
        self._wait_s = wait_s
        # Taken before the folder lock, which is polled: here tasks wait in order.
        self._turn = asyncio.Lock()

    async def keys(self) -> Keys:
        return await asyncio.to_thread(self._read)

    async def change(self, changed: Callable[[Keys], Keys | None]) -> None:
        async with self._turn, lock_folder(self._files, self._directory.keys, self._wait_s, _REFUSAL):
            # Shielded, so that a cancelled request keeps the lock until the thread has written.
            work = asyncio.ensure_future(asyncio.to_thread(self._change, changed))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait([work])
                raise

    async def import_keys(self, path: Path) -> None:
        """Add the keys of another keyring, such as that of a snapshot, that are missing here. Raises Unavailable."""
        try:
            with translate_errors(f"the keys in {path} were not imported"):
                others = read_keyring(self._files, path)
        except ValueError as problem:
            raise Unavailable(f"{path}: {problem}") from problem
        if others:
            await self.change(lambda keys: merge_keys(keys, others))

    def _read(self) -> Keys:
        try:
            with translate_errors("nothing sealed opens"):
                return read_keyring(self._files, self._directory.keyring)
        except ValueError as problem:
            raise Unavailable(
                f"{self._directory.keyring}: {problem}; nothing sealed opens, and nothing is sealed, until it is put "
                "back from a backup or a snapshot"
            ) from problem

    def _change(self, changed: Callable[[Keys], Keys | None]) -> None:
        before = self._read()
        with translate_errors("it is not certain that the keyring was changed; nothing was sealed"):
            # They may hold a key that is destroyed since.
            remove_partial_files(self._files, self._directory.keys)
            after = changed(before)
            if after is not None and after != before:
                replace_file(self._files, self._directory.keyring, format_keyring(after), PRIVATE_MODE)


def read_keyring(files: FileSystem, path: Path) -> dict[str, WrappedKey]:
    """Read a keyring; none is an empty one. Raises ValueError, whose text says what is wrong with it, and OSError."""
    try:
        text = files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return parse_keyring(text)


def format_keyring(keys: Keys) -> bytes:
    """Write a keyring, for people and programs to read."""
    entries = {key_id: _format_key(key) for key_id, key in keys.items()}
    return orjson.dumps({"knowhub_keyring": 1, "keys": entries}, option=orjson.OPT_INDENT_2) + b"\n"


def parse_keyring(text: bytes) -> dict[str, WrappedKey]:
    """Read a keyring's text. Raises ValueError, whose text says what is wrong with it."""
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise ValueError(f"is no JSON: {problem}") from None
    match record:
        case {"knowhub_keyring": 1, "keys": dict() as entries}:
            return {key_id: _parse_key(key_id, entry) for key_id, entry in entries.items()}
    raise ValueError("is no keyring that this KnowHub knows")


def merge_keys(ours: Keys, others: Keys) -> Keys:
    """Add keys that are missing here. Keys that are here, destroyed ones too, stay as they are."""
    return {**others, **ours}


def _format_key(key: WrappedKey) -> dict[str, Any]:
    named = {"account": key.account, "resource": key.resource_id, "master": key.master}
    if key.destroyed_at is not None:
        return {**named, "destroyed": key.destroyed_at}
    return {**named, "nonce": b64encode(key.nonce).decode(), "wrapped": b64encode(key.data).decode()}


def _parse_key(key_id: str, entry: Any) -> WrappedKey:  # noqa: ANN401 -- JSON
    match entry:
        case {"account": str() as account, "resource": str() as resource, "master": str() as master, **rest}:
            match rest:
                case {"destroyed": str() as moment}:
                    return WrappedKey(account, resource, master, destroyed_at=moment)
                case {"nonce": str() as nonce, "wrapped": str() as data}:
                    return WrappedKey(account, resource, master, b64decode(nonce, validate=True), b64decode(data))
    raise ValueError(f"does not say of key {key_id!r} what it opens")


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
