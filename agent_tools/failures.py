"""Words for each way in which a call to the server can fail: what happened, and what to do now."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from agent_tools.results import ToolFailure

QUOTE_LIMIT_CHARS = 300
FIELD_LIMIT = 10

_READ_AGAIN = "Read it again with knowledge_search, then decide whether the change is still right."
_ASK_OPERATOR = "Go on without it, and tell whoever runs the server."
_PERHAPS_DONE = "If it was to change something, that may be done all the same: look before you repeat it."
_ADVICE = {
    401: "Set KNOWHUB_API_KEY to a valid key of this server.",
    403: "The caller may not do this: ask the owner or an admin, or go on without it.",
    405: f"This server version has no {{call}}. {_ASK_OPERATOR}",
    413: "That is more than one request may hold. Shorten the text, or split it over several calls.",
    503: f"The server cannot do this at present. {_ASK_OPERATOR}",
    507: f"The server has no room to write. {_ASK_OPERATOR}",
}


def refused(call: str, status: int, headers: Mapping[str, str], body: bytes, not_found: str | None) -> ToolFailure:
    """Name the refusal that an HTTP status other than 2xx stands for.

    `call` is the method and path, for the reader; `not_found` says what a 404 means for this call.
    """
    problem = _problem(body)
    detail = one_line(problem.get("detail") or "")
    said = f": {detail}" if detail else ""
    advice = _advice(call, status, headers, problem, not_found)
    known: dict[str, Any] = {key: problem[key] for key in ("current_version", "errors") if key in problem}
    return ToolFailure(f"KnowHub answered {status}{said}. {advice}", {"status": status, **known})


def unreachable(server: str, reason: str) -> ToolFailure:
    """Say that no connection to the server's address came about."""
    return ToolFailure(
        f"KnowHub is not reachable at {server} ({one_line(reason)}). Start it with `knowhub serve`, "
        "or set KNOWHUB_API_URL to the address where it runs.",
    )


def timed_out(call: str, timeout_s: float) -> ToolFailure:
    """Say that the server did not answer in time."""
    return ToolFailure(
        f"KnowHub did not answer {call} within {timeout_s:g} s. {_PERHAPS_DONE}",
    )


def broken_off(call: str, reason: str) -> ToolFailure:
    """Say that the connection broke between the request and the end of the answer."""
    return ToolFailure(
        f"The connection to KnowHub broke during {call} ({reason}). {_PERHAPS_DONE}",
    )


def not_knowhub(call: str) -> ToolFailure:
    """Say that a 2xx was given which no KnowHub server would give."""
    return ToolFailure(
        f"What answered {call} is not an answer of KnowHub. Set KNOWHUB_API_URL to a KnowHub server.",
    )


def one_line(text: object) -> str:
    """Bound a foreign text and take its line breaks away, to stay a part of our sentence."""
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= QUOTE_LIMIT_CHARS else line[:QUOTE_LIMIT_CHARS] + "…"


def _problem(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        # A proxy's page of HTML, say: its status is all that it tells us.
        return {}
    return problem if isinstance(problem, dict) else {}


def _advice(call: str, status: int, headers: Mapping[str, str], problem: dict[str, Any], not_found: str | None) -> str:
    match status:
        case 404:
            return not_found or f"{call} is unknown there: set KNOWHUB_API_URL to a KnowHub server that has it."
        case 409:
            return _changed(problem)
        case 400 | 422:
            return _fields(problem)
        case 429:
            return _wait(headers)
        case _:
            return _ADVICE[status].format(call=call) if status in _ADVICE else _elsewhere(call, status, headers)


def _changed(problem: dict[str, Any]) -> str:
    version = problem.get("current_version")
    if isinstance(version, int):
        return f"Somebody else changed it meanwhile: it is at version {version} now. {_READ_AGAIN}"
    return f"It does not fit what the server holds now. {_READ_AGAIN}"


def _fields(problem: dict[str, Any]) -> str:
    errors = problem.get("errors")
    named = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    if not named:
        return "Correct the arguments and call again."
    shown = [f"{one_line(error.get('field'))}: {one_line(error.get('message'))}" for error in named[:FIELD_LIMIT]]
    return f"Correct these and call again — {'; '.join(shown)}."


def _wait(headers: Mapping[str, str]) -> str:
    after = one_line(headers.get("retry-after", ""))
    if after.isdecimal():
        return f"Wait {after} s, then call again."
    return f"Wait until {after}, then call again." if after else "Wait a minute, then call again."


def _elsewhere(call: str, status: int, headers: Mapping[str, str]) -> str:
    if status < HTTPStatus.BAD_REQUEST:
        target = one_line(headers.get("location", "another address"))
        return f"It sends {call} to {target}: set KNOWHUB_API_URL to the server's final address."
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Correct the call, or go on without it."
    request_id = headers.get("x-request-id")
    named = f" Its request id is {one_line(request_id)}." if request_id else ""
    return f"The server itself failed; try once more, later.{named} If it stays so: {_ASK_OPERATOR}"
