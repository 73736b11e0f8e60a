"""Text analysis: the terms of a text. Index and query share every rule here."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import add
from typing import Final

import opencc
import rjieba
import Stemmer

from knowhub.core.unicode_forms import normalize

_ENGLISH: Final = """
    a an the this that these those there here
    and or but nor so yet if then else than because while whereas although though unless until
    of in on at by for with about against between into through during before after above below
    to from up down out off over under again further as per via upon within without toward towards
    among across along around since
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    one ones someone something anyone anything everyone everything
    what which who whom whose when where why how whether
    am is are was were be been being have has had having do does did doing done
    can could may might must shall should will would ought cannot
    isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't
    can't couldn't mustn't shan't shouldn't won't wouldn't ain't
    not no very too just also only even ever both each either neither such some any all own same
    other another more most much many few
    please let lets get got like need want tell show give help
    hi hello hey thanks thank
"""

_CHINESE: Final = """
    的 了 吗 呢 吧 啊 呀 嘛 哦 啦 么 着 过 地 得 之 所 者
    是 为 在 有 和 与 及 或 而 并 且 也 都 就 又 还 很 才 却 则 但
    不 没 没有 别
    把 被 让 给 对 从 向 到 由 于 以 因 用 其
    我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱们 自己
    这 那 此 该 这个 那个 这些 那些 这样 那样 这里 那里 这种 那种
    什么 甚么 啥 什么样 什么时候 时候 怎么 怎样 怎么样 怎么办 如何 为什么 为何 为啥
    何 何时 何地 何处 何年 何种 何人 何事 何者 谁
    哪 哪个 哪些 哪里 哪儿 哪位 哪种 哪一 哪一个 哪一年 哪一天
    哪年 哪天 哪国 哪部 哪座 哪家 哪条 哪项 哪首 哪支 哪本
    哪月 哪周 哪日 哪次 哪件 哪张 哪间 哪行 哪版 哪几天 哪几个
    几 几个 几年 几月 几号 几日 几天 几周 几点 几次 几位 几岁 几条 几件 几张 几家 几本 几种
    多少 多大 多久 多长
    是否 能否 可否 有没有 是不是 能不能 可不可以 会不会 要不要
    能 能够 可以 会 要 想 需要 应该 应 可 请 请问 一下 一个 一些
    里面 外面 上面 下面 前面 后面 之前 之后 以前 以后 之间 之内 以内 之外 以外 期间
    以及 或者 还是 并且 而且 但是 因为 所以 如果 虽然 关于 对于 由于
