"""Turn text into the terms it is found by; index and query share every rule here."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import add
from typing import Final

import opencc
import rjieba
import Stemmer

from knowhub.search.function_words import CHINESE, ENGLISH

# A word as it is written only breaks ties between words of one stem: at full weight it would count twice.
WRITTEN_FORM_WEIGHT: Final = 0.2

# Longer words (base64, hashes) are cut in pieces, so that no term nears tantivy's 65,530 bytes.
_PIECE_CHARS: Final = 64
_MAX_JOINTS: Final = 8
_HAN: Final = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA: Final = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f"
_HANGUL: Final = "\uac00-\ud7af"
_SOUTH_EAST_ASIAN: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
_UNSPACED: Final = _HAN + _KANA + _HANGUL + _SOUTH_EAST_ASIAN
# `\w` leaves out the vowel signs of Hebrew, Arabic and the scripts of India, which stand inside words.
_SIGNS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"


def _runs_pattern(letter: str, unspaced: str) -> re.Pattern[str]:
    """Build the pattern of two groups: a run of an unspaced script, or a word."""
    piece = rf"{letter}{{1,{_PIECE_CHARS}}}(?:[{_SIGNS}]{{1,4}}{letter}{{0,16}}){{0,16}}"
    if not unspaced:
        piece = rf"{letter}{{1,{_PIECE_CHARS}}}"
    unspaced_run = f"[{unspaced}]+" if unspaced else "(?!)"
    # Alternatives begin with what they consume, so that most places are passed over by their first character.
    # `\b` would see no edge between Han and Latin.
    return re.compile(
        rf"""
        ({unspaced_run})
        | '(?:s|re|ve|ll|d|m)(?![a-z0-9])           # the tail of Newton's and they've is no term
        | (
            \d{{1,3}}(?:,\d{{3}}){{1,8}}(?!\d)         # 1,000
          | \.net(?<![a-z0-9_.]\.net)(?![a-z0-9_])  # .NET
          | {piece}
            (?: \+\+                                # C++
              | \#(?<=[a-z]\#)(?<![a-z0-9_][a-z]\#)(?![a-z0-9_])  # C#, and not issue#12
              | 't(?![a-z0-9])                      # don't
              | (?:[._]{piece}){{1,{_MAX_JOINTS}}}    # node.js, knowledge_slim
            )?
          )
        """,
        re.IGNORECASE | re.VERBOSE | (re.ASCII if not unspaced else re.NOFLAG),
    )


_RUNS: Final = _runs_pattern(rf"[^\W_{_UNSPACED}]", _UNSPACED)
# Plain English is most of what is analysed, and ranges of half of Unicode are slow to look through.
_ASCII_RUNS: Final = _runs_pattern("[A-Za-z0-9]", "")
# Ordinary Chinese needs no NFKC, which would be half the cost of analysing it.
_NOT_PLAIN: Final = re.compile("[^\x00-\x7f\u4e00-\u9fff、。·…「」『』《》，！？：；（）“”—]")
_CONTAINS_HAN: Final = re.compile(f"[{_HAN}]")
_PART: Final = re.compile(r"[^._+]+")
# Where camelCase, HTTPServer and python3 are joined.
_SEAM: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{2}\d")
_BETWEEN_SEAMS: Final = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
# й and the like are letters of their own; only Latin and Greek are also written without accents.
_ACCENTS: Final = re.compile("(?<=[a-zα-ω])[\u0300-\u036f]+")

_to_simplified: Final = opencc.OpenCC("t2s").convert
_stem: Final = Stemmer.Stemmer("english").stemWord


def index_terms(text: str) -> list[str]:
    """List a text's terms in order, repeats kept; no term holds white space."""
    terms: list[str] = []
    if text.isascii():
        # No term spans white space, and the same few thousand words make up most English.
        for chunk in text.split():
            terms += _chunk_terms(chunk) if len(chunk) <= _PIECE_CHARS else _terms_of(chunk)
        return terms
    return _terms_of(_normalise(text))


def query_terms(text: str) -> list[str]:
    """List a query's distinct terms; [] when nothing remains after normalising."""
    return [term for term, _ in weighted_query(text)]


def weighted_query(text: str) -> list[tuple[str, float]]:
    """List a query's distinct terms, each with the factor for its BM25 score.

    A text's score is the sum, over its terms, of weight x BM25. Function words are left out unless the
    query has nothing else; [] finds nothing.
    """
    runs = _split(_normalise(text))
    return _weigh(_content_runs(runs)) or _weigh(runs)


def _normalise(text: str) -> str:
    if text.isascii():
        return text
    if _NOT_PLAIN.search(text):
        # Half a surrogate pair would make opencc raise.
        whole = text.encode("utf-8", "replace").decode()
        text = unicodedata.normalize("NFKC", whole).replace("\u2019", "'")
    return _to_simplified(text) if _CONTAINS_HAN.search(text) else text


def _split(text: str) -> list[tuple[str, str]]:
    """Split into runs, each (run of an unspaced script, "") or ("", word) or two empty strings."""
    return (_ASCII_RUNS if text.isascii() else _RUNS).findall(text)


def _content_runs(runs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for unspaced, word in runs:
        if unspaced:
            # Whole words only: 要 goes, 重要 stays; what stood on either side of a dropped word is no pair.
            pieces = (" " if piece in CHINESE else piece for piece in rjieba.cut(unspaced))
            yield from ((run, "") for run in "".join(pieces).split())
        elif word.lower() not in ENGLISH:
            yield "", word


def _weigh(runs: Iterable[tuple[str, str]]) -> list[tuple[str, float]]:
    weights: dict[str, float] = {}
    for unspaced, word in runs:
        for term in (*unspaced, *map(add, unspaced, unspaced[1:])):
            weights[term] = 1.0
        for term, weight in _weighted_word_terms(word).items() if word else ():
            weights[term] = max(weight, weights.get(term, 0.0))
    return list(weights.items())


@lru_cache(maxsize=32_768)
def _chunk_terms(chunk: str) -> tuple[str, ...]:
    return tuple(_terms_of(chunk))


def _terms_of(text: str) -> list[str]:
    terms: list[str] = []
    for unspaced, word in _split(text):
        if unspaced:
            terms.extend(unspaced)
            terms.extend(map(add, unspaced, unspaced[1:]))
        elif word:
            terms.extend(_word_terms(word))
    return terms


@lru_cache(maxsize=16_384)
def _word_terms(word: str) -> tuple[str, ...]:
    return tuple(_weighted_word_terms(word))


def _weighted_word_terms(word: str) -> dict[str, float]:
    """Weigh a word's terms: the word, when it has parts, and each part's stem and written form."""
    folded = _fold(word)
    parts = _parts(word)
    weights = {} if parts == [folded] else {folded: 1.0}
    for part in parts:
        weights[_stem(part)] = 1.0
        weights.setdefault(part, WRITTEN_FORM_WEIGHT)
    return weights


def _parts(word: str) -> list[str]:
    """Split `knowledge_slim`, `node.js` and `camelCase`; C++ and C# are not C, so they have none."""
    if word[-1] in "+#" and not word[1].isalnum():
        return []
    parts = _PART.findall(word)
    seamed = filter(_SEAM.search, parts)
    inner = [piece for part in seamed for piece in _BETWEEN_SEAMS.findall(part) if len(piece) > 1]
    return [_fold(part) for part in (*parts, *inner)]


def _fold(word: str) -> str:
    """Fold case, accents, and the commas of 1,000."""
    folded = word.casefold().replace(",", "")
    if folded.isascii():
        return folded
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", folded)))
