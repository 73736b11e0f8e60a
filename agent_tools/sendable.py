"""Texts, ids and callers as the server takes them: what a host has need not fit, and no recall is lost for that."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, TypeVar

from agent_tools import failures
from agent_tools.results import ToolFailure

ValueT = TypeVar("ValueT")

MAX_QUERY_CHARS: Final = 4_096
MAX_ID_CHARS: Final = 200
# As the parameters of the tools stand: what came last is last.
CONTEXT_IDS: Final = ("user_id", "agent_id", "project_id", "team_id", "org_id", "account")

_DIGEST_CHARS: Final = 32
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def ids_by_name(*ids: str | None) -> dict[str, str]:
    """Return the ids of a caller by their names, as a tool was given them in the order of CONTEXT_IDS."""
    return without_none(**dict(zip(CONTEXT_IDS, ids, strict=True)))


def without_none(**fields: ValueT | None) -> dict[str, ValueT]:
    """Return the fields that were given: what is left out, the server chooses."""
    return {name: value for name, value in fields.items() if value is not None}


def plain_text(given: str) -> str:
    """Replace what no text holds: NUL and halves of surrogate pairs, as a model may write them."""
    return given.replace("\0", " ").encode("utf-8", "replace").decode()


def query(given: object) -> str:
    """Return the beginning of a text, as long as a search may be; empty where there are no words."""
    return plain_text("" if given is None else str(given)).strip()[:MAX_QUERY_CHARS]


def commas(values: Iterable[object] | None) -> str | None:
    """Return names as a query holds them, None for none; a text is taken as it is, so that one name will do."""
    if values is None or isinstance(values, str):
        return values or None
    return ",".join(map(str, values)) or None


def entity_id(given: object) -> str:
    """Return an id as it is, or where the server would refuse it its beginning with a digest; empty for none.

    So the same id is always sent the same, and two that differ stay two.
    """
    text = "" if given is None else str(given)
    if not text or (text.strip() and len(text) <= MAX_ID_CHARS and not _CONTROL.search(text)):
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{_CONTROL.sub(' ', text)[: MAX_ID_CHARS - _DIGEST_CHARS - 1]}-{digest}"


def caller_ids(caller: object) -> dict[str, str]:
    """Return who calls, those left out that are None. Raises ToolFailure for what is no context id.

    Nothing of it is dropped or cut: who says less of themselves, or something else, may see what is not theirs.
    """
    known = ", ".join(CONTEXT_IDS)
    if not isinstance(caller, Mapping):
        raise ToolFailure(f"The caller is no object of context ids. Give some of {known}.")
    unknown = [str(name) for name in caller if name not in CONTEXT_IDS]
    if unknown:
        named = failures.one_line(", ".join(unknown))
        raise ToolFailure(f"The caller holds {named}, which is no context id. Give some of {known}.")
    given = without_none(**caller)
    no_text = [name for name, value in given.items() if not isinstance(value, str | int)]
    if no_text:
        raise ToolFailure(f"The caller's {', '.join(no_text)} must be text.")
    return {name: str(value) for name, value in given.items()}
