"""`ctx://` URIs: where each kind of memory stands, and how any name becomes a segment (seed 002 §5, CE-049…061).

    ctx://{account}/users/{user}/memories/profile
    ctx://{account}/users/{user}/memories/preferences|entities|events/{name}
    ctx://{account}/users/{user}/sessions/{session}[/{message}]
    ctx://{account}/agents/{agent}/memories/cases|patterns/{name}
    ctx://{account}/agents/{agent}/skills|tools/{name}

A segment is text in which whatever is not a letter, a digit or one of `-_.~@:+` is percent-encoded as UTF-8; one of
dots alone is encoded too. So each name has one segment, and each segment one name: a URI that is not written like this
names nothing, and is refused instead of guessed at.
"""

import re
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

from knowhub.context.model import Category
from knowhub.core.errors import InvalidInput

SCHEME: Final = "ctx://"
MAX_URI_CHARS: Final = 2_000
MAX_SLUG_CHARS: Final = 60
_MAX_SEGMENT_CHARS: Final = 900
_PLAIN: Final = frozenset("-_.@:+")
OWN: Final = "~"
"""How the space begins that a user has where no agent is named, and an agent where no user is: no id is written so."""

_IN_MEMORIES: Final = {
    "users": (Category.PREFERENCES, Category.ENTITIES, Category.EVENTS),
    "agents": (Category.CASES, Category.PATTERNS),
}
_BESIDE: Final = {"users": (Category.SESSIONS,), "agents": (Category.SKILLS, Category.TOOLS)}
_MEMORIES: Final = "memories"
_SPACE_SEGMENTS: Final = 3
_NOT_NAMED: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ContextUri:
    """A URI that was understood. `category` is None for a folder above the nodes; `name` and `part` are decoded."""

    text: str
    account: str
    space: str
    category: Category | None
    name: str = ""
    part: str = ""

    @property
    def is_node(self) -> bool:
        """Whether a node can stand here."""
        return self.category is Category.PROFILE or bool(self.name and not self.part)

    @property
    def is_part(self) -> bool:
        """Whether a message of a session can stand here."""
        return bool(self.part)

    @property
    def parent(self) -> str:
        """The URI above; that of the account has none, and is its own."""
        return parent_of(self.text)


def parse(text: str, field: str = "uri") -> ContextUri:
    """Read a URI. Raises InvalidInput naming what is wrong with it (CE-060)."""
    if len(text) > MAX_URI_CHARS:
        raise InvalidInput.of(field, f"must have at most {MAX_URI_CHARS} characters")
    if not text.startswith(SCHEME):
        raise InvalidInput.of(field, f"{text[:80]!r} is no URI of a memory: it must begin with {SCHEME}")
    written = text[len(SCHEME) :].split("/")
    if "" in written:
        raise InvalidInput.of(
            field, f"{text[:200]!r} has an empty name in it: no slash ends a URI, and none stands twice"
        )
    names = [_decoded(segment, text, field) for segment in written]
    account, space = names[0], "/".join(written[1:3])
    problem = _problem(written)
    if problem is not None:
        raise InvalidInput.of(field, f"{text[:200]!r} names nothing: {problem}")
    category = _category(written)
    below = _SPACE_SEGMENTS + (2 if _MEMORIES in written[_SPACE_SEGMENTS:][:1] else 1)
    rest = [*names[below:], "", ""] if category is not Category.PROFILE else ["", ""]
    return ContextUri(text, account, space, category, rest[0], rest[1])


def account_uri(account: str) -> str:
    """Return the URI above all memories of an account."""
    return SCHEME + segment(account)


def space_uri(account: str, space: str) -> str:
    """Return the URI of a space, which is `users/{segment}` or `agents/{segment}`."""
    return f"{account_uri(account)}/{space}"


def node_uri(account: str, space: str, category: Category, name: str = "") -> str:
    """Return the URI of a node; a profile has no name."""
    root = space_uri(account, space)
    if category is Category.PROFILE:
        return f"{root}/memories/profile"
    kind = space.partition("/")[0]
    between = f"memories/{category.value}" if category in _IN_MEMORIES[kind] else category.value
    return f"{root}/{between}/{segment(name)}"


