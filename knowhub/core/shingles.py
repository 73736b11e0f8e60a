"""Texts made comparable: one normal form, its words and characters, and pairs of them as sets of numbers."""

import re
import unicodedata
from hashlib import blake2b
from itertools import pairwise
from zlib import crc32

COMPARED_CHARS = 16_384
NORMALISED_CHARS = 65_536

# Scripts that are written without spaces: each character is a word. Thai, Lao, Khmer, kana, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SPACED = re.compile(rf"[^\W{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]{{2,}}")
_TELLING_WORDS, _LONGEST_TELLING = 8, 40
_TELLING_RUNS, _RUN_CHARS = 4, 8
_WIDE = re.compile(f"[{_UNSPACED}]")
# Full-width and half-width forms, and the wide space. What else NFKC folds, as a raised 2 into a 2, says another thing.
_WIDTHS = {code: unicodedata.normalize("NFKC", chr(code)) for code in (0x3000, *range(0xFF01, 0xFFEF))}


def normalised_text(text: str) -> str:
    """Fold width, case and white space: what a person would call the same text."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def width_folded(text: str) -> str:
    """Fold width alone, which no reader takes for another text: case and white space stay as they are."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_WIDTHS))


def digest(text: str) -> bytes:
    """Hash what a person would call the same text.

    Width, case and white space are folded in the first 65,536 characters; beyond them the text counts as it is.
    """
    head, rest = normalised_text(text[:NORMALISED_CHARS]), text[NORMALISED_CHARS:]
    return blake2b(f"{head}\x1f{rest}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def shingles(text: str) -> frozenset[int]:
    """Return the pairs of neighbouring words of the first 16,384 characters, as numbers.

    A word of a script without spaces is one character. The numbers are the same in every process: they are hashes
    of integers, which Python does not salt.
    """
    found = _words(text)
    return frozenset(map(hash, pairwise([crc32(word.encode("utf-8", "surrogatepass")) for word in found])))


def words(text: str) -> frozenset[str]:
    """Return the different words of the first 16,384 characters."""
    return frozenset(_words(text))


def telling_words(text: str) -> str:
    """Return the longest words of the first 16,384 characters, as a short query that finds texts like this one.

    Long words are rare ones, and of two texts that are nearly the same most are in both. Of a script without spaces the
    beginnings of the longest runs stand for words.
    """
    folded = normalised_text(text[:COMPARED_CHARS])
    spaced = {word for word in _SPACED.findall(folded) if len(word) <= _LONGEST_TELLING}
    runs = {run[:_RUN_CHARS] for run in _UNSPACED_RUN.findall(folded)}
    return " ".join((*_longest(spaced, _TELLING_WORDS), *_longest(runs, _TELLING_RUNS)))


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the size of what two sets share over the size of both; 0 where both are empty."""
    shared = len(one & other)
    either = len(one) + len(other) - shared
    return shared / either if either else 0.0


def weight(text: str) -> int:
    """Return how much a text says: its characters, those of scripts without spaces twice."""
    return len(text) + len(_WIDE.findall(text))


def _longest(found: set[str], most: int) -> list[str]:
    return sorted(found, key=lambda one: (-len(one), one))[:most]


def _words(text: str) -> list[str]:
    return _WORD.findall(normalised_text(text[:COMPARED_CHARS]))
