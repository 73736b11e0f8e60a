"""What looks like a secret in a text that is saved, and where it belongs."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from knowhub.conversations.secrets import find_secrets, pieces

# A longer text is searched in a thread.
_SEARCHED_AT_ONCE = 20_000
_MOST_WARNINGS = 20
_ADVICE = (
    "{field} has what looks like a secret ({pattern}, at character {start}). It is stored as it was sent. "
    "Save it as the secure_body of a resource, which is encrypted, and name that resource here."
)


async def find_warnings(texts: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Return the field `warnings` of an answer: a `field` and a `message` for each secret in texts, at most 20.

    Without a secret, there is no such field.
    Other values than texts are passed over. No message contains any part of a secret.
    """
    long = sum(len(text) for text in texts.values() if isinstance(text, str)) > _SEARCHED_AT_ONCE
    warnings = await asyncio.to_thread(_find_all, texts) if long else _find_all(texts)
    return {"warnings": warnings} if warnings else {}


def _find_all(texts: Mapping[str, Any]) -> list[dict[str, str]]:
    warnings: list[dict[str, str]] = []
    for field, text in texts.items():
        for pattern, start in _find(text) if isinstance(text, str) else ():
            if len(warnings) == _MOST_WARNINGS:
                return warnings
            message = _ADVICE.format(field=field, pattern=pattern.replace("_", " "), start=start)
            warnings.append({"field": field, "message": message})
    return warnings


def _find(text: str) -> Iterator[tuple[str, int]]:
    end = -1
    for piece, offset in pieces(text):
        for secret in find_secrets(piece, offset):
            # Pieces overlap.
            if secret.start >= end:
                yield secret.pattern, secret.start
                end = secret.end
