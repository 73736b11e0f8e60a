"""`ctx://` URIs of nodes and messages, and the spaces into which a caller's memories go."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

from knowhub.context.model import HISTORY, STATEMENTS, MemoryCategory, MemoryContext
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import normalize

SCHEME: Final = "ctx://"
MAX_URI_CHARS: Final = 2_000
MAX_SLUG_CHARS: Final = 60
_HASH_NAME_CHARS: Final = 12
_MAX_SEGMENT_CHARS: Final = 900
_PLAIN: Final = frozenset("-_.@:+")
OWN: Final = "~"
"""How the name of a space begins that is not named by its own kind of principal: the agent space of a user, and the
user space of an agent without a user. No id is written so."""

_MEMORIES: Final = "memories"
_SPACE_SEGMENTS: Final = 3
_NAME: Final = "…"
_TEMPLATES: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    "users": (
        (_MEMORIES, "profile"),
        *((_MEMORIES, name, _NAME) for name in ("preferences", "entities", "events", "cases", "patterns")),
        ("sessions", _NAME, _NAME),
    ),
    # Cases and patterns are those that earlier versions kept for all users of an agent.
    "agents": (
        *((_MEMORIES, name, _NAME) for name in ("cases", "patterns")),
        *((name, _NAME) for name in ("skills", "tools")),
    ),
}
"""The paths below the space of a user or an agent."""
_NOT_NAMED: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ContextUri:
    """A URI that was understood. `category` is None for a folder above the nodes; `name` and `part` are decoded."""

    text: str
    account: str
    space: str
    category: MemoryCategory | None
    name: str = ""
    part: str = ""

    @property
    def is_node(self) -> bool:
        """Whether the URI can be a node's."""
        return self.category is MemoryCategory.PROFILE or bool(self.name and not self.part)

    @property
    def is_part(self) -> bool:
        """Whether the URI can be a message's."""
        return bool(self.part)

    @property
    def parent(self) -> str:
        """The URI above; the URI of an account is its own parent."""
        return parent_of(self.text)


def parse(text: str, field: str = "uri") -> ContextUri:
    """Read a URI. Raises InvalidInput naming what is wrong with it."""
    if len(text) > MAX_URI_CHARS:
        raise InvalidInput.of(field, f"must have at most {MAX_URI_CHARS} characters")
    if not text.startswith(SCHEME):
        raise InvalidInput.of(field, f"{text[:80]!r} is no URI of a memory: it must begin with {SCHEME}")
    written = text[len(SCHEME) :].split("/")
    if "" in written:
        raise InvalidInput.of(
            field, f"{text[:200]!r} has an empty name in it: no slash ends a URI, and none stands twice"
        )
    names = [_decode(segment, text, field) for segment in written]
    problem = _find_problem(written)
    if problem:
        raise InvalidInput.of(field, f"{text[:200]!r} names nothing: {problem}")
    rest = written[_SPACE_SEGMENTS:]
    depth = 1 if rest[:1] == [_MEMORIES] else 0
    category = MemoryCategory(rest[depth]) if len(rest) > depth else None
    name, part, *_ = [*names[_SPACE_SEGMENTS + depth + 1 :], "", ""]
    return ContextUri(text, names[0], "/".join(written[1:_SPACE_SEGMENTS]), category, name, part)


def account_uri(account: str) -> str:
    """Return the URI above all memories of an account."""
    return SCHEME + encode_segment(account)


def space_uri(account: str, space: str) -> str:
    """Return the URI of a space, which is `users/{segment}` or `agents/{segment}`."""
    return f"{account_uri(account)}/{space}"


def node_uri(account: str, space: str, category: MemoryCategory, name: str = "") -> str:
    """Return the URI of a node; a profile has no name."""
    root = space_uri(account, space)
    if category is MemoryCategory.PROFILE:
        return f"{root}/memories/profile"
    kind = space.partition("/")[0]
    template = next(template for template in _TEMPLATES[kind] if category.value in template)
    between = "/".join(item for item in template if item != _NAME)
    return f"{root}/{between}/{encode_segment(name)}"


