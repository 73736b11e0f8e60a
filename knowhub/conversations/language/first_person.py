"""Turn what is written about the user into what the user would say."""

import re
from typing import Final

_OF_USER_OWN: Final = re.compile(r"\b(?:the )?user['’]s\b", re.IGNORECASE)
_OF_USER: Final = re.compile(
    r"(?:\b(?:the )?user |^(?=(?:(?:now|currently|no longer) )?(?:lives|works|moved|relocated)\b))"
    r"(?P<adverbs>(?:(?:now|currently|also|still|recently|just|no longer) ){0,2})(?P<verb>\w{1,30})",
    re.IGNORECASE,
)
_VERBS_OF_I: Final = {"is": "am", "has": "have", "does": "do"}


def speak_as_user(text: str) -> str:
    """Return «The user lives in Rome.» as «I live in Rome.»; other texts as they are."""
    return _OF_USER.sub(_speak, _OF_USER_OWN.sub("my", text)).replace("用户", "我")


def _speak(match: re.Match[str]) -> str:
    verb = match["verb"].lower()
    return f"I {match['adverbs'].lower()}{_VERBS_OF_I.get(verb) or verb.removesuffix('s')}"
