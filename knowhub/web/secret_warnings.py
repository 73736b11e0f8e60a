"""Warnings of what looks like a secret in a text that is saved."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from knowhub.conversations.secrets.detection import cut_pieces, find_secrets, has_secret_hint

# A longer text is searched for secrets in a thread.
_SEARCHED_AT_ONCE: Final = 20_000
_MAX_WARNINGS: Final = 20
_ADVICE: Final = (
    "{field} has what looks like a secret ({pattern}, at character {start}). It is stored as it was sent. "
    "Save it as the secure_body of a resource, which is encrypted, and name that resource here."
)


async def find_warnings(texts: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Return the field `warnings` of an answer: a `field` and a `message` for each secret in texts, at most 20.

    Without a secret, there is no such field. Other values than texts are passed over. No message contains any part of
    a secret.
    """
    searched = {field: text for field, text in texts.items() if isinstance(text, str)}
    if sum(map(len, searched.values())) > _SEARCHED_AT_ONCE:
        warnings = await asyncio.to_thread(_list_warnings, searched)
    elif has_secret_hint("\n".join(searched.values())):
        warnings = _list_warnings(searched)
    else:
        return {}
    return {"warnings": warnings} if warnings else {}


def _list_warnings(texts: Mapping[str, str]) -> list[dict[str, str]]:
    warnings: list[dict[str, str]] = []
    for field, text in texts.items():
        end = -1
        for piece, offset in cut_pieces(text):
            for secret in find_secrets(piece, offset):
                # Pieces overlap.
                if secret.start >= end:
                    end, pattern = secret.end, secret.pattern.replace("_", " ")
                    message = _ADVICE.format(field=field, pattern=pattern, start=secret.start)
                    warnings.append({"field": field, "message": message})
            if len(warnings) >= _MAX_WARNINGS:
                return warnings[:_MAX_WARNINGS]
    return warnings
