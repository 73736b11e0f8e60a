"""Statements about «the user», as a model writes them, in the first person: so the forms of rules read them, too."""

import re
from typing import Final

_OWN: Final = re.compile(r"\b(?:the )?user['’]s\b", re.IGNORECASE)
_ABOUT_USER: Final = re.compile(
    r"(?:\b(?:the )?user |^(?=(?:(?:now|currently|no longer) )?(?:lives|works|moved|relocated)\b))"
    r"(?P<adverbs>(?:(?:now|currently|also|still|recently|just|no longer) ){0,2})(?P<verb>\w{1,30})",
    re.IGNORECASE,
)
_FIRST_PERSON: Final = {"is": "am", "has": "have", "does": "do"}


def speak_as_user(text: str) -> str:
    """Return «The user lives in Rome.» as «I live in Rome.»; other texts as they are."""
    return _ABOUT_USER.sub(_speak, _OWN.sub("my", text)).replace("用户", "我")


def _speak(match: re.Match[str]) -> str:
    verb = match["verb"].lower()
    return f"I {match['adverbs'].lower()}{_FIRST_PERSON.get(verb) or verb.removesuffix('s')}"
