"""What in a conversation belongs into a resource: credentials, and code of some length (seed 003, 提交流程, RS-016)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowhub.core.messages import Message
from knowhub.knowledge.extraction_model import Candidate, FoundSecret, ResourceOffer, SecretFinder
from knowhub.knowledge.spoken import READ_CHARS

MAX_OFFERS: Final = 50
_LEAST_CODE_LINES: Final = 10
# As long as the longest credential: what is cut at the end of what is read would be recognised by nobody.
_OVERLAP_CHARS: Final = 4_400
# What stands where a credential stood: of a longer one the beginning and the end are shown.
_STAND_IN: Final = re.compile(r"\[[a-z_]{1,40}: .{0,8}? \(\d+ characters\)\]")
_FENCE: Final = re.compile(r"(?m)^(?:```|~~~)[ \t]*([\w+#.-]*)")
_COOKIE: Final = re.compile(r"(?im)^(?:set-)?cookie:\s*\S+=\S+")


def without_secrets(message: Message, find_secrets: SecretFinder) -> tuple[Message, Sequence[FoundSecret]]:
    """Return a message's beginning with every credential replaced by what may be shown of it, and what was found."""
    text = message.content[: READ_CHARS + _OVERLAP_CHARS]
    found = find_secrets(text)
    return replace(message, content=_redacted(text, found)[:READ_CHARS]), found


def told_across(
    candidate: Candidate, messages: Sequence[Message], find_secrets: SecretFinder
) -> tuple[Candidate, Sequence[ResourceOffer]]:
    """Return a candidate without the credentials that only several messages tell together, and what to do with them.

    «What is the password?» in one and the answer in the next are nothing; a model makes a sentence of the two.
    """
    offered: list[ResourceOffer] = []
    texts: list[str] = []
    number = candidate.cited[-1]
    for text in (candidate.task, candidate.content):
        found = find_secrets(_STAND_IN.sub(lambda stand_in: " " * len(stand_in[0]), text))
        texts.append(_redacted(text, found))
        offered += offers(number, replace(messages[number], content=""), found)
    return replace(candidate, task=texts[0], content=texts[1]), list(dict.fromkeys(offered))


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


def _redacted(text: str, found: Sequence[FoundSecret]) -> str:
    parts: list[str] = []
    end = 0
    for secret in found:
        parts += (text[end : secret.start], f"[{secret.pattern}: {secret.redacted}]")
        end = secret.end
    return "".join([*parts, text[end:]])


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