"""

ENGLISH: Final = frozenset(_ENGLISH.split())
CHINESE: Final = frozenset(_CHINESE.split())


_convert: Final = opencc.OpenCC("t2s").convert


def simplify(text: str) -> str:
    """Convert traditional to simplified Chinese of the same length; half surrogate pairs become question marks."""
    if text.isascii():
        return text
    whole = text.encode("utf-8", "replace").decode()
    found = _convert(whole)
    # If the length changes, convert character by character.
    return found if len(found) == len(whole) else "".join(_convert(char)[:1] or char for char in whole)


# A character inside a longer word says less than one that is a word: 目 of 目前 is also in 项目.
PART_OF_WORD_WEIGHT: Final = 0.5
# The written form of a word only breaks ties between words of one stem.
WRITTEN_FORM_WEIGHT: Final = 0.2

# Longer words (base64, hashes) are split, as tantivy limits a term to 65,530 bytes.
_PIECE_CHARS: Final = 64
_MAX_JOINTS: Final = 8
_MAX_JOINED_WORDS: Final = 8
# A longer text is analysed in segments of a few milliseconds, split between terms.
_SLICE_CHARS: Final = 16_384
_BETWEEN_TERMS: Final = frozenset(' \t\r\n，。！？；：、…"[]{}()<>|;:=&*/\\')
_LOOKED_BACK: Final = 256
HAN: Final = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA: Final = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f"
_HANGUL: Final = "\uac00-\ud7af"
_SOUTH_EAST_ASIAN: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
_UNSPACED: Final = HAN + _KANA + _HANGUL + _SOUTH_EAST_ASIAN
# Vowel signs of Hebrew, Arabic and Indic scripts are parts of words, but `\w` does not match them.
_SIGNS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"


_LETTER: Final = rf"[^\W_{_UNSPACED}]"
_PIECE: Final = rf"{_LETTER}{{1,{_PIECE_CHARS}}}(?:[{_SIGNS}]{{1,4}}+{_LETTER}{{0,16}}+){{0,16}}+"
# Two groups: a run of an unspaced script, or a word. Alternatives begin with what they consume, so that most places are
# passed over by their first character. `\b` would see no edge between Han and Latin.
_RUNS: Final = re.compile(
    rf"""
    ([{_UNSPACED}]+)
    | '(?:s|re|ve|ll|d|m)(?![a-z0-9])           # the tail of Newton's and they've is no term
    | (
        \d{{1,3}}(?:,\d{{3}}){{1,8}}(?!\d)         # 1,000
      | \.net(?<![a-z0-9_.]\.net)(?![a-z0-9_])  # .NET
      | {_PIECE}
        (?: \+\+                                # C++
          | \#(?<=[a-z]\#)(?<![a-z0-9_][a-z]\#)(?![a-z0-9_])  # C#, and not issue#12
          | 't(?![a-z0-9])                      # don't
          | (?:[._]{_PIECE}){{1,{_MAX_JOINTS}}}    # node.js, knowledge_slim
        )?
      )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_UNSPACED_CHAR: Final = re.compile(f"[{_UNSPACED}]")
_UNSPACED_TERM_WORDS: Final = 1 / 6
# Ordinary Chinese needs no NFKC, which would be half the cost of analysing it.
_NOT_PLAIN: Final = re.compile("[^\x00-\x7f\u4e00-\u9fff、。·…「」『』《》，！？：；（）“”—]")
_CONTAINS_HAN: Final = re.compile(f"[{HAN}]")
_PART: Final = re.compile(r"[^._+]+")
# Where camelCase, HTTPServer and python3 are joined.
_SEAM: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{2}\d")
_BETWEEN_SEAMS: Final = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
# й and the like are letters of their own; only Latin and Greek are also written without accents.
_ACCENTS: Final = re.compile("(?<=[a-zα-ω])[\u0300-\u036f]+")

_stem: Final = Stemmer.Stemmer("english").stemWord


def index_terms(text: str) -> list[str]:
    """List the terms of a text in order, with repeats."""
    return [term for terms in iterate_terms(text) for term in terms]


def iterate_terms(text: str) -> Iterator[list[str]]:
    """Yield the terms of a text in order, with repeats, in parts of some thousand terms."""
    return map(_index_segment, _split_text(text))


def query_terms(text: str) -> list[str]:
    """List the distinct terms of a query."""
    return [term for term, _ in weight_terms(text)]


# One request asks for the terms of its query many times.
@lru_cache(maxsize=32)
def weight_terms(text: str) -> tuple[tuple[str, float], ...]:
    """List the distinct terms of a query with the factor of their BM25 score.

    Function words are dropped unless the query has nothing else. No term finds nothing.
    """
    runs = _split(_normalize_text(text))
    return _weigh(_drop_function_words(runs)) or _weigh(runs)


def count_words(term: str) -> float:
    """Return what part of a word a term is: two Han words are four characters and the pairs of their neighbours."""
    return _UNSPACED_TERM_WORDS if _UNSPACED_CHAR.match(term) else 1.0


