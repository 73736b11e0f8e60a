"""Earlier texts that stand word for word in later ones."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from knowhub.core.shingles import normalised_text, weight

QUOTED_CHARS = 65_536
LEAST_WEIGHT = 60
LEAST_SHARE = 0.6
LEAST_WRAPPING = 8
_ANCHOR_CHARS = 24
_WINDOWS_A_STEP = 4_096
_MOST_PER_ANCHOR = 4
_MOST_HITS = 64

# What quoting puts before each line: the bar of the agent tools with its field, or the sign of Markdown.
_QUOTE_MARK = re.compile(r"^[ \t]*[|>][ \t]*(?:(?:task|content):[ \t])?", re.MULTILINE)


# The agent tools say "[…120 more characters]"; the ellipsis is three dots in the normal form.
_CUT = re.compile(r"\s?(?:\[?…|\[?\.\.\.)")


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where an earlier text may stand: its number, which of its anchors that is, and where in the later one."""

    number: int
    is_middle: bool
    at: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A run of characters that an earlier text and a later one share; `share` of the earlier one is in it."""

    chars: int
    share: float
    wrapping_chars: int


class Anchors:
    """24 characters from the beginning and from the middle of every text that is long enough to be quoted."""

    def __init__(self) -> None:
        # A text's number twice, and 1 for its middle: an anchor costs a string and an integer.
        self._places: dict[str, tuple[int, ...]] = {}

    def put(self, number: int, text: str) -> None:
        """Keep the anchors of a text in the form for quotes; the four oldest texts keep an anchor that they share."""
        if weight(text) < LEAST_WEIGHT:
            return
        middle = len(text) // 2
        self._keep(text[:_ANCHOR_CHARS], number * 2)
        if len(text) - middle >= _ANCHOR_CHARS:
            self._keep(text[middle : middle + _ANCHOR_CHARS], number * 2 + 1)

    def hits(self, text: str, found: list[Hit]) -> Iterator[None]:
        """Fill `found` with the first places where an earlier text may stand in this one; yields after each step."""
        anchors = self._places
        for start in range(0, max(0, len(text) - _ANCHOR_CHARS + 1), _WINDOWS_A_STEP):
            stop = min(start + _WINDOWS_A_STEP, len(text) - _ANCHOR_CHARS + 1)
            places = [at for at in range(start, stop) if text[at : at + _ANCHOR_CHARS] in anchors]
            for at in places:
                found += (Hit(code // 2, code % 2 == 1, at) for code in anchors[text[at : at + _ANCHOR_CHARS]])
            yield
            if len(found) > _MOST_HITS:
                del found[_MOST_HITS:]
                return

    def _keep(self, anchor: str, code: int) -> None:
        known = self._places.get(anchor, ())
        if len(known) < _MOST_PER_ANCHOR:
            self._places[anchor] = (*known, code)


def quotable(text: str) -> str:
    """Return the first 65,536 characters in the form in which quotes are looked for: without marks of quoting."""
    head = text[:QUOTED_CHARS]
    if "\\" in head:
        # As JSON text has it.
        head = head.replace("\\n", "\n").replace('\\"', '"')
    if "|" in head or ">" in head:
        head = _QUOTE_MARK.sub("", head)
    return normalised_text(head)


def quote(earlier: str, later: str, hit: Hit) -> Quote | None:
    """Return the quote at a hit, both texts in the form for quotes; None when it is too little to be one.

    It is one with 60 characters (30 of Chinese) and 8 or more around it: the bare text again is a copy, which
    duplicates find. All of the earlier text stands in it, or 60 % where it is visibly cut or much else stands around
    it: with less, the later text is the earlier one changed.
    """
    anchor_at = len(earlier) // 2 if hit.is_middle else 0
    before = _common_end(earlier[:anchor_at], later[: hit.at])
    behind = _common_start(earlier[anchor_at:], later[hit.at :])
    chars = before + behind
    run = later[hit.at - before : hit.at + behind]
    made = Quote(chars, round(chars / len(earlier), 4), len(later) - chars) if earlier else None
    if made is None or weight(run) < LEAST_WEIGHT:
        return None
    if made.wrapping_chars < LEAST_WRAPPING or made.share < LEAST_SHARE:
        return None
    is_cut = _CUT.match(later, hit.at + behind) is not None
    return made if made.share == 1 or is_cut or made.wrapping_chars >= chars else None


def _common_start(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str) -> int:
    return _common_start(one[::-1], other[::-1])