def part_uri(session_uri: str, name: str) -> str:
    """Return the URI of one message of a session."""
    return f"{session_uri}/{segment(name)}"


def parent_of(uri: str) -> str:
    """Return the URI above; that of the account stays."""
    above = uri.rpartition("/")[0]
    return above if len(above) > len(SCHEME) else uri


def ancestors(uri: str) -> list[str]:
    """Return every URI above, the account's first."""
    found = []
    above = parent_of(uri)
    while above != uri:
        found.append(above)
        uri, above = above, parent_of(above)
    return found[::-1]


def segment(name: str) -> str:
    """Write a name as a segment. Raises ValueError for an empty one and for one that is too long."""
    if not name:
        raise ValueError("a name must not be empty")
    if set(name) == {"."}:
        return "%2E" * len(name)
    written = "".join(char if _is_plain(char) else _encoded(char) for char in name)
    if len(written) > _MAX_SEGMENT_CHARS:
        raise ValueError(f"{name[:40]!r}… is too long for a URI")
    return written


def own_segment(name: str) -> str:
    """Return the segment of the space that a principal has on the other side, where nobody is named there."""
    return OWN + segment(name)


def slug(text: str) -> str:
    """Make a name of a text that people can read: lower case, letters and digits of any script, joined by hyphens.

    What is cut off, or leaves nothing, is told apart by a hash.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    name = _NOT_NAMED.sub("-", folded).strip("-")
    if name and len(name) <= MAX_SLUG_CHARS:
        return name
    tail = blake2b(folded.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{name[: MAX_SLUG_CHARS - 9].strip('-')}-{tail}".lstrip("-")


def stable_hash(*parts: object) -> str:
    """Hash values to hexadecimal digits that are the same in every process (CE-047, CE-081)."""
    text = "\x1f".join(map(str, parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _is_plain(char: str) -> bool:
    return char in _PLAIN or (char.isalnum() and unicodedata.normalize("NFKC", char) == char)


def _encoded(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _decoded(written: str, text: str, field: str) -> str:
    own = written.startswith(OWN)
    bare = written[len(OWN) :] if own else written
    try:
        name = unquote(bare, errors="strict")
        is_canonical = segment(name) == bare
    except (UnicodeDecodeError, ValueError):
        is_canonical = False
        name = ""
    if not is_canonical:
        raise InvalidInput.of(field, f"{text[:200]!r} is not written as KnowHub writes URIs, see {written[:80]!r}")
    return OWN + name if own else name


def _problem(written: list[str]) -> str | None:
    _, kind, *_ = [*written, ""]
    above, rest = written[:_SPACE_SEGMENTS], written[_SPACE_SEGMENTS:]
    if any(one.startswith(OWN) for one in [*above[:2], *rest]):
        return f"only the name of a space may begin with {OWN}"
    if kind and kind not in _IN_MEMORIES:
        return "below the account there are users and agents"
    if not rest:
        return None
    return _problem_in_memories(kind, rest[1:]) if rest[0] == _MEMORIES else _problem_beside(kind, rest)


def _problem_in_memories(kind: str, rest: list[str]) -> str | None:
    if kind == "users" and rest == [Category.PROFILE]:
        return None
    known = [category.value for category in _IN_MEMORIES[kind]]
    if rest and rest[0] not in known:
        return f"memories of {kind} are {', '.join(known)}" + (" and profile" if kind == "users" else "")
    return None if len(rest) <= len(("category", "name")) else "nothing stands below a memory"


def _problem_beside(kind: str, rest: list[str]) -> str | None:
    known = [category.value for category in _BESIDE[kind]]
    if rest[0] not in known:
        return f"a space of {kind} holds memories and {' and '.join(known)}"
    deepest = ("category", "name", "part") if rest[0] == Category.SESSIONS else ("category", "name")
    return None if len(rest) <= len(deepest) else "nothing stands so far down"


def _category(written: list[str]) -> Category | None:
    rest = written[_SPACE_SEGMENTS:]
    if not rest:
        return None
    if rest[0] == _MEMORIES:
        return Category(rest[1]) if len(rest) > 1 else None
    return Category(rest[0])
