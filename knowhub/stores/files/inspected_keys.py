"""Looking at what seals: the keyring, and the rights of the files beside it."""

import stat
from collections.abc import Iterator
from pathlib import Path

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem
from knowhub.stores.files.findings import Finding, Severity
from knowhub.stores.files.keyring import read_keyring


def key_findings(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    """Tell whether the keyring reads, and whether others may read the master key. Raises OSError."""
    names = files.names(directory.keys)
    if not names:
        return
    try:
        keys = read_keyring(files, directory.keyring)
    except ValueError as problem:
        advice = "nothing sealed opens: put it back from a backup, or from keys/ of the newest snapshot"
        yield Finding(Severity.PROBLEM, str(directory.keyring), f"is damaged: it {problem}", advice)
    else:
        gone = sum(one.destroyed_at is not None for one in keys.values())
        yield Finding(Severity.OK, "keys", f"{len(keys) - gone} keys of sealed bodies, {gone} destroyed")
    for name in names:
        if name.startswith(directory.master_key.name):
            yield from _rights(directory.keys / name)


def _rights(path: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE_MODE:
        yield Finding(Severity.PROBLEM, str(path), f"may be read by others (mode {mode:o})", f"chmod 600 {path}")
    else:
        yield Finding(Severity.OK, str(path), "is for its owner only; keep a copy of it elsewhere")