def _split_text(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        stop = min(start + _SLICE_CHARS, len(text))
        if stop < len(text):
            # If there is no separator in 256 characters, the word is split.
            stop = next((at for at in range(stop, stop - _LOOKED_BACK, -1) if text[at - 1] in _BETWEEN_TERMS), stop)
        yield text[start:stop]
        start = stop


def _index_segment(text: str) -> list[str]:
    terms: list[str] = []
    if text.isascii():
        # No term spans white space, and the same few thousand words make up most English.
        for chunk in text.split():
            terms += _list_chunk_terms(chunk) if len(chunk) <= _PIECE_CHARS else _list_terms(chunk)
        return terms
    return _list_terms(_normalize_text(text))


def _normalize_text(text: str) -> str:
    if text.isascii():
        return text
    if _NOT_PLAIN.search(text):
        # Half a surrogate pair would make opencc raise.
        whole = text.encode("utf-8", "replace").decode()
        text = normalize("NFKC", whole).replace("\u2019", "'")
    return _convert(text) if _CONTAINS_HAN.search(text) else text


def _split(text: str) -> list[tuple[str, str]]:
    """Split into runs, each (run of an unspaced script, "") or ("", word) or two empty strings."""
    return _RUNS.findall(text)


def _drop_function_words(runs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for unspaced, word in runs:
        if unspaced:
            # Whole words only: 要 goes, 重要 stays; what stood on either side of a dropped word is no pair.
            pieces = (" " if piece in CHINESE else piece for piece in rjieba.cut(unspaced))
            yield from ((run, "") for run in "".join(pieces).split())
        elif word.lower() not in ENGLISH:
            yield "", word


def _weigh(runs: Iterable[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    weights: dict[str, float] = {}
    for unspaced, word in runs:
        words = frozenset(rjieba.cut(unspaced)) if unspaced else frozenset()
        for char in unspaced:
            weights[char] = 1.0 if char in words else max(PART_OF_WORD_WEIGHT, weights.get(char, 0.0))
        weights |= dict.fromkeys(map(add, unspaced, unspaced[1:]), 1.0)
        for term, weight in _weight_word_terms(word).items() if word else ():
            weights[term] = max(weight, weights.get(term, 0.0))
    return tuple(weights.items())


@lru_cache(maxsize=32_768)
def _list_chunk_terms(chunk: str) -> tuple[str, ...]:
    return tuple(_list_terms(chunk))


def _list_terms(text: str) -> list[str]:
    terms: list[str] = []
    for unspaced, word in _split(text):
        if unspaced:
            terms.extend(unspaced)
            terms.extend(map(add, unspaced, unspaced[1:]))
        elif word:
            terms.extend(_list_word_terms(word))
    return terms


@lru_cache(maxsize=16_384)
def _list_word_terms(word: str) -> tuple[str, ...]:
    return tuple(_weight_word_terms(word))


def _weight_word_terms(word: str) -> dict[str, float]:
    """Weigh a word's terms: the word, when it has parts, and each part's stem and written form."""
    folded = _fold(word)
    parts = _split_word(word)
    weights = {} if parts == [folded] else {folded: 1.0}
    for part in parts:
        weights[_stem(part)] = 1.0
        weights.setdefault(part, WRITTEN_FORM_WEIGHT)
    return weights


def _split_word(word: str) -> list[str]:
    """Split `knowledge_slim`, `node.js` and `camelCase`; C++ and C# are not C, so they have none."""
    if word[-1] in "+#" and not word[1].isalnum():
        return []
    parts = _PART.findall(word)
    seamed = filter(_SEAM.search, parts)
    inner = [piece for part in seamed for piece in _list_joined_words(part)]
    return [_fold(part) for part in (*parts, *inner)]


def _list_joined_words(part: str) -> list[str]:
    """List the words that camelCase joins. Nobody joins many: a key or base64 has a seam at every third character."""
    words = _BETWEEN_SEAMS.findall(part)
    return [word for word in words if len(word) > 1] if len(words) <= _MAX_JOINED_WORDS else []


def _fold(word: str) -> str:
    """Fold case, accents, and the commas of 1,000."""
    folded = word.casefold().replace(",", "")
    if folded.isascii():
        return folded
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", folded)))
