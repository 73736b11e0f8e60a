"""JSON-RPC of MCP: what is no message, and errors in the form of the protocol.

Over stdio the first answer waits for this module; it imports little.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

PATH: Final = "/mcp"
COUNT_WRITE: Final = "knowhub.count_write"
"""In the scope of a request: counts a write of the caller. Raises TooManyRequests."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
_SERVER_ERRORS: Final = 500
EDGE_BYTES: Final = 1024
_ID_FIELD: Final = rb'"id"\s{0,4}:\s{0,4}("[^"\\]{0,200}"|-?\d{1,18})'
_SHORT_FIELD: Final = rb'"(?:jsonrpc|method)"\s{0,4}:\s{0,4}"[^"\\]{0,100}"\s{0,4}'
# The libraries of MCP write the id before or after `params`, next to fields that hold nothing else.
_LEADING_ID: Final = re.compile(rb"\{\s{0,4}(?:%b,\s{0,4}){0,2}%b" % (_SHORT_FIELD, _ID_FIELD))
_TRAILING_ID: Final = re.compile(rb",\s{0,4}%b\s{0,4}(?:,\s{0,4}%b){0,2}\}\Z" % (_ID_FIELD, _SHORT_FIELD))
_SHOWN_NAME_CHARS: Final = 80
INITIALIZE: Final = "initialize"
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""The protocol since 2026-07-28 names its version with each request, and knows no `initialize`."""
_TEXT: Final = (str, "a string")
_OBJECT: Final = (dict | None, "an object")
_REQUIRED_OBJECT: Final = (dict, "an object")
_PAGE: Final = {"cursor": (str | None, "a string")}
# The library says of wrong parameters only that they are wrong.
_PARAMETERS: Final[Mapping[str, Mapping[str, tuple[Any, str]]]] = {
    INITIALIZE: {"protocolVersion": _TEXT, "capabilities": _REQUIRED_OBJECT, "clientInfo": _REQUIRED_OBJECT},
    "tools/list": _PAGE,
    "resources/list": _PAGE,
    "resources/templates/list": _PAGE,
    "prompts/list": _PAGE,
    "tools/call": {"name": _TEXT, "arguments": _OBJECT},
    "resources/read": {"uri": _TEXT},
    "prompts/get": {"name": _TEXT, "arguments": _OBJECT},
}


def is_mcp(path: str) -> bool:
    """Return whether errors at a path have the form of JSON-RPC."""
    return path.rstrip("/") == PATH


def make_error(code: int, message: str, request_id: str | int | None = None) -> dict[str, Any]:
    """Return an error of JSON-RPC; the id is null where no id could be read."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def make_refusal(status: int, detail: str, request_id: str | int | None = None) -> dict[str, Any]:
    """Return the error for a request that was refused with an HTTP status before MCP saw it."""
    return make_error(INTERNAL_ERROR if status >= _SERVER_ERRORS else INVALID_REQUEST, detail, request_id)


def read_id(beginning: bytes, end: bytes) -> str | int | None:
    """Return the id of a message that is not parsed, as it is too large, too deep or no JSON; None where it is hidden.

    `beginning` and `end` are what the message begins and ends with.
    """
    found = _LEADING_ID.match(beginning[:EDGE_BYTES].strip()) or _TRAILING_ID.search(end[-EDGE_BYTES:].strip())
    try:
        read: str | int | None = orjson.loads(found[1]) if found else None
    except orjson.JSONDecodeError:
        return None
    return read


def find_fault(text: bytes) -> dict[str, Any] | None:
    """Return the error to answer if `text` is not one message of JSON-RPC."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return make_error(PARSE_ERROR, f"this is not JSON: {error}; send one JSON-RPC request", read_id(text, text))
    request_id = message.get("id") if isinstance(message, dict) else None
    readable_id = request_id if _is_id(request_id) else None
    fault = _find_fault(message)
    if fault is not None:
        return make_error(INVALID_REQUEST, f"{fault}; send one JSON-RPC request", readable_id)
    fault = _find_wrong_parameter(message)
    return make_error(INVALID_PARAMS, fault, readable_id) if fault is not None else None


def _find_fault(message: object) -> str | None:
    if not isinstance(message, dict):
        what = f"a batch of {len(message)}" if isinstance(message, list) else orjson.dumps(message).decode()[:40]
        return f"MCP takes one JSON object at a time; this is {what}"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc: must be "2.0"'
    if "id" in message and not _is_id(message["id"]):
        return "id: must be a string or an integer"
    if "method" not in message and not _is_answer(message):
        return "method: is missing"
    if not isinstance(message.get("method", ""), str):
        return "method: must be a string"
    return None if isinstance(message.get("params"), dict | None) else "params: must be an object"


def _is_answer(message: dict[str, Any]) -> bool:
    """Return whether this answers a request of ours: clients may send such messages."""
    error = message.get("error")
    if isinstance(error, dict):
        return isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
    return "id" in message and isinstance(message.get("result"), dict)


def _find_wrong_parameter(message: dict[str, Any]) -> str | None:
    given = message.get("params") or {}
    meta = given.get("_meta")
    if message.get("method") == INITIALIZE and isinstance(meta, dict) and META_VERSION in meta:
        # The library says that there is no such method.
        return None
    for name, (wanted, words) in _PARAMETERS.get(message.get("method", ""), {}).items():
        if not isinstance(given.get(name), wanted):
            return f"params.{name}: must be {words}"
    if message.get("method") == "prompts/get":
        for name, value in (given.get("arguments") or {}).items():
            if not isinstance(value, str):
                return f"params.arguments.{name[:_SHOWN_NAME_CHARS]}: must be a string"
    return None


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)
