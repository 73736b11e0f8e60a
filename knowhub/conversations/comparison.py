"""Whether two statements say the same, or contradict each other, by their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.conversations.sentences import Fold
from knowhub.conversations.statements import (
    OPPOSITES,
    RIVALS,
    Statement,
    has_changed_side,
    has_changed_value,
    list_keys,
    parse_statement,
)
from knowhub.core.near_duplicates import jaccard, shingles

SAME: Final = 0.5
OPPOSITE: Final = 0.5
_OPPOSITE_COVER: Final = 0.6
# Where each text says something that the other does not, they must share more: «a nurse in Porto» and «a teacher in
# Porto» are two statements.
_SAME_OF_TWO: Final = 0.65


@dataclass(frozen=True, slots=True)
class PairComparison:
    """How far two statements agree, from 0 to 1, and whether they conflict.

    `is_rival` means that they conflict if only one value can hold; `is_conflict`, that they conflict in any case.
    """

    similarity: float = 0.0
    is_conflict: bool = False
    is_rival: bool = False


_UNRELATED: Final = PairComparison()


class PairwiseComparison:
    """Parses and compares the texts of one request, each text and each pair once."""

    def __init__(self, fold: Fold = str) -> None:
        self._fold = fold
        self._statements: dict[str, Statement] = {}
        self._keys: dict[str, frozenset[str]] = {}
        self._word_pairs: dict[str, frozenset[int]] = {}
        self._pairs: dict[tuple[str, str], PairComparison] = {}
        self._overlaps: dict[tuple[str, str], float] = {}
        self._compared: set[str] = set()
        self._overlapped: set[str] = set()

    def parse(self, text: str) -> Statement:
        """Parse a text."""
        if text not in self._statements:
            self._statements[text] = parse_statement(text, self._fold)
        return self._statements[text]

    def prepare(self, new: Sequence[str], old: Sequence[str]) -> None:
        """Compare all pairs of statements in advance. It reads no state, so a thread can do it."""
        for text in new:
            for other in old:
                self.compare(text, other)
        self._compared.update(new, old)

    def prepare_words(self, new: Sequence[str], old: Sequence[str]) -> None:
        """Compare the words of all pairs in advance."""
        for text in new:
            for other in old:
                self.word_overlap(text, other)
        self._overlapped.update(new, old)

    def compare(self, new: str, old: str) -> PairComparison:
        """Compare two statements."""
        pair = (new, old)
        if pair in self._pairs:
            return self._pairs[pair]
        # Only related pairs are stored: of prepared texts, the others have no word in common.
        if new in self._compared and old in self._compared:
            return _UNRELATED
        if self._get_keys(new).isdisjoint(self._get_keys(old)):
            return _UNRELATED
        first, second = self.parse(new), self.parse(old)
        is_rival = is_conflict(first, second)
        self._pairs[pair] = PairComparison(
            0.0 if is_rival else compute_similarity(first, second),
            is_rival and is_conflict(first, second, is_exclusive=False),
            is_rival,
        )
        return self._pairs[pair]

    def word_overlap(self, new: str, old: str) -> float:
        """Return the share of word pairs that two texts have in common, from 0 to 1."""
        pair = (new, old)
        if pair in self._overlaps:
            return self._overlaps[pair]
        if new in self._overlapped and old in self._overlapped:
            return 0.0
        if self._get_word_pairs(new).isdisjoint(self._get_word_pairs(old)):
            return 0.0
        self._overlaps[pair] = jaccard(self._get_word_pairs(new), self._get_word_pairs(old))
        return self._overlaps[pair]

    def _get_keys(self, text: str) -> frozenset[str]:
        if text not in self._keys:
            self._keys[text] = list_keys(self.parse(text))
        return self._keys[text]

    def _get_word_pairs(self, text: str) -> frozenset[int]:
        if text not in self._word_pairs:
            self._word_pairs[text] = shingles(text)
        return self._word_pairs[text]


def compute_similarity(item: Statement, other: Statement) -> float:
    """Return how far two statements agree, from 0 to 1; 0 if one wants what the other does not."""
    if is_conflict(item, other) or item.wanted & other.unwanted or item.unwanted & other.wanted:
        return 0.0
    if item.wanted and other.wanted:
        return _overlap(item.wanted, other.wanted)
    if item.unwanted and other.unwanted and not (item.wanted or other.wanted):
        return _overlap(item.unwanted, other.unwanted)
    return 0.0


def is_conflict(new: Statement, old: Statement, *, is_exclusive: bool = True) -> bool:
    """Return whether a statement contradicts an earlier one.

    With `is_exclusive`, another value of the same kind (another language, day or figure) is a contradiction, too.
    """
    # «X rather than Y» need not refuse Y, so a wish contradicts only a bare refusal.
    is_withdrawn = not old.wanted and _matches(new.wanted, old.unwanted)
    return (
        has_changed_value(new.values, old.values)
        or _has_changed_direction(new, old)
        or is_withdrawn
        or _matches(new.unwanted, old.wanted)
        or _has_other_value(new, old, is_exclusive=is_exclusive)
    )


def _overlap(item: frozenset[str], other: frozenset[str]) -> float:
    share = jaccard(item, other)
    return share if share >= _SAME_OF_TWO or item <= other or other <= item else 0.0


def _has_changed_direction(new: Statement, old: Statement) -> bool:
    """Return whether two statements with the same words take different sides, or have a different order."""
    if not (new.sides or new.order) or jaccard(new.words, old.words) < SAME:
        return False
    if has_changed_side(new.sides, old.sides, of_order=False):
        return True
    is_swapped = False
    if new.order is not None and old.order is not None:
        (front, back), (earlier, later) = new.order, old.order
        is_swapped = not (front.isdisjoint(later) or back.isdisjoint(earlier))
    # «Tests before the commit» and «the commit after the tests» are the same.
    return is_swapped != has_changed_side(new.sides, old.sides, of_order=True)


def _matches(refused: frozenset[str], wanted: frozenset[str]) -> bool:
    """Return whether the refused words are the wanted ones, and not only some of them."""
    shared = len(refused & wanted)
    return (
        bool(shared)
        and shared >= _OPPOSITE_COVER * min(len(refused), len(wanted))
        and jaccard(refused, wanted) >= OPPOSITE
    )


def _has_other_value(new: Statement, old: Statement, *, is_exclusive: bool) -> bool:
    """Return whether two statements differ only in a word or a figure, where only one value can hold."""
    for group in (*OPPOSITES, *RIVALS) if is_exclusive else OPPOSITES:
        first, second = new.wanted & group, old.wanted & group
        if len(first) == len(second) == 1 and first != second:
            rest, others = new.wanted - group, old.wanted - group
            return jaccard(rest, others) >= SAME or not (rest or others)
    is_different = is_exclusive and bool(new.figures and old.figures) and new.figures.isdisjoint(old.figures)
    return is_different and jaccard(new.words, old.words) >= SAME
