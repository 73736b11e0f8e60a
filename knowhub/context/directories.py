"""How memories look as directories: five files for each node, at a path that follows from its URI.

The path never has the URI's own words in it, so that no URI leads out of the folder. A word that the layout fixes is
used as it is. Any other segment becomes the part of it that can be read and a hash of all of it, such as
`login-page.9f86d081884c7d65`: two segments also differ on a file system that ignores case or normalises names.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

from knowhub.context.model import COUNTED, NODES, PARTS, MemoryCategory
from knowhub.context.queries import find_memory, list_memories, list_parts
from knowhub.context.texts import format_transcript
from knowhub.context.uri import SCHEME, parent_of
from knowhub.core.operation import Row, View
from knowhub.core.projection import DirectoryFormat

ABSTRACT, OVERVIEW, CONTENT = ".abstract.md", ".overview.md", "content.md"
RELATIONS, META = ".relations.json", ".meta.json"

_MEMORIES: Final = "memories"
_IN_MEMORIES: Final = frozenset(MemoryCategory) - {MemoryCategory.SESSIONS, *COUNTED}
_BELOW_SPACE: Final = 3
# The words that the layout fixes, by their place in a URI.
_FIXED: Final[Mapping[int, frozenset[str]]] = {
    1: frozenset({"users", "agents"}),
    _BELOW_SPACE: frozenset({_MEMORIES, *(set(MemoryCategory) - _IN_MEMORIES)}),
}
_READABLE_CHARS: Final = 40
_NOTHING_READABLE: Final = "_"
_META_FIELDS: Final = (
    "parent_uri",
    "context_type",
    "category",
    "owner_space",
    "version",
    "created_at",
    "updated_at",
    "metadata",
)


def directory_path(uri: str) -> str:
    """Return the path of a node's directory below the folder of all memories; whatever the URI, it stays below."""
    segments = uri.removeprefix(SCHEME).split("/")
    return "/".join(_name_segment(segments, index) for index in range(len(segments)))


def render_files(rows: Sequence[Row]) -> Mapping[str, bytes]:
    """Return the files of a node: of its row, and behind it the rows of its messages where it is a session."""
    node, parts = rows[0], rows[1:]
    content = format_transcript(parts) if node["category"] == MemoryCategory.SESSIONS else node["content"]
    texts = {
        ABSTRACT: node["abstract"].encode(),
        OVERVIEW: node["overview"].encode(),
        CONTENT: content.encode(),
        RELATIONS: _format_json(node["relations"]),
    }
    sums = {name: (len(text), f"{zlib.crc32(text):08x}") for name, text in texts.items()}
    meta = {"uri": node["id"], **{name: node[name] for name in _META_FIELDS}, "files": sums}
    # Last: a reader who finds sums that fit has files of one moment.
    return {**texts, META: _format_json(meta)}


def _get_directory_id(collection: str, row_id: str) -> str | None:
    if collection == PARTS:
        return parent_of(row_id)
    return row_id if collection == NODES else None


def _list_live_uris(view: View) -> Iterator[str]:
    return (summary.uri for summary in list_memories(view) if not summary.is_part)


def _list_sources(view: View, uri: str) -> list[tuple[str, str]] | None:
    summary = find_memory(view, uri)
    if summary is None or not summary.live:
        return None
    parts = list_parts(view, uri) if summary.category is MemoryCategory.SESSIONS else ()
    return [(NODES, uri), *((PARTS, part.uri) for part in parts)]


CONTEXT_DIRECTORIES: Final = DirectoryFormat(
    _get_directory_id, directory_path, _list_live_uris, _list_sources, render_files
)


def _name_segment(segments: Sequence[str], index: int) -> str:
    segment = segments[index]
    is_category = segment in _IN_MEMORIES and segments[_BELOW_SPACE : index + 1] == [_MEMORIES, segment]
    if segment in _FIXED.get(index, ()) or is_category:
        return segment
    words = unquote(segment, errors="replace")[:_READABLE_CHARS]
    readable = "".join(char if char.isalnum() else "-" for char in words).strip("-")
    digest = blake2b(segment.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{readable or _NOTHING_READABLE}.{digest}"


def _format_json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
