"""Looking at the directories of memories: each is held against the rows of its node, as the whole log tells them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from knowhub.context.model import NODES, PARTS
from knowhub.context.transcript import transcript
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live
from knowhub.stores.files.directories.context_paths import physical
from knowhub.stores.files.directories.context_walk import node_folders, strangers
from knowhub.stores.files.directories.node_encoding import NOTHING, Standing, encoded_row
from knowhub.stores.files.directories.node_files import CONTENT, NodeFiles, Sum, noted_sums
from knowhub.stores.files.filesystem import FileSystem

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Node:
    version: int
    meta: int
    sums: Mapping[str, Sum]


@dataclass(frozen=True, slots=True)
class _Part:
    version: int
    size: int


@dataclass(slots=True)
class ContextRead:
    """What the log told of nodes and of messages: sums of what their files are to hold, by account and URI."""

    nodes: dict[_Key, _Node] = field(default_factory=dict)
    parts: dict[_Key, dict[str, _Part]] = field(default_factory=dict)
    touched: dict[_Key, int] = field(default_factory=dict)

    def take(self, account: str, collection: str, row: Row, seq: int) -> None:
        """Take in a row's newest content."""
        if collection == PARTS:
            session, size = (account, str(row["session_uri"])), _size(row)
            self.parts.setdefault(session, {})[str(row["id"])] = _Part(int(row["version"]), size)
            self.touched[session] = seq
        elif collection == NODES:
            key = (account, str(row["id"]))
            self.touched[key] = seq
            # A stub of an erased node stands in old lines too, as it was then: not deleted yet, and no node any more.
            if is_live(row) and not is_erased(row):
                content = encoded_row(row, NOTHING)
                self.nodes[key] = _Node(int(row["version"]), _meta_sum(content.meta), content.sums())
            else:
                self.nodes.pop(key, None)

    def standing(self, key: _Key) -> tuple[int, int | None]:
        """Return the revision of a node, and the size of its transcript; None where it has none."""
        parts = self.parts.get(key, {}).values()
        versions = sum(part.version for part in parts)
        return self.nodes[key].version + versions, sum(part.size for part in parts) if versions else None


@dataclass(frozen=True, slots=True)
class ContextFound:
    """What was found in the folder of all memories, by path; `right` counts the directories that are as they are to be.

    `waiting` counts those that were touched since the note on them.
    """

    right: int
    waiting: int
    wrong: Sequence[Path]
    missing: Sequence[Path]
    dead: Sequence[Path]
    strangers: Sequence[Path]


def compare(files: FileSystem, root: Path, read: ContextRead, noted_seq: int) -> ContextFound:
    """Hold every directory against the log, every byte of it; `noted_seq` is how far they say they are. OSError."""
    nodes = NodeFiles(files)
    keys = {root / physical(uri): (account, uri) for account, uri in read.nodes}
    standing = set(node_folders(files, root))
    right = waiting = 0
    wrong: list[Path] = []
    missing: list[Path] = []
    for folder, key in keys.items():
        if folder in standing and _is_right(nodes, folder, read, key):
            right += 1
        elif read.touched[key] > noted_seq:
            waiting += 1
        else:
            (wrong if folder in standing else missing).append(folder)
    dead = sorted(standing - keys.keys())
    return ContextFound(right, waiting, sorted(wrong), sorted(missing), dead, sorted(strangers(files, root)))


def _is_right(nodes: NodeFiles, folder: Path, read: ContextRead, key: _Key) -> bool:
    note = nodes.note(folder)
    if note is None or note.get("uri") != key[1] or not nodes.is_whole(folder, note, thorough=True):
        return False
    node, sums = read.nodes[key], noted_sums(note)
    revision, size = read.standing(key)
    noted = Standing.noted(note).revision
    if noted > revision:
        # A running server has written on since the log was read.
        return True
    told = {name: value for name, value in note.items() if name not in {"files", "messages"}}
    if noted != revision or _meta_sum({**told, "revision": NOTHING.revision}) != node.meta:
        return False
    if size is None:
        return sums == node.sums
    return sums[CONTENT][0] == size and all(sums[name] == node.sums[name] for name in sums if name != CONTENT)


def _size(part: Row) -> int:
    return len(transcript([part]).encode()) if is_live(part) and not is_erased(part) else 0


def _meta_sum(meta: Mapping[str, Any]) -> int:
    return hash(orjson.dumps(meta, option=orjson.OPT_SORT_KEYS))


def names_below(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Yield paths as a person reads them, from the data directory on."""
    return (str(path.relative_to(root.parent)) for path in paths)
