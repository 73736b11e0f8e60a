"""Laying a snapshot out as a data directory of its own, here or on another machine."""

from pathlib import Path

from knowhub.core.errors import Conflict
from knowhub.stores.files.data_directory import KEYRING, DataDirectory
from knowhub.stores.files.filesystem import PRIVATE_MODE, FileSystem, replace_file
from knowhub.stores.files.keys.keyring import joined_keys, keyring_text, read_keyring
from knowhub.stores.files.snapshots.restore_work import check_rows, remove_tree
from knowhub.stores.files.snapshots.snapshot_manifest import Manifest
from knowhub.stores.files.snapshots.snapshot_reading import unpack_snapshot

_SCRATCH = ".unpack"


def unpack_directory(files: FileSystem, archive: Path, root: Path, max_bytes: int) -> Manifest:
    """Make an empty folder, or one that is not there, a data directory out of a snapshot, with all its history.

    The log is read whole before it gets its place. What a call that died has left is begun anew. Raises Conflict for a
    folder that is not empty, DamagedSnapshot naming the member, StorageFull and OSError; then the folder is empty.
    A `keys/` may be there before: whoever moves a hub brings its master key along.
    """
    scratch, directory = root / _SCRATCH, DataDirectory(root)
    others = [name for name in files.names(root) if name not in {_SCRATCH, directory.keys.name}]
    if others or root.is_file():
        raise Conflict(f"{root} is not empty; a snapshot is unpacked into an empty directory, or a new one")
    try:
        remove_tree(files, scratch)
        files.make_folder(scratch)
        manifest = unpack_snapshot(files, archive, scratch, max_bytes)
        check_rows(files, archive.name, scratch, manifest, None)
        files.sync_folder(scratch / "change_log")
        # The keys before the log, without which they mean nothing: what a call that died has put there stays right.
        _join_keyrings(files, scratch, directory)
        # The log first: with it the directory is whole, and FORMAT is written again where it is missing.
        files.rename(scratch / "change_log", directory.change_log)
        files.rename(scratch / "FORMAT", directory.format)
        files.sync_folder(root)
    finally:
        remove_tree(files, scratch)
    return manifest


def _join_keyrings(files: FileSystem, scratch: Path, directory: DataDirectory) -> None:
    unpacked = read_keyring(files, scratch / KEYRING)
    if unpacked:
        files.make_folder(directory.keys)
        joined = joined_keys(read_keyring(files, directory.keyring), unpacked)
        replace_file(files, directory.keyring, keyring_text(joined), PRIVATE_MODE)
        files.sync_folder(directory.root)
