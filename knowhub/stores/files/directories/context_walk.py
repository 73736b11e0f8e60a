"""Walking through the folder of all memories: the directories of nodes, and what does not belong there."""

from collections.abc import Iterator
from pathlib import Path

from knowhub.stores.files.directories.context_paths import is_folder_path, is_lowest, is_node_path
from knowhub.stores.files.directories.node_files import TEMPORARY
from knowhub.stores.files.directories.node_way import is_folder, stranger_on
from knowhub.stores.files.filesystem import FileSystem

CHECKPOINT = "checkpoint.json"


def node_folders(files: FileSystem, root: Path) -> Iterator[Path]:
    """Yield the directories in which nodes stand, or would. Raises OSError."""
    return (path for path, is_node in _walk(files, root, root) if is_node)


def strangers(files: FileSystem, root: Path) -> Iterator[Path]:
    """Yield what is neither a node's directory nor a folder above one: half-written ones too. Raises OSError."""
    return (path for path, is_node in _walk(files, root, root) if not is_node)


def is_stranger(files: FileSystem, root: Path, path: Path) -> bool:
    """Tell whether something stands at a path, through no link, and is one of those. Raises OSError."""
    if stranger_on(files, root, path.parent) is not None or files.look(path) is None:
        return False
    below = path.relative_to(root)
    return not is_folder(files, path) or not (is_node_path(below) or is_folder_path(below))


def empty_folders(files: FileSystem, root: Path) -> Iterator[Path]:
    """Yield the folders in which nothing stands, the deepest first, and then those that hold nothing else."""
    for name in files.names(root):
        yield from _empty(files, root, root / name)


def half_written(files: FileSystem, root: Path) -> Iterator[Path]:
    """Yield the directories that were being written or removed, by a process that died. Raises OSError."""
    yield from _half_written(files, root, root)


def _half_written(files: FileSystem, root: Path, folder: Path) -> Iterator[Path]:
    names = files.names(folder)
    yield from (folder / name for name in names if name.startswith(".") and name.endswith(TEMPORARY))
    # Of nodes there may be very many in a folder: none of them is looked into.
    if not is_lowest(folder.relative_to(root)):
        for name in names:
            if is_folder_path((folder / name).relative_to(root)) and is_folder(files, folder / name):
                yield from _half_written(files, root, folder / name)


def _walk(files: FileSystem, root: Path, folder: Path) -> Iterator[tuple[Path, bool]]:
    for name in files.names(folder):
        path = folder / name
        below = path.relative_to(root)
        if path == root / CHECKPOINT:
            continue
        if not is_folder(files, path):
            yield path, False
        elif is_node_path(below):
            yield path, True
        elif is_folder_path(below):
            yield from _walk(files, root, path)
        else:
            yield path, False


def _empty(files: FileSystem, root: Path, folder: Path) -> Iterator[Path]:
    if not is_folder(files, folder) or not is_folder_path(folder.relative_to(root)):
        return
    # Of nodes there may be very many in a folder: none of them is looked at.
    for name in [] if is_lowest(folder.relative_to(root)) else files.names(folder):
        yield from _empty(files, root, folder / name)
    if not files.names(folder):
        yield folder
