"""Find texts that came out of KnowHub: repeated word for word, or in the form of its own answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_tools.fences import find_fence
from knowhub.core.near_duplicates import is_long_enough, normalize_text

QUOTED_CHARS = 16_384
MIN_WEIGHT = 60
MIN_SHARE = 0.6
MIN_WRAPPING = 8
_ANCHOR_CHARS = 24
_MAX_PER_ANCHOR = 4
_MAX_HITS = 64

# What quoting puts before each line: the bar of the agent tools with its field, or the sign of Markdown.
_QUOTE_MARK = re.compile(r"^[ \t]*[|>][ \t]*(?:(?:task|content):[ \t])?", re.MULTILINE)


# The agent tools say "[…120 more characters]"; the ellipsis is three dots in the normal form.
_CUT = re.compile(r"\s?(?:\[?…|\[?\.\.\.)")


@dataclass(frozen=True, slots=True)
class QuoteCandidate:
    """A possible quotation: the number of the earlier text, its anchor, and the position in the later text."""

    number: int
    is_middle: bool
    at: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A run of characters that an earlier text and a later one share; `share` of the earlier one is in it."""

    chars: int
    share: float
    wrapping_chars: int


class QuoteIndex:
    """24 characters from the beginning and from the middle of every text that is long enough to be quoted."""

    def __init__(self) -> None:
        # A text's number twice, and 1 for its middle: an anchor costs a string and an integer.
        self._places: dict[str, tuple[int, ...]] = {}

    def put(self, number: int, text: str) -> None:
        """Keep the anchors of a text in the form for quotes; the four oldest texts keep an anchor that they share."""
        if not is_long_enough(text, MIN_WEIGHT):
            return
        middle = len(text) // 2
        self._keep(text[:_ANCHOR_CHARS], number * 2)
        if len(text) - middle >= _ANCHOR_CHARS:
            self._keep(text[middle : middle + _ANCHOR_CHARS], number * 2 + 1)

    def find_candidates(self, text: str) -> list[QuoteCandidate]:
        """Return the first positions where this text may quote an earlier one."""
        anchors = self._places
        found: list[QuoteCandidate] = []
        for at in [at for at in range(len(text) - _ANCHOR_CHARS + 1) if text[at : at + _ANCHOR_CHARS] in anchors]:
            codes = anchors[text[at : at + _ANCHOR_CHARS]]
            found += (QuoteCandidate(code // 2, code % 2 == 1, at) for code in codes)
            if len(found) >= _MAX_HITS:
                break
        return found[:_MAX_HITS]

    def _keep(self, anchor: str, code: int) -> None:
        known = self._places.get(anchor, ())
        if len(known) < _MAX_PER_ANCHOR:
            self._places[anchor] = (*known, code)


def normalize_quote(text: str) -> str:
    """Return the first 16,384 characters in the form in which quotes are looked for: without marks of quoting."""
    head = text[:QUOTED_CHARS]
    if "\\" in head:
        # As JSON text has it.
        head = head.replace("\\n", "\n").replace('\\"', '"')
    if "|" in head or ">" in head:
        head = _QUOTE_MARK.sub("", head)
    return normalize_text(head)


def match_quote(earlier: str, later: str, hit: QuoteCandidate) -> Quote | None:
    """Return the quote at a hit, both texts in the form for quotes; None when it is too little to be one.

    It is one with 60 characters (30 of Chinese) and 8 or more around it: the bare text again is a copy, which
    duplicates find. It holds all of the earlier text, or 60 % if that is visibly cut or has much other text around
    it: with less, the later text is the earlier one changed.
    """
    anchor_at = len(earlier) // 2 if hit.is_middle else 0
    before = _count_common_start(earlier[:anchor_at][::-1], later[: hit.at][::-1])
    behind = _count_common_start(earlier[anchor_at:], later[hit.at :])
    chars = before + behind
    run = later[hit.at - before : hit.at + behind]
    made = Quote(chars, round(chars / len(earlier), 4), len(later) - chars) if earlier else None
    if made is None or not is_long_enough(run, MIN_WEIGHT):
        return None
    if made.wrapping_chars < MIN_WRAPPING or made.share < MIN_SHARE:
        return None
    is_cut = _CUT.match(later, hit.at + behind) is not None
    return made if made.share == 1 or is_cut or made.wrapping_chars >= chars else None


def _count_common_start(item: str, other: str) -> int:
    low, high = 0, min(len(item), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if item[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


SEARCHED_CHARS = 65_536
_MAX_IDS = 20

_JSON_QUALITY = re.compile(r'\\?"quality_score\\?"\s*:')
_JSON_ID = re.compile(r'\\?"id\\?"\s*:\s*\\?"knowledge-')
_RECORD_ID = re.compile(r"(?<![\w-])knowledge-\d{8}-[0-9a-f]{4,32}(?![\w-])")
_SEARCH_TOOLS = frozenset({"knowledge_search", "get_knowledge", "knowledge_list", "search_knowledge", "knowhub"})
_API_ADDRESS = re.compile(r"/api/(?:knowledge|keywords|infos)(?:[/?#]|$)")


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a text shows that it came out of KnowHub, and the ids of records that it quotes."""

    how: str
    at: int
    ids: Sequence[str] = ()


def find_rendering(text: str) -> Rendering | None:
    """Return what of the first 65,536 characters is KnowHub's own way to show records; None when nothing is.

    An id alone is no sign of it: records may refer to each other.
    """
    head = text[:SEARCHED_CHARS]
    at = find_fence(head)
    if at is not None:
        return Rendering("tool_output", at, find_quoted_ids(head))
    quality = _JSON_QUALITY.search(head) if "quality_score" in head else None
    if quality is not None and _JSON_ID.search(head):
        return Rendering("api_answer", quality.start(), find_quoted_ids(head))
    return None


def find_search_source(source: Mapping[str, Any]) -> str | None:
    """Return what in a record's source names a search of KnowHub or an address of its API; None when nothing does."""
    name = str(source.get("name") or "").strip().casefold()
    if name in _SEARCH_TOOLS:
        return str(source["name"])
    return next((url for url in source.get("urls") or () if _API_ADDRESS.search(url)), None)


def find_quoted_ids(text: str) -> list[str]:
    """Return the ids of knowledge records that a text names, each once, the first 20."""
    return list(dict.fromkeys(_RECORD_ID.findall(text)))[:_MAX_IDS]
