"""Find what belongs into a resource: credentials, cookies, long code."""

import re
from collections.abc import Iterator
from typing import Final

from knowhub.conversations.messages import Message
from knowhub.conversations.secrets.detection import find_possible_secrets
from knowhub.knowledge.extract.model import ResourceSuggestion

MAX_SUGGESTIONS: Final = 50
_MIN_CODE_LINES: Final = 10
_FENCE: Final = re.compile(r"(?m)^(?:```|~~~)[ \t]*([\w+#.-]*)")
_COOKIE: Final = re.compile(r"(?im)^(?:set-)?cookie:\s*\S[^\s=]*=\S")


def suggest_resources(number: int, message: Message) -> Iterator[ResourceSuggestion]:
    """Yield the resources to suggest for a message."""
    offers = [
        ("credential", f"credentials/{pattern}", f"{pattern} from a conversation", redacted)
        for pattern, redacted in dict.fromkeys(
            (secret.pattern, secret.redacted) for secret in find_possible_secrets(message.content)
        )
    ]
    if _COOKIE.search(message.content):
        offers.append(("cookie", "cookies/site", "Cookie from a conversation", "a cookie header"))
    for language, lines in _iter_code_blocks(message.content):
        if lines >= _MIN_CODE_LINES:
            shown = f"{lines} lines of {language}"
            offers.append(("code", f"code/{language}/snippet", "Code from a conversation", shown))
    for content_type, suggested_id, title, shown in offers:
        yield ResourceSuggestion(content_type, suggested_id, title, number, message.message_id, shown)


def _iter_code_blocks(text: str) -> Iterator[tuple[str, int]]:
    """Yield the language and the number of lines of each fenced block."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        else:
            yield opened[1].lower() or "text", text.count("\n", opened.end(), fence.start()) - 1
            opened = None
