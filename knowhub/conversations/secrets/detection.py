"""Credentials in text: their position and kind, never their value."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from knowhub.conversations.secrets.patterns import PATTERNS, PLACEHOLDER, PRIVATE_KEY, SPOKEN_PATTERNS, SecretPattern
from knowhub.conversations.secrets.plain_words import PLAIN_PATTERNS
from knowhub.conversations.secrets.random_words import find_random_words, looks_random
from knowhub.core.unicode_forms import shorten

PIECE_CHARS = 16_384
OVERLAP_CHARS = 2_048
"""So long are credentials of several words, with the name before them. Only private keys are longer."""
# The patterns read so much of a value. A longer one is covered to the end of its word.
_READ_VALUE_CHARS = 256
_REST_OF_VALUE = re.compile(r"[^\s\"'`\\<>,;，。；]{0,65536}")
_REST_OF_WORD = re.compile(r"[!-~]{0,65536}")
_SHOWN_FROM_CHARS = 12
_CLOSING = "\"'`“”‘’」,;，。；、)）]}"
# `${PASSWORD}`, `<password>`, `%(password)s`: the name of a value, which is elsewhere.
_TEMPLATE = re.compile(r"[$%]?[{<(]")
_FIGURE_OR_SIGN = re.compile(r"[0-9!@#%^&*+=?~]")

COVER = "\ufffc"
"""Replaces a credential. No sentence or word ends at this character."""


@dataclass(frozen=True, slots=True)
class DetectedSecret:
    """A credential at `start` to `end` of a text. It does not hold it: what names a secret may come into a log."""

    pattern: str
    start: int
    end: int
    redacted: str


_SURE_HINTS = {hint for pattern in (*PATTERNS, *PLAIN_PATTERNS) for hint in pattern.hints}
_HINTS = _SURE_HINTS.union(*(pattern.hints for pattern in SPOKEN_PATTERNS))
# A text with `api key` has `key` too.
_SHORTEST_HINTS = sorted(hint for hint in _SURE_HINTS if not any(other in hint for other in _SURE_HINTS - {hint}))


def has_secret_hint(text: str) -> bool:
    """Return whether a text has any of the words without which `find_secrets` finds nothing."""
    lowered = text.lower()
    for hint in _SHORTEST_HINTS:  # noqa: SIM110 -- a generator would cost more than all the comparisons of a short text
        if hint in lowered:
            return True
    return False


def find_secrets(text: str, offset: int = 0, max_count: int | None = 20) -> list[DetectedSecret]:
    """Return the first `max_count` credentials in a text, or all, in text order; none overlap.

    `offset` is where the text begins in the whole that the positions shall refer to.
    """
    found = _list_matches(text, (*PATTERNS, *PLAIN_PATTERNS), offset, is_sure=True)
    return _join_overlapping(text, found, offset)[:max_count]


def find_possible_secrets(text: str) -> list[DetectedSecret]:
    """Return every credential in what somebody says, and what may be one: it is to go nowhere.

    The audit shows what it is sure of; here a password that is kept costs more than a word that is left out.
    """
    words = [DetectedSecret("password", at, end, _mask_value(text[at:end])) for at, end in find_random_words(text)]
    matches = _list_matches(text, (*PATTERNS, *SPOKEN_PATTERNS, *PLAIN_PATTERNS), 0, is_sure=False)
    return _join_overlapping(text, [*matches, *words])


def _list_matches(text: str, patterns: Sequence[SecretPattern], offset: int, *, is_sure: bool) -> list[DetectedSecret]:
    lowered = text.lower()
    hints = {hint for hint in _HINTS if hint in lowered}
    tried = [pattern for pattern in patterns if not hints.isdisjoint(pattern.hints)]
    return [secret for pattern in tried for secret in _iter_matches(pattern, text, offset, is_sure=is_sure)]


def _join_overlapping(text: str, found: list[DetectedSecret], offset: int = 0) -> list[DetectedSecret]:
    """Return what was found in text order; what begins inside another belongs to that."""
    found.sort(key=lambda item: (item.start, -item.end))
    joined: list[DetectedSecret] = []
    for secret in found:
        if not joined or secret.start >= joined[-1].end:
            joined.append(secret)
        elif secret.end > joined[-1].end:
            start, end = joined[-1].start, secret.end
            joined[-1] = replace(joined[-1], end=end, redacted=_mask_value(text[start - offset : end - offset]))
    return joined


def contains_secret(text: str) -> bool:
    """Return whether a text holds what may be a credential."""
    return next(_iter_possible(text), None) is not None


def cover_secrets(text: str) -> str:
    """Return a text with each credential replaced by COVER.

    Do this before the text is split into sentences: no sentence holds the whole of a key of several lines.
    """
    return _replace_spans(text, ((start, end, COVER) for start, end, _ in _iter_possible(text)))


_ESCAPED = re.compile(r"\\(?:\\|n|\")")


def redact_secrets(text: str) -> str:
    """Return a text with each credential replaced by its kind, such as `[password]`, before it leaves for a model.

    A word too many is left out rather than a secret sent. Quotes and line breaks may be escaped, as in JSON.
    """
    spans = [*_iter_possible(text), *(_iter_escaped(text) if "\\" in text else ())]
    return _replace_spans(text, ((start, end, f"[{kind}]") for start, end, kind in spans))


def _iter_escaped(text: str) -> Iterator[tuple[int, int, str]]:
    """Remove the escapes of a text, and yield the start, end and kind of each possible credential.

    Start and end are positions in the text with its escapes.
    """
    plain = _ESCAPED.sub(lambda escape: "\n" if escape[0] == "\\n" else escape[0][1:], text)
    # Where in the plain text an escape was, each longer by one character.
    escapes = [match.start() - number for number, match in enumerate(_ESCAPED.finditer(text))]
    for start, end, kind in _iter_possible(plain):
        yield start + bisect_left(escapes, start), end + bisect_left(escapes, end), kind


def _replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with a mark in place of each span: its start, its end and the mark. Overlapping spans share one."""
    parts: list[str] = []
    shown_to = 0
    for start, end, mark in sorted(spans):
        if end > shown_to:
            parts += (text[shown_to:start], mark) if start >= shown_to else ()
            shown_to = end
    return "".join([*parts, text[shown_to:]])


