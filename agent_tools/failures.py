"""The failures of a call to the server: what happened, and what to do now."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from agent_tools.results import ToolFailure

QUOTE_LIMIT_CHARS = 300
FIELD_LIMIT = 10

_READ_AGAIN = "Read it again with {search}, then decide whether the change is still right."
_KEYWORD_PATHS = ("/api/keywords", "/api/infos")
_CONFLICT = "It conflicts with the present state of the server."
_ASK_OPERATOR = "Go on without it, and tell the operator of the server."
PERHAPS_DONE = "If it was a change, it may be done all the same: check before you repeat it."
_ADVICE = {
    401: "Set KNOWHUB_API_KEY to a valid key of this server.",
    403: "The caller may not do this. Ask the owner or an admin, or go on without it.",
    405: f"This version of the server has no {{call}}. {_ASK_OPERATOR}",
    413: "The request is too large. Shorten the text, or split it into several calls.",
    503: f"The server cannot do this now. {_ASK_OPERATOR}",
    507: f"The disk of the server is full. {_ASK_OPERATOR}",
}


def make_refusal(call: str, status: int, headers: Mapping[str, str], body: bytes, not_found: str | None) -> ToolFailure:
    """Describe an answer with a status other than 2xx.

    `call` is the method and path, for the reader. `not_found` says what a 404 means for this call.
    """
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        # For example the HTML page of a proxy: only its status is useful.
        parsed = None
    problem: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    detail = shorten(problem.get("detail") or "")
    quoted = f": {detail}" if detail else ""
    advice = _describe_next_step(call, status, headers, problem, not_found)
    known: dict[str, Any] = {key: problem[key] for key in ("current_version", "errors", "keyword") if key in problem}
    return ToolFailure(f"KnowHub answered {status}{quoted}. {advice}", {"status": status, **known})


def make_timeout(call: str, timeout_s: float) -> ToolFailure:
    """Describe a server that did not answer in time."""
    return ToolFailure(f"KnowHub did not answer {call} within {timeout_s:g} s. {PERHAPS_DONE}")


def make_foreign_answer(call: str = "the request") -> ToolFailure:
    """Describe a 2xx answer that does not come from KnowHub."""
    return ToolFailure(f"The answer to {call} does not come from KnowHub. Set KNOWHUB_API_URL to a KnowHub server.")


def shorten(text: object) -> str:
    """Shorten a foreign text to one line, so that it fits into a sentence."""
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= QUOTE_LIMIT_CHARS else line[:QUOTE_LIMIT_CHARS] + "…"


def _describe_next_step(
    call: str, status: int, headers: Mapping[str, str], problem: dict[str, Any], not_found: str | None
) -> str:
    match status:
        case 404:
            advice = not_found or f"The server does not know {call}. Set KNOWHUB_API_URL to a KnowHub server that does."
        case 409:
            version = problem.get("current_version")
            is_version = isinstance(version, int)
            advice = f"It was changed meanwhile; its version is now {version}." if is_version else _CONFLICT
            is_keyword = call.partition(" ")[2].startswith(_KEYWORD_PATHS)
            search = "keyword_search" if is_keyword else "knowledge_search"
            advice = _describe_keywords(problem) or f"{advice} {_READ_AGAIN.format(search=search)}"
        case 400 | 422:
            advice = _describe_fields(problem)
        case 429:
            after = shorten(headers.get("retry-after", ""))
            wait = f"{after} s" if after.isdecimal() else f"until {after}" if after else "a minute"
            advice = f"Wait {wait}, then call again."
        case _ if status in _ADVICE:
            advice = _ADVICE[status].format(call=call)
        case _ if status < HTTPStatus.BAD_REQUEST:
            target = shorten(headers.get("location", "another address"))
            advice = f"The server redirects {call} to {target}. Set KNOWHUB_API_URL to the final address."
        case _ if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            advice = "Correct the call, or go on without it."
        case _:
            request_id = headers.get("x-request-id")
            named = f" Its request id is {shorten(request_id)}." if request_id else ""
            advice = f"The server failed. Try once more, later.{named} If it fails again: {_ASK_OPERATOR}"
    return advice


def _describe_keywords(problem: dict[str, Any]) -> str:
    """Say which keywords an ambiguous name may mean; "" if the conflict is another one."""
    rows = list_objects(problem.get("keyword"))
    if not rows:
        return ""
    shown = [f"{shorten(row.get('path'))} (id {shorten(row.get('id'))})" for row in rows[:FIELD_LIMIT]]
    more = f" and {len(rows) - FIELD_LIMIT} more" if len(rows) > FIELD_LIMIT else ""
    return f"Choose one with keyword_search, and call again with its path or id: {'; '.join(shown)}{more}."


def _describe_fields(problem: dict[str, Any]) -> str:
    errors = list_objects(problem.get("errors"))[:FIELD_LIMIT]
    named = "; ".join(f"{shorten(error.get('field'))}: {shorten(error.get('message'))}" for error in errors)
    return f"Correct these and call again — {named}." if named else "Correct the arguments and call again."


def list_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array. What else stands there, or in its place, is no server of ours."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
