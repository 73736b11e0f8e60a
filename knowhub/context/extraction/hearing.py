"""What the four extractors hear of one session: it is taken apart once, whoever asks first."""

from collections.abc import Sequence
from threading import Lock

from knowhub.context.heard import Episode, Statement
from knowhub.context.ports import SpokenReader
from knowhub.core.messages import Message


class Hearing:
    """Remembers what was heard in the messages that it was last asked for; extractors ask from threads of their own."""

    def __init__(self, reader: SpokenReader) -> None:
        self._reader = reader
        self._lock = Lock()
        self._messages: Sequence[Message] | None = None
        self._statements: Sequence[Statement] = ()

    def statements(self, messages: Sequence[Message]) -> Sequence[Statement]:
        """Return what the users among these say."""
        with self._lock:
            if self._messages is not messages:
                self._statements = self._reader.statements(messages)
                self._messages = messages
            return self._statements

    def episodes(self, messages: Sequence[Message]) -> Sequence[Episode]:
        """Return what happened in these."""
        return self._reader.episodes(messages)
