"""The directories of memories, read from disk."""

from pathlib import Path

import orjson

from knowhub.context.directories import CONTENT, CONTEXT_DIRECTORIES, META, directory_path
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.projections.directory_export import DirectoryExport
from knowhub.stores.files.store import FileStore


def make_export(store: FileStore, folder: Path, files: FileSystem | None = None) -> DirectoryExport:
    """Return the export that writes the directories of a store."""
    return DirectoryExport(files or FileSystem(), DataDirectory(folder).context, store, CONTEXT_DIRECTORIES)


def directory_of(folder: Path, address: str) -> Path:
    """Return the path of the directory of a node, which need not exist."""
    return folder / "context" / directory_path(address)


def read_text(folder: Path, address: str, name: str = CONTENT) -> str:
    """Return one file of a node."""
    return (directory_of(folder, address) / name).read_text(encoding="utf-8")


def has_directory(folder: Path, address: str) -> bool:
    """Return whether a node has a directory; fail if it lacks a file that its metadata lists."""
    place = directory_of(folder, address)
    if not place.exists():
        return False
    metadata = orjson.loads((place / META).read_bytes())
    assert metadata["uri"] == address
    assert {path.name for path in place.iterdir()} == {META, *metadata["files"]}
    return True


def read_context_files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below `context/` by path, without the checkpoint."""
    root = folder / "context"
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "checkpoint.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}
