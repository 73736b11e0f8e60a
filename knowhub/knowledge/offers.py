"""What in a conversation belongs into a resource: credentials, and code of some length (seed 003, 提交流程, RS-016)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowhub.knowledge.extraction_model import FoundSecret, Message, ResourceOffer, SecretFinder
from knowhub.knowledge.spoken import READ_CHARS

MAX_OFFERS: Final = 50
_LEAST_CODE_LINES: Final = 10
# As long as the longest credential: what is cut at the end of what is read would be recognised by nobody.
_OVERLAP_CHARS: Final = 4_400
_FENCE: Final = re.compile(r"(?m)^(?:```|~~~)[ \t]*([\w+#.-]*)")
_COOKIE: Final = re.compile(r"(?im)^(?:set-)?cookie:\s*\S+=\S+")


def without_secrets(message: Message, find_secrets: SecretFinder) -> tuple[Message, Sequence[FoundSecret]]:
    """Return a message's beginning with every credential replaced by what may be shown of it, and what was found."""
    text = message.content[: READ_CHARS + _OVERLAP_CHARS]
    found = find_secrets(text)
    parts: list[str] = []
    end = 0
    for secret in found:
        parts += (text[end : secret.start], f"[{secret.pattern}: {secret.redacted}]")
        end = secret.end
    parts.append(text[end:])
    return replace(message, content="".join(parts)[:READ_CHARS]), found


def offers(number: int, message: Message, found: Sequence[FoundSecret]) -> Iterator[ResourceOffer]:
    """Yield what of a message, which is without secrets already, should be saved as a resource."""
    for secret in dict.fromkeys((one.pattern, one.redacted) for one in found):
        title = f"{secret[0]} from a conversation"
        yield _offer("credential", f"credentials/{secret[0]}", title, secret[1], number, message)
    if _COOKIE.search(message.content):
        yield _offer("cookie", "cookies/site", "Cookie from a conversation", "a cookie header", number, message)
    for language, lines in _code_blocks(message.content):
        if lines >= _LEAST_CODE_LINES:
            shown = f"{lines} lines of {language}"
            yield _offer("code", f"code/{language}/snippet", "Code from a conversation", shown, number, message)


def _code_blocks(text: str) -> Iterator[tuple[str, int]]:
    """Yield the language and the number of lines of each block between two fences, in one passage over the text."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        else:
            yield opened[1].lower() or "text", text.count("\n", opened.end(), fence.start()) - 1
            opened = None


def _offer(
    content_type: str, suggested_id: str, title: str, shown: str, number: int, message: Message
) -> ResourceOffer:
    return ResourceOffer(content_type, suggested_id, title, number, message.message_id, shown)
