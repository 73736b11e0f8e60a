"""Words that look made up by a program or for a login, on a line that speaks of credentials."""

import re
from collections.abc import Iterator
from typing import Final

from knowhub.conversations.secrets.names import KEY_ZH, METHOD, PASSWORD, PASSWORD_ZH

_CUE: Final = re.compile(
    r"pass(?!e[ds]|ing|age|port|ive)|pwd|secret|token|credential|log-?in|bearer|auth|(?<![a-z])key|identified by"
    rf"|redis-cli|{PASSWORD_ZH}|{KEY_ZH}|登录|登陆|登錄|账号|帐号|帳號|账密",
    re.IGNORECASE,
)
# Behind one of these a shorter word with letters and figures will do, in the same line.
_PASSWORD: Final = re.compile(
    rf"\b(?:{PASSWORD})s?\b(?! (?:manager|polic|rules?|hash|length|strength))|\bpw\b|\bpass for\b"
    rf"|\bwi-?fi (?:key|code)\b|\blog-?in (?:for|of|to|at)\b|(?:{PASSWORD_ZH})(?![学本])",
    re.IGNORECASE,
)
# How far from a credential such a word may be, in characters.
_BEFORE_CHARS: Final = 60
_AFTER_CHARS: Final = 40
_VALUE: Final = re.compile(r"[A-Za-z0-9!#$%&*+./?@^_~-]{6,}+")
_MIN_RANDOM_CHARS: Final = 8
_LONG_CHARS: Final = 20
# More changes between letters and figures than a version or a room has.
_MANY_CHANGES: Final = 4
_SIGN: Final = re.compile(r"[!#$%&*+?@^~]")
_CHOSEN: Final = re.compile(r"[0-9]|[!#$%&*+?@^~].")
# «AES-256», «iPhone15», «TP-Link-C7», «12MB», «read/write»: methods, products, measures and pairs.
_METHOD: Final = re.compile(
    rf"\A(?:{METHOD}|(?:oauth|1password|iso|rfc|http|ipv|wpa|tls)[-_]?\d|\w{1, 20}[/@]\w{1, 20}$|\d+[-a-z]{1, 12}$"
    r"|[a-z]{1,20}\d{1,2}$|(?:\w{1,20}-){1,3}\w{1,2}$|\w{0,40}passw|[^=&$]{0,60}[=&$])",
    re.IGNORECASE,
)
_FIGURE: Final = re.compile(r"[0-9]")
_LETTER_BESIDE_FIGURE: Final = re.compile(r"(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]")
# Checksums and ids in hexadecimal, versions, dates, addresses of machines and people, paths and options.
_ORDINARY: Final = re.compile(
    r"\A(?:(?:\w-\w)+|\d{4}-\d\d-\d\d.*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[0-9A-Fa-f-]+|v?\d++(?:\.\d++)++[\w.-]*+"
    r"|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[./~-].*|sha\d+-.*|knowledge-\d{8}-\w+)\Z"
)
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|.")
_NAME_FIGURES: Final = 4
_MIN_WORD_CHARS: Final = 3


def find_random_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each word that may be a credential: a cue is near it."""
    for match in _VALUE.finditer(text):
        value = match[0].rstrip(".?,")
        if value.isalpha() and len(value) < _LONG_CHARS:
            continue
        start, end = match.start(), match.start() + len(value)
        if _is_mixed(value) and _PASSWORD.search(
            text, max(text.rfind("\n", 0, start), start - _BEFORE_CHARS, 0), start
        ):
            yield start, end
        if len(value) < _MIN_RANDOM_CHARS or not looks_random(value):
            continue
        if _CUE.search(text, max(0, start - _BEFORE_CHARS), start) or _CUE.search(text, end, end + _AFTER_CHARS):
            yield start, end


def _is_mixed(value: str) -> bool:
    """Return whether a word has letters, and a figure or a sign, as people choose them: «Cr0issant!», «tomcat9»."""
    has_letter = any(char.isalpha() for char in value)
    return has_letter and _CHOSEN.search(value) is not None and not (_ORDINARY.match(value) or _METHOD.match(value))


def looks_random(value: str) -> bool:
    """Return whether a word is no ordinary name, number or path: it has figures or signs, or is long and irregular."""
    is_mixed = not value.islower() and not value.isupper()
    if "//" in value or _ORDINARY.match(value) or _is_name(value) or not any(char.isalpha() for char in value):
        return False
    if is_mixed and len(value) >= _LONG_CHARS:
        return True
    if _FIGURE.search(value) is None:
        return False
    return is_mixed or _SIGN.search(value) is not None or len(_LETTER_BESIDE_FIGURE.findall(value)) >= _MANY_CHANGES


def _is_name(value: str) -> bool:
    """Return whether a word consists of words of at least two letters, such as `OAuth2Client` and `build_12`."""
    parts = _PART.findall(value)
    numbers = [part for part in parts if part.isdigit()]
    words = [part for part in parts if not part.isdigit() and part not in "._-"]
    # Many short words are no name: «jkEModJeFjvKQRRQDlc».
    is_wordy = len(words) < _MANY_CHANGES or len("".join(words)) >= _MIN_WORD_CHARS * len(words)
    return (
        is_wordy
        and all(len(word) > 1 for word in words)
        and len(numbers) <= 1
        and len("".join(numbers)) <= _NAME_FIGURES
    )
