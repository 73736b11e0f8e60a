"""Which keywords a content names, word for word: the candidates to link it to (KT-236, G-27)."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

TokensOf: TypeAlias = Callable[[str], list[str]]
Known: TypeAlias = Callable[[str], bool]

LIMIT: Final = 50

_READ_CHARS: Final = 8_192
_MAX_WORDS: Final = 5
_MAX_UNSPACED: Final = 12
# No name is longer; a longer word is data.
_WORD_CHARS: Final = 200
_UNSPACED: Final = (
    "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\uac00-\ud7af"  # kana, hangul
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
)
_LETTER: Final = rf"[^\W_{_UNSPACED}]"
# Vowel signs and accents stand inside words, and are no letters to `re`.
_WORD: Final = rf"{_LETTER}(?:{_LETTER}|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff])*"
_PIECES: Final = re.compile(
    rf"""
    (?P<unspaced>[{_UNSPACED}]+)
    | (?P<word>
        \d+(?:\.\d+)+                              # 3.11
      | (?<![\w.])\.(?=[a-z]){_WORD}               # .NET
      | {_WORD}(?:
          \+\++ | \+(?![^\W_])                     # C++, A+, and not a+b
        | (?<=[a-z])(?<![^\W{_UNSPACED}].)\#       # C#, and not issue#12
        | (?<=[a-z])(?<![^\W{_UNSPACED}].)\*(?!\*) # A*, and not **bold**
        )?
      )
    | (?P<other>(?!(?<=[^\W_])\+(?=[^\W_]))[^\w\s]) # a symbol, but no plus between two words
    """,
    re.IGNORECASE | re.VERBOSE,
)
# What may stand between the words of one name; a sentence ends, or a list goes on, at everything else.
_JOINT: Final = re.compile(r"[ \t]?(?:[-‐‑_/.&'’·・\n]|[\u200d\ufe0f]{1,2})?[ \t]?")
_SENTENCE_END: Final = re.compile(r"\.\s")


class _Piece(NamedTuple):
    """A word, a symbol, or one character of an unspaced script.

    `opening` is its normal form where it begins a name, `inner` where it goes on with one: `.net` and `net`.
    """

    opening: str
    inner: str
    is_unspaced: bool
    is_alone: bool


def mentioned(content: str, tokens_of: TokensOf, known: Known, limit: int = LIMIT) -> list[str]:
    """List the normal forms that are `known` and stand in the first 8,192 characters, in the order of their place.

    Each once, at most `limit`. A name has up to five words, or up to twelve characters of a script that sets no
    spaces, or both (`Python装饰器`). Words are whole: `java` does not stand in `javascript`. What stands only inside
    a longer name that is known does not count, nor does one Chinese character inside a run of them: 水 is not what
    水平 is about. `tokens_of` gives the normal form of a word or a run; a name's is that of its pieces, joined.
    """
    text = unicodedata.normalize("NFKC", content[:_READ_CHARS])[:_READ_CHARS]
    found: dict[str, None] = {}
    for phrase in _phrases(text, tokens_of):
        for token in _longest(phrase, known):
            found[token] = None
            if len(found) >= limit:
                return list(found)
    return list(found)


def _phrases(text: str, tokens_of: TokensOf) -> Iterator[list[_Piece]]:
    """Yield the stretches that a name may lie within, as pieces."""
    forms: dict[str, str] = {}

    def form(piece: str) -> str:
        if piece not in forms:
            forms[piece] = "".join(tokens_of(piece)[:1])
        return forms[piece]

    phrase: list[_Piece] = []
    end = 0
    for match in _PIECES.finditer(text):
        pieces = _pieces(match, form)
        if not pieces:
            continue
        if phrase and not _joins(text[end : match.start()]):
            yield phrase
            phrase = []
        phrase += pieces
        end = match.end()
    if phrase:
        yield phrase


def _joins(gap: str) -> bool:
    return not gap or (_JOINT.fullmatch(gap) is not None and not _SENTENCE_END.match(gap))


def _pieces(match: re.Match[str], form: Callable[[str], str]) -> list[_Piece]:
    if run := match["unspaced"]:
        whole = form(run)
        # Normal forms of whole runs keep their length, but for a few compatibility characters.
        chars = list(whole) if len(whole) == len(run) else [form(char) for char in run]
        return [_Piece(char, char, is_unspaced=True, is_alone=len(run) == 1) for char in chars]
    text = match[0]
    opening = form(text) if len(text) <= _WORD_CHARS else ""
    if not opening:
        return []
    inner = opening.strip(".*") if text[0] == "." or text[-1] == "*" else opening
    return [_Piece(opening, inner, is_unspaced=False, is_alone=True)]


def _longest(phrase: list[_Piece], known: Known) -> Iterator[str]:
    """Yield the longest known name that begins at each piece, unless it ends inside one that began before."""
    joined = "".join(piece.inner for piece in phrase)
    offsets = list(accumulate((len(piece.inner) for piece in phrase), initial=0))
    covered = 0
    for start, (piece, reach) in enumerate(zip(phrase, _reaches(phrase), strict=True)):
        # Where a name begins is told from where it goes on by few pieces; the others need no second string.
        opening = "" if piece.opening == piece.inner else piece.opening
        begin = offsets[start + 1] if opening else offsets[start]
        shortest = start if piece.is_alone else start + 1
        for end in range(reach, max(covered, shortest), -1):
            token = opening + joined[begin : offsets[end]]
            if known(token):
                covered = end
                yield token
                break


def _reaches(phrase: list[_Piece]) -> Iterator[int]:
    """Yield, for each piece, where the longest name that could begin with it would end."""
    end = words = unspaced = 0
    for piece in phrase:
        while end < len(phrase):
            is_unspaced = phrase[end].is_unspaced
            if (unspaced == _MAX_UNSPACED) if is_unspaced else (words == _MAX_WORDS):
                break
            unspaced += is_unspaced
            words += not is_unspaced
            end += 1
        yield end
        unspaced -= piece.is_unspaced
        words -= not piece.is_unspaced
