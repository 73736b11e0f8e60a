"""What the directory of a node is to hold, as the rows of the log tell it, and the file work that makes it so."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from knowhub.context.model import NODES, PARTS, ContextHead
from knowhub.context.transcript import transcript
from knowhub.context.uri import parent_of
from knowhub.stores.files.directories.context_paths import physical, place_of
from knowhub.stores.files.directories.node_encoding import NOTHING, Standing, encoded_row
from knowhub.stores.files.directories.node_files import IN_ORDER, NodeContent, NodeFiles, prune
from knowhub.stores.files.directories.node_way import Look, clear_way, look_of, stranger_on
from knowhub.stores.files.filesystem import FilePath, FileSystem
from knowhub.stores.files.rows.state import AccountState

Note = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A node as it is to stand in its directory; without a `row` it is not to stand there at all.

    `parts` are the rows of its messages: all of them, or, where `behind` is the note of what is there, those that come
    behind that.
    """

    uri: str
    row: bytes | None
    standing: Standing = NOTHING
    parts: Sequence[bytes] = ()
    behind: Note | None = None

    @property
    def is_session(self) -> bool:
        """Whether its content is its transcript."""
        return bool(self.standing.versions)


def touched_by(changes: Sequence[tuple[str, str]]) -> list[str]:
    """Return the URIs of the nodes whose directories the rows of these collections and ids are part of."""
    nodes = [parent_of(row_id) if kind == PARTS else row_id for kind, row_id in changes if kind in (NODES, PARTS)]
    return list(dict.fromkeys(nodes))


def wanted_of(state: AccountState, uri: str, note: Note | None) -> Wanted:
    """Look a node up in the rows of its account; `note` is what its directory says, where that can be built upon."""
    head = state.context.head(uri)
    if head is None or not head.live:
        return Wanted(uri, None)
    row, rows = state.rows[NODES][uri], state.rows.get(PARTS, {})
    versions = state.context.versions_of_parts(uri)
    if not versions:
        return Wanted(uri, row, Standing(head.version))
    if note is not None:
        noted = Standing.noted(note)
        new = state.context.behind(uri, noted.last)
        # Each change of a message makes the sum grow: so much growth is that of the new ones, and nothing else changed.
        if note.get("uri") == uri and versions == noted.versions + len(new) and all(part.version == 1 for part in new):
            last = _place(new[-1]) if new else noted.last
            standing = Standing(head.version + versions, versions, last)
            return Wanted(uri, row, standing, [rows[part.uri] for part in new], note)
    parts = list(state.context.children(uri))
    standing = Standing(head.version + versions, versions, _place(parts[-1]) if parts else NOTHING.last)
    return Wanted(uri, row, standing, [rows[part.uri] for part in parts])


class Projector:
    """Makes directories hold what is wanted. Whoever uses it holds the lock on the folder of all memories."""

    def __init__(self, files: FileSystem, root: Path) -> None:
        self._files = files
        self._root = root
        self._below = f"{root}/"
        self._nodes = NodeFiles(files)
        # How each directory looked when it was last known to be whole, so that it need not be read again.
        self._looks: dict[str, int] = {}

    def changed(self, uris: Sequence[str]) -> list[str]:
        """Return those whose directories do not look as they did when they were last known to be whole. OSError."""
        places = {uri: self._below + place_of(uri) for uri in uris}
        above = {place.rpartition("/")[0] for place in places.values()}
        astray = {folder for folder in above if stranger_on(self._files, self._root, Path(folder)) is not None}
        return [
            uri for uri, place in places.items() if place.rpartition("/")[0] in astray or not self._is_known(uri, place)
        ]

    def notes(self, uris: Sequence[str]) -> dict[str, Note]:
        """Return what the directories of sessions say, of those that can be built upon. Raises OSError."""
        found = {}
        for uri in uris:
            folder = self._root / physical(uri)
            if stranger_on(self._files, self._root, folder) is not None:
                continue
            note = self._nodes.note(folder)
            thorough = not self._is_known(uri, folder)
            if note is not None and note.get("messages") and self._nodes.is_extensible(folder, note, thorough=thorough):
                found[uri] = note
        return found

    def write(self, nodes: Sequence[Wanted], *, thorough: bool = False, new: Collection[str] = ()) -> None:
        """Bring directories up to what is wanted; `thorough` looks at every byte of those that are. Raises OSError.

        Those of `new` nodes are taken not to be there: their making tells if they are.
        """
        cleared = set[str]()
        for node in nodes:
            place = self._below + place_of(node.uri)
            above = place.rpartition("/")[0]
            # Most nodes stand in few folders.
            if above not in cleared:
                clear_way(self._files, self._root, Path(above))
                cleared.add(above)
            if node.row is None or node.uri not in new or not self._is_made(place, node):
                self._bring(Path(place), node, thorough=thorough)

    def _is_made(self, place: str, node: Wanted) -> bool:
        try:
            look = self._nodes.made(place, _content_of(node))
        except NotADirectoryError:
            # What bears its name is a file, or a link.
            return False
        self._looks[node.uri] = hash(look)
        return look is not None

    def _bring(self, folder: Path, node: Wanted, *, thorough: bool) -> None:
        clear_way(self._files, folder.parent, folder)
        if node.row is None:
            self._looks.pop(node.uri, None)
            self._nodes.remove(folder)
            prune(self._files, self._root, folder.parent)
            return
        if thorough:
            self._write_where_wrong(folder, node)
        else:
            self._write_where_older(folder, node)
        self._looks[node.uri] = hash(self._look(folder))

    def _write_where_older(self, folder: Path, node: Wanted) -> None:
        note = self._nodes.note(folder)
        thorough = not self._is_known(node.uri, folder)
        is_ours = note is not None and note.get("uri") == node.uri
        is_whole = note is not None and is_ours and self._nodes.is_whole(folder, note, thorough=thorough)
        if note is not None and is_whole and Standing.noted(note) == node.standing:
            self._nodes.tidy(folder)
        elif node.behind is not None:
            self._nodes.extend(folder, node.behind, _content_of(node, b""), _transcript(node.parts))
        else:
            self._nodes.put(folder, _content_of(node), anew=not is_whole)

    def _is_known(self, uri: str, folder: FilePath) -> bool:
        look = self._look(folder)
        return look is not None and self._looks.get(uri) == hash(look)

    def _look(self, folder: FilePath) -> Look | None:
        return look_of(self._files, folder, IN_ORDER)

    def _write_where_wrong(self, folder: Path, node: Wanted) -> None:
        content = _content_of(node)
        note = self._nodes.note(folder)
        is_whole = note is not None and self._nodes.is_whole(folder, note, thorough=True)
        if is_whole and note == _as_noted(content):
            self._nodes.tidy(folder)
        else:
            self._nodes.put(folder, content, anew=not is_whole)


def _content_of(node: Wanted, content: bytes | None = None) -> NodeContent:
    row = orjson.loads(node.row or b"{}")
    if content is None and node.is_session:
        content = _transcript(node.parts)
    return encoded_row(row, node.standing, content)


def _as_noted(content: NodeContent) -> Note:
    noted: Note = orjson.loads(orjson.dumps({**content.meta, "files": content.sums()}))
    return noted


def _transcript(parts: Sequence[bytes]) -> bytes:
    return transcript(map(orjson.loads, parts)).encode()


def _place(part: ContextHead) -> tuple[int, str]:
    return part.number, part.uri