def _iter_possible(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and kind of possible credentials. Pieces overlap, so some are yielded twice."""
    for piece, offset in cut_pieces(text):
        for secret in find_possible_secrets(piece):
            yield offset + secret.start, offset + secret.end, secret.pattern


def cut_pieces(text: str) -> Iterator[tuple[str, int]]:
    """Cut a long text into pieces with their offsets, each short enough to be searched within a turn.

    They overlap, so that what is cut in one of them is whole in the next.
    """
    start, end = 0, 0
    while end < len(text):
        end = find_cut(text, start, start + PIECE_CHARS)
        yield text[start:end], start
        start = end - OVERLAP_CHARS


def find_cut(text: str, start: int, end: int) -> int:
    """Return where to cut off a text: at `end`, or behind it where that is in a word or in a private key.

    The key is found if it begins behind `start`.
    """
    header = text.rfind("-----BEGIN ", start, end)
    key = PRIVATE_KEY.expression.match(text, header) if header >= 0 else None
    end = max(end, key.end() if key else 0)
    return min(end + len(_get_match(_REST_OF_WORD, text, end)), len(text))


def _get_match(pattern: re.Pattern[str], text: str, start: int) -> str:
    match = pattern.match(text, start)
    return match[0] if match else ""


def mask_secrets(text: str) -> str:
    """Return a text with every credential in it replaced by what may be shown of it."""
    found = find_secrets(text, max_count=None)
    return _replace_spans(text, ((item.start, item.end, f"[{item.pattern}: {item.redacted}]") for item in found))


def make_excerpt(text: str, chars: int = 120) -> str:
    """Return the beginning of a text on one line, without credentials."""
    # Far more is searched than is shown: a credential that is cut is none any more.
    shown = " ".join(mask_secrets(text[:PIECE_CHARS]).split())
    return shorten(shown, chars)


def _iter_matches(pattern: SecretPattern, text: str, offset: int, *, is_sure: bool) -> Iterator[DetectedSecret]:
    for match in pattern.expression.finditer(text):
        start, value = match.start("secret"), match["secret"]
        if _TEMPLATE.match(value):
            continue
        # A full stop ends the sentence, and is seldom the end of a password.
        value = value.rstrip(".")
        if pattern.is_chosen:
            value = value.rstrip(_CLOSING) if "(" not in value else value
            if not _is_chosen(value):
                continue
        elif (is_sure and value.endswith("EXAMPLE")) or not (pattern.is_valid is None or pattern.is_valid(value)):
            # The key of Amazon's own manuals, or a number of another kind.
            continue
        if len(value) >= _READ_VALUE_CHARS:
            value += _get_match(_REST_OF_VALUE, text, start + len(value))
        yield DetectedSecret(pattern.name, offset + start, offset + start + len(value), _mask_value(value))


def _is_chosen(value: str) -> bool:
    """Return whether somebody may have chosen this, or a program made it: it is no plain word or placeholder."""
    if len(value) < 6 or PLACEHOLDER.search(value):  # noqa: PLR2004 -- as short as passwords come
        return False
    letters = any(char.isalpha() for char in value)
    return letters and (_FIGURE_OR_SIGN.search(value) is not None or looks_random(value))


def _mask_value(value: str) -> str:
    # Of a short one, four characters would be half of it.
    beginning, end = (value[:2], value[-2:]) if len(value) >= _SHOWN_FROM_CHARS else ("", "")
    return f"{beginning}…{end} ({len(value)} characters)"
