"""The known names that a text mentions."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from knowhub.core.unicode_forms import normalize

NameKeysOf: TypeAlias = Callable[[str], list[str]]
Known: TypeAlias = Callable[[str], bool]
WordsOf: TypeAlias = Callable[[str], list[str]]

LIMIT: Final = 50

READ_CHARS: Final = 8_192
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
# Vowel signs and accents occur inside words, and `re` does not count them as letters.
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
# Characters allowed between the words of one name; anything else ends the name.
_JOINT: Final = re.compile(r"[ \t]?(?:[-‐‑_/.&'’·・\n]|[\u200d\ufe0f]{1,2})?[ \t]?")
_SENTENCE_END: Final = re.compile(r"\.\s")
_MIN_PLURAL: Final = 4
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Mention:
    """A known name in a text: its normal form, and the word as it is spelt if it is one word.

    `is_part` is set for two Chinese characters that are no word of their own there, as 关键 in 网关键盘.
    """

    name_key: str
    word: str
    is_part: bool = False


class _Segment(NamedTuple):
    """A word, a symbol, or a character of a script without spaces.

    `opening` is its normal form at the beginning of a name, `inner` within a name: `.net` and `net`. `text` is a word
    as it is spelt.
    """

    opening: str
    inner: str
    is_unspaced: bool
    is_alone: bool
    text: str = ""


def count_unread(content: str) -> int:
    """Return how many characters at the end of a text are not searched for names."""
    return max(0, len(content) - READ_CHARS)


def find_names(content: str, name_keys_of: NameKeysOf, known: Known, limit: int = LIMIT) -> list[str]:
    """List the normal forms of `find_mentions`."""
    return [mention.name_key for mention in find_mentions(content, name_keys_of, known, limit)]


def find_mentions(
    content: str, name_keys_of: NameKeysOf, known: Known, limit: int = LIMIT, words_of: WordsOf = list
) -> list[Mention]:
    """List the known names in the first 8,192 characters, each once, in text order.

    A name has up to five words, or up to twelve characters of a script without spaces, or both (`Python装饰器`). Words
    match as a whole: `java` is not in `javascript`. A name inside a longer known name does not count, nor does a
    single Chinese character inside a run: 水 is not in 水平. An English plural is its singular. `words_of` splits a
    phrase into words, for `Mention.is_part`; by default each character is one.
    """
    text = normalize("NFKC", content[:READ_CHARS])[:READ_CHARS]
    found: dict[str, Mention] = {}
    for phrase in _split_into_phrases(text, name_keys_of):
        for mention in _match_phrase(phrase, known, words_of):
            found.setdefault(mention.name_key, mention)
            if len(found) >= limit:
                return list(found.values())
    return list(found.values())


def _split_into_phrases(text: str, name_keys_of: NameKeysOf) -> Iterator[list[_Segment]]:
    """Yield the phrases that may contain a name; punctuation separates them."""
    forms: dict[str, str] = {}

    def form(piece: str) -> str:
        if piece not in forms:
            forms[piece] = "".join(name_keys_of(piece)[:1])
        return forms[piece]

    phrase: list[_Segment] = []
    end = 0
    for match in _PIECES.finditer(text):
        pieces = _make_segments(match, form)
        if not pieces:
            continue
        gap = text[end : match.start()]
        if phrase and gap and (_JOINT.fullmatch(gap) is None or _SENTENCE_END.match(gap)):
            yield phrase
            phrase = []
        phrase += pieces
        end = match.end()
    if phrase:
        yield phrase


def _make_segments(match: re.Match[str], form: Callable[[str], str]) -> list[_Segment]:
    if run := match["unspaced"]:
        whole = form(run)
        # A few compatibility characters change the length of a run.
        chars = list(whole) if len(whole) == len(run) else [form(char) for char in run]
        return [_Segment(char, char, is_unspaced=True, is_alone=len(run) == 1) for char in chars]
    text = match[0]
    opening = form(text) if len(text) <= _WORD_CHARS else ""
    if not opening:
        return []
    inner = opening.strip(".*") if text[0] == "." or text[-1] == "*" else opening
    return [_Segment(opening, inner, is_unspaced=False, is_alone=True, text=text)]


def _match_phrase(phrase: list[_Segment], known: Known, words_of: WordsOf) -> Iterator[Mention]:
    """Yield the longest known name at each segment, unless it ends inside an earlier match."""
    joined = "".join(piece.inner for piece in phrase)
    offsets = list(accumulate((len(piece.inner) for piece in phrase), initial=0))
    covered = 0
    for start, (piece, reach) in enumerate(zip(phrase, _list_limits(phrase), strict=True)):
        opening = "" if piece.opening == piece.inner else piece.opening
        begin = offsets[start + 1] if opening else offsets[start]
        shortest = start if piece.is_alone else start + 1
        for end in range(reach, max(covered, shortest), -1):
            name_key = opening + joined[begin : offsets[end]]
            is_known = known(name_key)
            if not is_known and _is_plural(phrase[end - 1].text):
                name_key = name_key[:-1]
                is_known = known(name_key)
            if is_known:
                covered = end
                is_pair = len(name_key) == _PAIR and end == start + _PAIR and piece.is_unspaced
                is_part = is_pair and _is_part_of_word(words_of(joined), begin)
                yield Mention(name_key, piece.text if end == start + 1 else "", is_part)
                break


def _is_part_of_word(words: list[str], begin: int) -> bool:
    """Return whether two characters from `begin` on are neither a word nor half of a compound such as 事务处理."""
    end = 0
    for word in words:
        start, end = end, end + len(word)
        if end > begin:
            is_at_edge = begin == start or begin + _PAIR == end
            return not (begin + _PAIR <= end and is_at_edge and len(word) - _PAIR != 1)
    return False


def _is_plural(word: str) -> bool:
    return len(word) >= _MIN_PLURAL and word.isascii() and word.endswith("s") and not word.endswith("ss")


def _list_limits(phrase: list[_Segment]) -> Iterator[int]:
    """Yield, for each segment, where the longest possible name would end."""
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
