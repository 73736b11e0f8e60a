"""Looking at what seals: the keyring, held against the log, and the rights of the files beside it."""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowhub.resources.decisions import SEALED
from knowhub.resources.model import RESOURCES, WrappedKey
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.findings import Finding, Severity, some_of
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem
from knowhub.stores.files.keys.keyring import read_keyring

_PUT_BACK = "put keys/keyring.json back from a backup, or from keys/ of the newest snapshot"
_GONE = "nothing opens them any more: save them anew, or delete them"


@dataclass(slots=True)
class SealedRead:
    """Which data keys a log names: that of each live sealed body, by account and id, and those of all versions."""

    bodies: dict[tuple[str, str], str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def take(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        """Take in a row's newest content."""
        if collection != RESOURCES:
            return
        place, sealed = (account, row["id"]), row.get(SEALED)
        self.bodies.pop(place, None)
        if sealed is not None:
            self.named.add(sealed["key_id"])
            if not row.get("deleted", False):
                self.bodies[place] = sealed["key_id"]


def key_findings(files: FileSystem, directory: DataDirectory, read: SealedRead, *, is_whole: bool) -> Iterator[Finding]:
    """Tell whether the keyring reads and holds what the log needs, and whether others may read the master key.

    The log was read before: a key is in the keyring before its row is in the log. `is_whole` says that all of the log
    could be read. Raises OSError.
    """
    names = files.names(directory.keys)
    if not names and not read.bodies:
        return
    try:
        keys = read_keyring(files, directory.keyring)
    except ValueError as problem:
        yield Finding(
            Severity.PROBLEM, str(directory.keyring), f"is damaged: it {problem}", f"nothing sealed opens: {_PUT_BACK}"
        )
    else:
        yield Finding(Severity.OK, "keys", _counted(keys, read if is_whole else None))
        yield from _unopened(keys, read, str(directory.keyring))
    for name in names:
        if name.startswith(directory.master_key.name):
            yield from _rights(directory.keys / name)


def _counted(keys: Mapping[str, WrappedKey], read: SealedRead | None) -> str:
    of_bodies = {key_id: one for key_id, one in keys.items() if one.is_of_a_body}
    standing = {key_id for key_id, one in of_bodies.items() if one.destroyed_at is None}
    spare = 0 if read is None else len(standing - read.named)
    told = f"{len(standing)} keys of sealed bodies, {len(of_bodies) - len(standing)} destroyed"
    # Of versions that a compaction forgot, or of a body that is being sealed now.
    return f"{told}; {spare} of them are named by no line of the log, which harms nothing" if spare else told


def _unopened(keys: Mapping[str, WrappedKey], read: SealedRead, ring: str) -> Iterator[Finding]:
    for account in sorted({account for account, _ in read.bodies}):
        bodies = {row_id: key_id for (of, row_id), key_id in read.bodies.items() if of == account}
        missing = sorted(row_id for row_id, key_id in bodies.items() if key_id not in keys)
        if missing:
            yield Finding(Severity.PROBLEM, ring, f"lacks {_keys_of(account, missing)}: {some_of(missing)}", _PUT_BACK)
        gone = sorted(
            row_id for row_id, key_id in bodies.items() if key_id in keys and keys[key_id].destroyed_at is not None
        )
        if gone:
            # No problem: beside a running server the row may have been erased since it was read.
            were = "was" if len(gone) == 1 else "were"
            detail = f"{_keys_of(account, gone)} {were} destroyed: {some_of(gone)}"
            yield Finding(Severity.NOTE, ring, detail, _GONE)


def _keys_of(account: str, bodies: list[str]) -> str:
    counted = "the key of a sealed body" if len(bodies) == 1 else f"the keys of {len(bodies)} sealed bodies"
    return f"{counted} of account {account!r}"


def _rights(path: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE_MODE:
        yield Finding(Severity.PROBLEM, str(path), f"may be read by others (mode {mode:o})", f"chmod 600 {path}")
    else:
        yield Finding(Severity.OK, str(path), "is for its owner only; keep a copy of it elsewhere")
