"""ContextFS: the directories of nodes by their URIs, for people, tools and repairs (seed 002 §10.2, CE-117…128).

The API answers from the log. What is written here with nothing in the log behind it is written over by the next commit
that touches the node, or by the keeper.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from knowhub.context import uri as uris
from knowhub.context.model import ContextNode, Level, MemoryContext, NodeStat, NodeSummary
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from knowhub.stores.files.directories.context_lock import held
from knowhub.stores.files.directories.context_paths import is_folder_path, is_node_path, physical
from knowhub.stores.files.directories.node_encoding import Standing, decoded, encoded
from knowhub.stores.files.directories.node_files import (
    ABSTRACT,
    CONTENT,
    META,
    NODE_FILES,
    OVERVIEW,
    NodeContent,
    NodeFiles,
    noted_sums,
    prune,
)
from knowhub.stores.files.directories.node_way import clear_way, plain_size, stranger_on
from knowhub.stores.files.filesystem import FileSystem

_LEVELS: Final = {Level.L0: ABSTRACT, Level.L1: OVERVIEW, Level.L2: CONTENT}
_TEXTS: Final = frozenset(NODE_FILES - {META})


class ContextFS:
    """Each call works on one data directory's folder of memories, and raises OSError where the disk refuses it.

    `ctx` says whose account it is: a URI of another is refused with Forbidden, one that is malformed with InvalidInput,
    one at which no node stands with NotFound. Files are all of one moment, also while others write.
    """

    def __init__(self, files: FileSystem, root: Path) -> None:
        self._files = files
        self._root = root
        self._nodes = NodeFiles(files)

    def resolve_path(self, ctx: MemoryContext, uri: str) -> str:
        """Return where the directory of a URI lies, or would (CE-117)."""
        return str(self._path(ctx, uri))

    def exists(self, ctx: MemoryContext, uri: str) -> bool:
        """Tell whether a node stands at a URI (CE-118)."""
        path = self._path(ctx, uri)
        return self._is_straight(path) and self._files.look(path / META) is not None

    def stat_node(self, ctx: MemoryContext, uri: str) -> NodeStat:
        """Return what is known of a node without its texts; of one that is not there, that it is not (CE-119)."""
        path = self._path(ctx, uri)
        note = self._nodes.note(path) if self._is_straight(path) else None
        length = None if note is None else plain_size(self._files, path / META)
        if note is None or length is None:
            return NodeStat(uri, exists=False, version=0, size=0, updated_at=None)
        size = length + sum(size for size, _ in noted_sums(note).values())
        return NodeStat(uri, exists=True, version=note["version"], size=size, updated_at=note["updated_at"])

    def write_node(self, ctx: MemoryContext, node: ContextNode) -> None:
        """Write a node with all its files; a new one appears at once (CE-120)."""
        path = self._node_path(ctx, node.uri)
        with self._alone():
            clear_way(self._files, self._root, path)
            self._nodes.put(path, encoded(node, Standing(node.version)))

    def read_node(self, ctx: MemoryContext, uri: str, *, include_content: bool = True) -> ContextNode:
        """Return a node, without its content where that is not wanted (CE-121)."""
        names = _TEXTS if include_content else _TEXTS - {CONTENT}
        return decoded(*self._read(ctx, uri, names))

    def write_level(self, ctx: MemoryContext, uri: str, level: Level, text: str) -> None:
        """Write one layer of a node (CE-122)."""
        self.change_file(ctx, uri, _LEVELS[level], lambda _text: text.encode())

    def read_level(self, ctx: MemoryContext, uri: str, level: Level) -> str:
        """Return one layer of a node; no other is opened (CE-123)."""
        name = _LEVELS[level]
        _, texts = self._read(ctx, uri, frozenset({name}))
        return texts[name].decode()

    def write_metadata(self, ctx: MemoryContext, uri: str, metadata: Mapping[str, Any]) -> None:
        """Write the metadata of a node (CE-124)."""
        with self._alone():
            meta, texts = self._read(ctx, uri, _TEXTS)
            content = NodeContent(texts, {**_without_sums(meta), "metadata": metadata})
            self._nodes.put(self._path(ctx, uri), content)

    def read_metadata(self, ctx: MemoryContext, uri: str) -> dict[str, Any]:
        """Return the metadata of a node (CE-125)."""
        meta, _ = self._read(ctx, uri, frozenset())
        return dict(meta["metadata"])

    def read_file(self, ctx: MemoryContext, uri: str, name: str) -> bytes:
        """Return one of a node's files as its `.meta.json` tells of it."""
        return self._read(ctx, uri, frozenset({name}))[1][name]

    def change_file(self, ctx: MemoryContext, uri: str, name: str, change: Callable[[bytes], bytes]) -> None:
        """Write one of a node's files as `change` makes it of what it holds, with nobody writing between."""
        with self._alone():
            meta, texts = self._read(ctx, uri, _TEXTS)
            changed = change(texts[name])
            if changed != texts[name]:
                self._nodes.put(self._path(ctx, uri), NodeContent({**texts, name: changed}, _without_sums(meta)))

    def move_node(self, ctx: MemoryContext, from_uri: str, to_uri: str) -> None:
        """Move a node: it stands at its new place before it vanishes from the old one (CE-126).

        Raises Conflict where a node stands there.
        """
        source, target = self._node_path(ctx, from_uri), self._node_path(ctx, to_uri)
        with self._alone():
            if self._is_straight(target) and self._files.look(target) is not None:
                raise Conflict(f"a memory stands at {to_uri!r} already")
            node = self.read_node(ctx, from_uri)
            place = uris.parse(to_uri)
            category = place.category or node.category
            moved = replace(node, uri=to_uri, parent_uri=place.parent, owner_space=place.space, category=str(category))
            clear_way(self._files, self._root, target)
            self._nodes.put(target, encoded(moved, Standing(node.version)))
            self._remove(source)

    def delete_node(self, ctx: MemoryContext, uri: str, *, recursive: bool = False) -> None:
        """Delete a node, or, `recursive`, all nodes below a URI (CE-127). Raises Conflict for a folder otherwise."""
        path = self._path(ctx, uri)
        with self._alone():
            there = [path for path, _ in self._nodes_in(path)]
            if not there:
                raise NotFound.of("memory", uri)
            if there != [path] and not recursive:
                raise Conflict(f"{uri!r} has memories below it; delete them too with recursive")
            for folder in there:
                self._remove(folder)

    def list_children(
        self, ctx: MemoryContext, uri: str, *, recursive: bool = False, depth: int = 1
    ) -> list[NodeSummary]:
        """List what stands below a URI, `depth` levels down, or all of it, by the URIs (CE-128)."""
        path = self._path(ctx, uri)
        if is_node_path(path.relative_to(self._root)):
            return []
        found: dict[str, NodeSummary] = {}
        for _, note in self._nodes_in(path):
            below = str(note["uri"])
            if not below.startswith(f"{uri}/"):
                continue
            steps = below[len(uri) + 1 :].split("/")
            shown = steps if recursive else steps[:depth]
            for size in range(1, len(shown) + 1):
                address = "/".join((uri, *steps[:size]))
                if address == below:
                    found[address] = _summary(note)
                else:
                    found.setdefault(address, _folder(address))
        return [found[address] for address in sorted(found)]

    def _read(self, ctx: MemoryContext, uri: str, names: frozenset[str]) -> tuple[Mapping[str, Any], dict[str, bytes]]:
        path = self._path(ctx, uri)
        is_node = is_node_path(path.relative_to(self._root)) and self._is_straight(path)
        read = self._nodes.read(path, names) if is_node else None
        if read is None or read[0]["uri"] != uri:
            raise NotFound.of("memory", uri)
        return read

    def _nodes_in(self, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Yield path and note of the node at a path, or of every node below it."""
        if not self._is_straight(path):
            return
        if is_node_path(path.relative_to(self._root)):
            note = self._nodes.note(path)
            if note is not None:
                yield path, note
        elif is_folder_path(path.relative_to(self._root)):
            for name in self._files.names(path):
                yield from self._nodes_in(path / name)

    def _path(self, ctx: MemoryContext, uri: str) -> Path:
        parsed = uris.parse(uri)
        if parsed.account != ctx.account:
            raise Forbidden("this is the memory of another account")
        return self._root / physical(uri)

    def _node_path(self, ctx: MemoryContext, uri: str) -> Path:
        path = self._path(ctx, uri)
        if not uris.parse(uri).is_node:
            raise InvalidInput.of("uri", f"no memory can stand at {uri[:200]!r}")
        return path

    def _remove(self, path: Path) -> None:
        self._nodes.remove(path)
        prune(self._files, self._root, path.parent)

    def _is_straight(self, path: Path) -> bool:
        """Tell whether no link stands on the way to a path, nor at it."""
        return stranger_on(self._files, self._root, path) is None

    def _alone(self) -> AbstractContextManager[None]:
        return held(self._files, self._root)


def _without_sums(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if name != "files"}


def _summary(note: Mapping[str, Any]) -> NodeSummary:
    address = str(note["uri"])
    return NodeSummary(
        uri=address,
        name=address.rpartition("/")[2],
        is_dir=True,
        has_children=False,
        category=str(note["category"]),
        updated_at=str(note["updated_at"]),
    )


def _folder(address: str) -> NodeSummary:
    category = uris.parse(address).category
    name = address.rpartition("/")[2]
    return NodeSummary(address, name, is_dir=True, has_children=True, category=category or "", updated_at=None)
