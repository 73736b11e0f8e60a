"""Texts made comparable: one normal form, its words and characters, and pairs of them as sets of numbers."""

import re
from hashlib import blake2b
from itertools import pairwise
from zlib import crc32

from knowhub.knowledge.heads import normalised_text

COMPARED_CHARS = 16_384
NORMALISED_CHARS = 65_536

# Scripts that are written without spaces: each character is a word. Thai, Lao, Khmer, kana, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_WIDE = re.compile(f"[{_UNSPACED}]")


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
    words = _WORD.findall(normalised_text(text[:COMPARED_CHARS]))
    return frozenset(map(hash, pairwise([crc32(word.encode("utf-8", "surrogatepass")) for word in words])))


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the size of what two sets share over the size of both; 0 where both are empty."""
    shared = len(one & other)
    either = len(one) + len(other) - shared
    return shared / either if either else 0.0


def weight(text: str) -> int:
    """Return how much a text says: its characters, those of scripts without spaces twice."""
    return len(text) + len(_WIDE.findall(text))