def part_uri(session_uri: str, name: str) -> str:
    """Return the URI of one message of a session."""
    return f"{session_uri}/{encode_segment(name)}"


def parent_of(uri: str) -> str:
    """Return the URI above; the URI of an account is its own parent."""
    above = uri.rpartition("/")[0]
    return above if len(above) > len(SCHEME) else uri


def list_ancestors(uri: str) -> list[str]:
    """Return every URI above, the account's first."""
    found = []
    above = parent_of(uri)
    while above != uri:
        found.append(above)
        uri, above = above, parent_of(above)
    return found[::-1]


def encode_segment(name: str) -> str:
    """Write a name as a segment. Raises ValueError for an empty or too long name."""
    if not name:
        raise ValueError("a name must not be empty")
    if set(name) == {"."}:
        return "%2E" * len(name)
    written = "".join(char if _is_plain(char) else _encode(char) for char in name)
    if len(written) > _MAX_SEGMENT_CHARS:
        raise ValueError(f"{name[:40]!r}… is too long for a URI")
    return written


def make_own_segment(name: str) -> str:
    """Return the segment of a user's own agent space, or of the user space of an agent without a user."""
    return OWN + encode_segment(name)


def make_slug(text: str) -> str:
    """Make a name of a text that people can read: lower case, letters and digits of any script, joined by hyphens.

    A hash is added if the name was cut, or is empty.
    """
    folded = normalize("NFKC", text).casefold()
    name = _NOT_NAMED.sub("-", folded).strip("-")
    if name and len(name) <= MAX_SLUG_CHARS:
        return name
    tail = blake2b(folded.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{name[: MAX_SLUG_CHARS - 9].strip('-')}-{tail}".lstrip("-")


def stable_hash(*parts: object) -> str:
    """Hash values to hexadecimal digits that are the same in every process."""
    text = "\x1f".join(map(str, parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def hash_name(*parts: object) -> str:
    """Make a name that quotes nothing: a URI stays in the history when its memory is erased."""
    return stable_hash(*parts)[:_HASH_NAME_CHARS]


def _is_plain(char: str) -> bool:
    return char in _PLAIN or (char.isalnum() and normalize("NFKC", char) == char)


def _encode(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _decode(written: str, text: str, field: str) -> str:
    own = written.startswith(OWN)
    bare = written[len(OWN) :] if own else written
    try:
        name = unquote(bare, errors="strict")
        is_canonical = encode_segment(name) == bare
    except (UnicodeDecodeError, ValueError):
        is_canonical = False
        name = ""
    if not is_canonical:
        raise InvalidInput.of(field, f"{text[:200]!r} is not written as KnowHub writes URIs, see {written[:80]!r}")
    return OWN + name if own else name


def _find_problem(written: list[str]) -> str:
    """Return why segments are no URI; empty if they are."""
    above, rest = written[:_SPACE_SEGMENTS], written[_SPACE_SEGMENTS:]
    if any(item.startswith(OWN) for item in [*above[:2], *rest]):
        return f"only the name of a space may begin with {OWN}"
    if len(written) == 1:
        return ""
    templates = _TEMPLATES.get(written[1])
    if templates is None:
        return "below the account there are users and agents"
    for template in templates:
        if len(rest) <= len(template) and all(
            fixed in (_NAME, item) for fixed, item in zip(template, rest, strict=False)
        ):
            return ""
    return f"below one of the {written[1]} there are {', '.join('/'.join(template) for template in templates)}"


_USER, _AGENT = "user:", "agent:"


def memory_context(ctx: RequestContext, session_id: str = "") -> MemoryContext:
    """Return the spaces into which the caller's sessions are committed.

    Each user has an agent space of their own, even if an agent is named: what a session teaches of tools comes from
    what this user did, so other users of the agent do not see it. An agent without a user has its own user space.

    Raises InvalidInput where neither is named and there is no default: a project has no memories.
    """
    # The root key acts for the principals that it names, and for itself if it names none.
    own = (ctx.own - {ctx.actor} if ctx.is_root else ctx.own) or ctx.own
    named = {principal.partition(":")[0]: principal for principal in sorted(own)}
    if not named and ctx.visible is None:
        named = {ctx.default_owner.partition(":")[0]: ctx.default_owner}
    user, agent = named.get("user"), named.get("agent")
    if user is None and agent is None:
        raise InvalidInput.of("user_id", "name a user or an agent: a session belongs to one of them")
    return MemoryContext(
        account=ctx.account,
        user=_make_space_segment(user, agent or "", _USER),
        agent=_make_space_segment(agent if user is None else None, user or "", _AGENT),
        owner=user or agent or "",
        session_id=session_id,
    )


def space_of(whose: MemoryContext, owner_scope: str) -> str:
    """Return the space of an owner scope, `user` or `agent`."""
    return f"users/{whose.user}" if owner_scope == "user" else f"agents/{whose.agent}"


def session_uri(whose: MemoryContext) -> str:
    """Return the URI of the session that is committed."""
    return node_uri(whose.account, space_of(whose, "user"), MemoryCategory.SESSIONS, whose.session_id)


def _make_space_segment(principal: str | None, other: str, prefix: str) -> str:
    try:
        if principal is not None:
            return encode_segment(principal.removeprefix(prefix))
        return make_own_segment(other.partition(":")[2])
    except ValueError as problem:
        raise InvalidInput.of(f"{(principal or other).partition(':')[0]}_id", str(problem)) from problem


def list_visible_spaces(ctx: RequestContext) -> list[str] | None:
    """Return the URIs of the spaces that are visible to the caller; None means the whole account."""
    if ctx.visible is None:
        return None
    spaces = []
    for principal in sorted(ctx.visible):
        kind, _, name = principal.partition(":")
        if kind not in {"user", "agent"}:
            continue
        other = "agents" if kind == "user" else "users"
        # A principal whose name no URI could hold has no memories.
        with suppress(ValueError):
            spaces += [f"{kind}s/{encode_segment(name)}", f"{other}/{make_own_segment(name)}"]
    return [space_uri(ctx.account, space) for space in spaces]


Sees = Callable[[str], bool]
"""Returns whether the caller sees the node or message with this URI."""


def redact_node(address: str, row: Row, sees: Sees) -> Row:
    """Return the row or the patch of a node without references to sessions that the caller does not see.

    Nodes in a user's space come from that user's sessions alone.
    """
    metadata = row.get("metadata")
    if metadata is None or parse(address).space.startswith("users/"):
        return row
    edges = [edge for edge in row.get("relations", ()) if sees(str(edge["to_uri"]))]
    refs = [ref for ref in metadata.get("source_refs", ()) if sees(str(ref))]
    linked = [parse(str(ref)) for ref in (*refs, *(edge["to_uri"] for edge in edges))]
    seen = {
        "source_refs": refs,
        "message_ids": _filter_names(metadata.get("message_ids", ()), (uri.part for uri in linked)),
        "sessions": _filter_names(
            metadata.get("sessions", ()), (uri.name for uri in linked if uri.category is MemoryCategory.SESSIONS)
        ),
    }
    hidden = (STATEMENTS, HISTORY)
    kept = {"metadata": {name: seen.get(name, value) for name, value in metadata.items() if name not in hidden}}
    return {**row, **kept, **({"relations": edges} if "relations" in row else {})}


def _filter_names(names: Iterable[str], known: Iterable[str]) -> list[str]:
    among = frozenset(known)
    return [name for name in names if name in among]
