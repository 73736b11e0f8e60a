"""Checks of a commit before anything is done: what is missing, too long, or cannot be stored."""

from collections.abc import Iterable, Sequence
from typing import Final

from knowhub.context import uri
from knowhub.context.commit_model import SessionCommit, UsedTool
from knowhub.conversations.messages import Message
from knowhub.core.errors import FieldError, InvalidInput

MAX_MESSAGES: Final = 2_000
TOO_MANY: Final = f"must be at most {MAX_MESSAGES:,}; commit a longer session in several turns, under one session_id"
MAX_USED: Final = 2_000
MAX_SESSION_CHARS: Final = 200
MAX_ROLE_CHARS: Final = 40
MAX_NAME_CHARS: Final = 200
MAX_MESSAGE_ID_CHARS: Final = 200
MAX_TIMESTAMP_CHARS: Final = 64
MAX_NOTE_CHARS: Final = 1_000
_MAX_ERRORS: Final = 20
# `m-`, a hash, and a number: how a message is called that has no id.
_OWN_NAME: Final = 40


def check_commit(commit: SessionCommit) -> None:
    """Raise InvalidInput naming every field that is wrong, the first twenty of them."""
    errors = [error for error in _errors(commit) if error is not None][:_MAX_ERRORS]
    if errors:
        detail = "; ".join(f"{field_error.field}: {field_error.message}" for field_error in errors)
        raise InvalidInput(detail, errors)


def check_uris(session_uri: str, messages: Sequence[Message]) -> None:
    """Raise InvalidInput where the id of a message makes too long a URI. That of one without is short."""
    for message in messages:
        name = message.message_id or ""
        if len(session_uri) + 1 + max(len(uri.segment(name)) if name else 0, _OWN_NAME) > uri.MAX_URI_CHARS:
            raise InvalidInput.of("messages", f"the id {name!r} makes too long a URI")


def _errors(commit: SessionCommit) -> Iterable[FieldError | None]:
    yield _segment("session_id", commit.session_id, MAX_SESSION_CHARS)
    if not commit.messages:
        yield FieldError("messages", "must name at least one message")
    if len(commit.messages) > MAX_MESSAGES:
        yield FieldError("messages", TOO_MANY)
        return
    for number, message in enumerate(commit.messages):
        yield from _message_errors(f"messages.{number}", message)
    named = [item.message_id for item in commit.messages if item.message_id]
    if len(named) != len(set(named)):
        twice = next(item for number, item in enumerate(named) if item in named[:number])
        yield FieldError("messages", f"the message_id {twice!r} stands twice; each must be one message's")
    for name, many in (("used_contexts", commit.used_contexts), ("used_tools", commit.used_tools)):
        if len(many) > MAX_USED:
            yield FieldError(name, f"must be at most {MAX_USED:,}")
    for number, used in enumerate(commit.used_tools[:MAX_USED]):
        yield from _tool_errors(f"used_tools.{number}", used)


def _message_errors(field: str, message: Message) -> Iterable[FieldError | None]:
    if not message.role.strip():
        yield FieldError(f"{field}.role", "must say who speaks, such as user, assistant or tool")
    yield _text(f"{field}.role", message.role, MAX_ROLE_CHARS)
    yield _text(f"{field}.name", message.name, MAX_NAME_CHARS)
    yield _text(f"{field}.timestamp", message.timestamp or "", MAX_TIMESTAMP_CHARS)
    yield _text(f"{field}.content", message.content, None)
    if message.message_id is not None:
        yield _segment(f"{field}.message_id", message.message_id, MAX_MESSAGE_ID_CHARS)


def _tool_errors(field: str, used: UsedTool) -> Iterable[FieldError | None]:
    yield _segment(f"{field}.name", used.name, MAX_NAME_CHARS)
    yield _text(f"{field}.note", used.note, MAX_NOTE_CHARS)
    if used.call_id is not None:
        yield _segment(f"{field}.call_id", used.call_id, MAX_MESSAGE_ID_CHARS)
    if used.kind not in {"tool", "skill"}:
        yield FieldError(f"{field}.kind", "must be tool or skill")
    if used.seconds is not None and not 0 <= used.seconds < float("inf"):
        yield FieldError(f"{field}.seconds", "must be a number of seconds, from 0")


def _segment(field: str, text: str, longest: int) -> FieldError | None:
    """Return what keeps a text from naming something in a URI."""
    if not text.strip():
        return FieldError(field, "must not be empty")
    problem = _text(field, text, longest)
    if problem is not None:
        return problem
    try:
        uri.segment(text)
    except ValueError as wrong:
        return FieldError(field, str(wrong))
    return None


def _text(field: str, text: str, longest: int | None) -> FieldError | None:
    if longest is not None and len(text) > longest:
        return FieldError(field, f"must have at most {longest} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return FieldError(field, "holds half of a character: it is no text that can be stored")
    return None
