"""Check the keyring against the log, and the file mode of the master key."""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.collection import Collections
from knowhub.core.data_keys import WrappedKey
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem
from knowhub.stores.files.keys.keyring import read_keyring

_PUT_BACK = "put keys/keyring.json back from a backup, or from keys/ of the newest snapshot"
_GONE = "nothing opens them any more: save them anew, or delete them"


@dataclass(slots=True)
class SealedRows:
    """The data keys that a log names: the key of each live sealed row, by account and id, and those of all versions."""

    collections: Collections
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    all_keys: set[str] = field(default_factory=set)

    def add(self, account: str, collection: str, row: Mapping[str, Any]) -> None:
        """Take the newest version of a row so far."""
        declared = self.collections.get(collection)
        if declared is None or declared.sealed_field is None:
            return
        row_key, sealed = (account, row["id"]), row.get(declared.sealed_field)
        self.keys.pop(row_key, None)
        if sealed is not None:
            self.all_keys.add(sealed["key_id"])
            if not row.get("deleted", False):
                self.keys[row_key] = sealed["key_id"]


def check_keys(files: FileSystem, directory: DataDirectory, sealed: SealedRows, *, is_whole: bool) -> Iterator[Finding]:
    """Check that the keyring can be read and has every key that the log needs, and that the master key is private.

    The log must be read first: a key is in the keyring before its row is in the log. `is_whole` says whether all of
    the log could be read. Raises OSError.
    """
    names = files.names(directory.keys)
    if not names and not sealed.keys:
        return
    ring = str(directory.keyring)
    try:
        keys = read_keyring(files, directory.keyring)
    except ValueError as problem:
        advice = f"nothing sealed opens: {_PUT_BACK}"
        yield Finding(Severity.PROBLEM, ring, f"is damaged: it {problem}", advice)
    else:
        of_bodies = {key_id: key for key_id, key in keys.items() if key.is_of_a_body}
        live = {key_id for key_id, key in of_bodies.items() if key.destroyed_at is None}
        detail = f"{len(live)} keys of sealed bodies, {len(of_bodies) - len(live)} destroyed"
        # Keys of versions that a compaction forgot, or of a body that is being sealed now.
        if is_whole and (spare := len(live - sealed.all_keys)):
            detail += f"; {spare} of them are named by no line of the log, which harms nothing"
        yield Finding(Severity.OK, "keys", detail)
        for account in sorted({account for account, _ in sealed.keys}):
            bodies = {row_id: key_id for (owner, row_id), key_id in sealed.keys.items() if owner == account}
            yield from _check_bodies(keys, account, bodies, ring)
    for name in names:
        if name.startswith(directory.master_key.name):
            path = directory.keys / name
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & ~PRIVATE_MODE:
                detail = f"may be read by others (mode {mode:o})"
                yield Finding(Severity.PROBLEM, str(path), detail, f"chmod 600 {path}")
            else:
                yield Finding(Severity.OK, str(path), "is for its owner only; keep a copy of it elsewhere")


def _check_bodies(
    keys: Mapping[str, WrappedKey], account: str, bodies: Mapping[str, str], ring: str
) -> Iterator[Finding]:
    """Check that the keys of the sealed bodies of one account are in the keyring. `bodies` maps row ids to key ids."""
    missing = sorted(row_id for row_id, key_id in bodies.items() if key_id not in keys)
    if missing:
        detail = f"lacks {_count_bodies(account, missing)}: {format_names(missing)}"
        yield Finding(Severity.PROBLEM, ring, detail, _PUT_BACK)
    destroyed = sorted(row_id for row_id, key_id in bodies.items() if key_id in keys and keys[key_id].destroyed_at)
    if destroyed:
        # Only a note: a running server may have erased the row since the log was read.
        verb = "was" if len(destroyed) == 1 else "were"
        detail = f"{_count_bodies(account, destroyed)} {verb} destroyed: {format_names(destroyed)}"
        yield Finding(Severity.NOTE, ring, detail, _GONE)


def _count_bodies(account: str, bodies: list[str]) -> str:
    counted = "the key of a sealed body" if len(bodies) == 1 else f"the keys of {len(bodies)} sealed bodies"
    return f"{counted} of account {account!r}"
