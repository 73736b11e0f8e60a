"""What a commit may hold, and the checks of its ids."""

from collections.abc import Sequence
from typing import Final

from knowhub.context import uri
from knowhub.context.model import MemoryContext
from knowhub.conversations.messages import Message
from knowhub.core.errors import InvalidInput

MAX_MESSAGES: Final = 2_000
TOO_MANY: Final = f"must be at most {MAX_MESSAGES:,}; commit a longer session in several turns, under one session_id"
MAX_USED: Final = 2_000
MAX_ROLE_CHARS: Final = 40
MAX_NAME_CHARS: Final = 200
MAX_TIMESTAMP_CHARS: Final = 64
MAX_NOTE_CHARS: Final = 1_000
# `m-`, a hash, and a number: how a message is called that has no id.
_OWN_NAME: Final = 40


def check_ids(whose: MemoryContext, messages: Sequence[Message]) -> None:
    """Raise InvalidInput for ids that make no URI or too long a URI, and for an id that two messages have."""
    try:
        room = uri.MAX_URI_CHARS - len(uri.session_uri(whose)) - 1
    except ValueError as problem:
        raise InvalidInput.of("session_id", str(problem)) from problem
    seen: set[str] = set()
    for message in messages:
        name = message.message_id or ""
        try:
            length = len(uri.encode_segment(name)) if name else 0
        except ValueError as problem:
            raise InvalidInput.of("messages", str(problem)) from problem
        if max(length, _OWN_NAME) > room:
            raise InvalidInput.of("messages", f"the id {name!r} makes too long a URI")
        if name in seen:
            raise InvalidInput.of("messages", f"the message_id {name!r} stands twice; each must be one message's")
        seen.update([name] if name else [])
