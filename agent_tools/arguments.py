"""Make texts, ids and callers of a host acceptable to the server, so that no recall fails because of them."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, TypeVar

from agent_tools import failures
from agent_tools.results import ToolFailure

ValueT = TypeVar("ValueT")

MAX_QUERY_CHARS: Final = 4_096
MAX_ID_CHARS: Final = 200
# In the order of the parameters of the tools.
CONTEXT_IDS: Final = ("user_id", "agent_id", "project_id", "team_id", "org_id", "account")

_DIGEST_CHARS: Final = 32
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def drop_none(**fields: ValueT | None) -> dict[str, ValueT]:
    """Return the fields that are not None. The server has defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def clean_text(given: str) -> str:
    """Replace NUL and lone surrogates, which a model may write and no text may have."""
    return given.replace("\0", " ").encode("utf-8", "replace").decode()


def clean_query(given: object) -> str:
    """Return the beginning of a text, at most as long as a query may be."""
    return clean_text("" if given is None else str(given)).strip()[:MAX_QUERY_CHARS]


def join_names(values: Iterable[object] | None) -> str | None:
    """Join names with commas, None if there are none. A text is returned unchanged."""
    if values is None or isinstance(values, str):
        return values or None
    return ",".join(map(str, values)) or None


def clean_id(given: object) -> str:
    """Return an id. If the server would refuse it, return its beginning with a digest.

    The same id always gives the same result, and two ids stay different. None gives an empty text.
    """
    text = "" if given is None else str(given)
    if not text or (text.strip() and len(text) <= MAX_ID_CHARS and not _CONTROL.search(text)):
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{_CONTROL.sub(' ', text)[: MAX_ID_CHARS - _DIGEST_CHARS - 1]}-{digest}"


def check_caller(caller: object) -> dict[str, str]:
    """Return the context ids of a caller that are not None. Raises ToolFailure for any other content.

    Nothing is dropped or shortened: a caller with fewer or other ids might see what belongs to others.
    """
    known = ", ".join(CONTEXT_IDS)
    if not isinstance(caller, Mapping):
        raise ToolFailure(f"The caller must be an object of context ids. Give some of {known}.")
    unknown = [str(name) for name in caller if name not in CONTEXT_IDS]
    if unknown:
        names = failures.shorten(", ".join(unknown))
        raise ToolFailure(f"The caller has {names}, which is not a context id. Give some of {known}.")
    given = drop_none(**caller)
    wrong = [name for name, value in given.items() if not isinstance(value, str | int)]
    if wrong:
        raise ToolFailure(f"The caller's {', '.join(wrong)} must be text.")
    return {name: str(value) for name, value in given.items()}
