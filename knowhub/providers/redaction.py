"""The API key, taken out of whatever a server or a model writes: neither answers nor the log may show it."""

import re
from typing import Any

_IN_PLACE = "[key]"
# A shorter one guards nothing: it is a placeholder, such as the `ollama` that clients of a local server must send.
_SHORTEST_SECRET = 8
_WORD = r"[A-Za-z0-9_-]"


class Redaction:
    """Puts "[key]" in the place of one key; without a key nothing is changed.

    A key under 8 characters is a placeholder and may be an ordinary word. In an answer it is replaced as a whole word
    behind "Bearer" alone: else a keyword `ollama` would come to be named "[key]". In an error, as any whole word.
    """

    def __init__(self, key: str) -> None:
        plain, escaped = re.escape(key), "".join(_escape_character(sign) for sign in key)
        if 0 < len(key) < _SHORTEST_SECRET:
            plain = rf"(?<=(?i:bearer) ){plain}(?!{_WORD})"
            escaped = rf"(?<!{_WORD}){escaped}(?!{_WORD})"
        self._in_answers = re.compile(plain) if key else None
        self._in_errors = re.compile(escaped) if key else None

    def redact_answer(self, text: str) -> str:
        """Return what a model wrote, without the key."""
        return text if self._in_answers is None else self._in_answers.sub(_IN_PLACE, text)

    def redact_error(self, text: str) -> str:
        """Return what a server said of a failure, without the key, be it escaped as in JSON text."""
        return text if self._in_errors is None else self._in_errors.sub(_IN_PLACE, text)

    def redact_value(self, value: Any) -> Any:  # noqa: ANN401 -- any JSON
        """Return a parsed answer whose texts, names of fields too, are without the key.

        To be used on what `answer` has let pass: JSON text may hide the key behind escapes.
        """
        match value:
            case str():
                return self.redact_answer(value)
            case dict():
                return {self.redact_answer(name): self.redact_value(part) for name, part in value.items()}
            case list():
                return [self.redact_value(part) for part in value]
            case _:
                return value


NO_KEY = Redaction("")


def _escape_character(sign: str) -> str:
    """Match a sign of the key, also as JSON text may write it."""
    return rf"(?:\\?{re.escape(sign)}|\\u(?i:{ord(sign):04x}))"
