"""What is taken out of messages before they are read for what they say, by rules or by a model."""

from collections.abc import Sequence
from dataclasses import replace

from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import NOTHING_RECALLED, RecalledTexts, remove_recalled
from knowhub.conversations.secrets import cover_secrets
from knowhub.conversations.sentences import is_private


def clean_messages(messages: Sequence[Message], known: RecalledTexts = NOTHING_RECALLED) -> list[Message]:
    """Return the messages with secrets covered, and without what KnowHub said or `known` texts say.

    A message keeps its place, though nothing may be left of it: an application's, or one that somebody asks not to
    remember.
    """
    safe = [replace(message, content=cover_secrets(message.content)) for message in messages]
    return [
        replace(message, content="") if message.is_system or is_private(message.content) else message
        for message in remove_recalled(safe, known)
    ]
