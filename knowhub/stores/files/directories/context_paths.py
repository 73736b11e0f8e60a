"""Where the directory of a URI lies: never under the URI's own words, so that none of them leads anywhere else.

A word that the layout fixes stands as it is. Any other segment becomes what can be read of it and a hash of all of it,
`login-page.9f86d081884c7d65`: two segments differ on a file system that knows no case, or normalises names, as well.
"""

from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from knowhub.context.model import Category
from knowhub.context.uri import SCHEME

_KINDS: Final = frozenset({"users", "agents"})
_MEMORIES: Final = "memories"
_IN_MEMORIES: Final = frozenset(Category) - {Category.SESSIONS, Category.SKILLS, Category.TOOLS}
_BESIDE: Final = frozenset({_MEMORIES, Category.SESSIONS.value, Category.SKILLS.value, Category.TOOLS.value})
_READABLE_CHARS: Final = 40
_NOTHING_READABLE: Final = "_"
_FOLDERS_CACHED: Final = 65_536
_KIND, _BELOW_SPACE, _IN_CATEGORY = 1, 3, 4


def physical(uri: str) -> Path:
    """Return the path of a URI's directory below the folder of all memories; whatever the URI, it stays below."""
    return Path(place_of(uri))


def place_of(uri: str) -> str:
    """Return the same as a text."""
    above, slash, segment = uri.removeprefix(SCHEME).rpartition("/")
    if not slash:
        return _hashed(segment)
    # Most nodes stand in few folders.
    folder, depth = _folder(above)
    return folder + _name(depth, segment, above)


def is_node_path(path: Path) -> bool:
    """Tell whether a path below the folder of all memories is one at which a node's directory can lie."""
    names = path.parts
    if len(names) <= _IN_CATEGORY or names[_KIND] not in _KINDS or names[_BELOW_SPACE] not in _BESIDE:
        return False
    if names[_BELOW_SPACE] != _MEMORIES:
        return len(names) == _IN_CATEGORY + 1 and _is_variable(names[_IN_CATEGORY])
    if names[_IN_CATEGORY] == Category.PROFILE:
        return len(names) == _IN_CATEGORY + 1
    return len(names) == _IN_CATEGORY + 2 and names[_IN_CATEGORY] in _IN_MEMORIES and _is_variable(names[-1])


def is_folder_path(path: Path) -> bool:
    """Tell whether a path is one at which a folder above nodes can lie."""
    fixed = (None, _KINDS, None, _BESIDE, _IN_MEMORIES - {Category.PROFILE})
    if len(path.parts) > len(fixed) or (len(path.parts) == len(fixed) and path.parts[_BELOW_SPACE] != _MEMORIES):
        return False
    known = zip(path.parts, fixed, strict=False)
    return all(_is_variable(name) if words is None else name in words for name, words in known)


@lru_cache(maxsize=_FOLDERS_CACHED)
def _folder(above: str) -> tuple[str, int]:
    """Return the path of what stands above, with its slash, and how many names that has."""
    segments = above.split("/")
    names = (_name(index, segment, above) for index, segment in enumerate(segments))
    return "".join(f"{name}/" for name in names), len(segments)


def is_lowest(path: Path) -> bool:
    """Tell whether a path is that of a folder below which there are nodes alone."""
    names = path.parts
    if len(names) == _IN_CATEGORY:
        return names[_BELOW_SPACE] != _MEMORIES
    return len(names) > _IN_CATEGORY


def _name(index: int, segment: str, above: str) -> str:
    if index == _KIND and segment in _KINDS:
        return segment
    if index == _BELOW_SPACE and segment in _BESIDE:
        return segment
    if index == _IN_CATEGORY and segment in _IN_MEMORIES and above.split("/")[_BELOW_SPACE] == _MEMORIES:
        return segment
    return _hashed(segment)


def _hashed(segment: str) -> str:
    words = unquote(segment, errors="replace")[:_READABLE_CHARS]
    readable = "".join(char if char.isalnum() else "-" for char in words).strip("-")
    digest = blake2b(segment.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{readable or _NOTHING_READABLE}.{digest}"


def _is_variable(name: str) -> bool:
    return not name.startswith(".") and "." in name and not name.endswith(".tmp")
