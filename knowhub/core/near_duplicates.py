"""Find rows whose texts are equal or nearly equal: normal forms, MinHash keys, and clusters."""

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import pairwise, repeat
from typing import TypeVar
from zlib import crc32

from knowhub.core.unicode_forms import normalize

ItemT = TypeVar("ItemT")

# So many characters of a text are compared: some take NFKC four microseconds each.
COMPARED_CHARS = 16_384
# Texts are nearly the same if they share so many of their pairs of neighbouring words.
MIN_SIMILARITY = 0.8

# Scripts that are written without spaces: each character is a word. Thai, Lao, Khmer, kana, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SPACED = re.compile(rf"[^\W{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]{{2,}}")
_DISTINCTIVE_WORDS, _LONGEST_DISTINCTIVE = 8, 40
_DISTINCTIVE_RUNS, _RUN_CHARS = 4, 8
_ALIGNED_WORDS, _SUBSTITUTED_WORDS = 64, 3
_WIDE = re.compile(f"[{_UNSPACED}]")
# Full-width and half-width forms, and the wide space. What else NFKC folds, as a raised 2 into a 2, says another thing.
_WIDTHS = {code: normalize("NFKC", chr(code)) for code in (0x3000, *range(0xFF01, 0xFFEF))}
# What ordinary Chinese text has of these, and the ellipsis. Once they are folded, NFKC mostly finds nothing left to do,
# and then takes no time.
_COMMON_WIDE = re.compile("[\u2026\u3000\uff01-\uff5e]")
_COMMON_WIDTHS = {char: normalize("NFKC", char) for char in map(chr, (0x2026, 0x3000, *range(0xFF01, 0xFF5F)))}


def normalize_text(text: str) -> str:
    """Fold width, case and white space: what a person would call the same text."""
    if not text.isascii():
        folded = _COMMON_WIDE.sub(lambda found: _COMMON_WIDTHS[found[0]], text)
        text = normalize("NFKC", folded)
    return " ".join(text.casefold().split())


def normalize_width(text: str) -> str:
    """Fold width alone, which no reader takes for another text: case and white space stay as they are."""
    return text if text.isascii() else normalize("NFC", text.translate(_WIDTHS))


def digest(text: str) -> bytes:
    """Hash what a person would call the same text.

    Width, case and white space are folded in the first 16,384 characters; beyond them the text counts as it is.
    """
    return blake2b(normalize_compared(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def normalize_compared(text: str) -> str:
    """Return what `digest` hashes: a control character separates the folded beginning from the rest."""
    return f"{normalize_text(text[:COMPARED_CHARS])}\x1f{text[COMPARED_CHARS:]}"


def make_text_key(text: str) -> int:
    """Return a number that texts of one `digest` share, and that others seldom have. Each process has its own."""
    return hash(normalize_text(text[:COMPARED_CHARS]))


def shingles(text: str) -> frozenset[int]:
    """Return the pairs of neighbouring words of the first 16,384 characters, as numbers.

    A word of a script without spaces is one character. The numbers are the same in every process: they are hashes
    of integers, which Python does not salt.
    """
    found = _words(text)
    return frozenset(map(hash, pairwise([crc32(word.encode("utf-8", "surrogatepass")) for word in found])))


def list_substitutions(old: str, new: str) -> list[tuple[str, str]]:
    """List what replaces one to three words of `old` in `new`, between words that both texts have.

    Of each text 64 words are compared. A passage that is more than a word longer than what it replaces is no
    substitution: it says more.
    """
    before, after = (_words(text)[:_ALIGNED_WORDS] for text in (old, new))
    found = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        (" ".join(before[start:end]), " ".join(after[begin:stop]))
        for kind, start, end, begin, stop in found
        if kind == "replace" and end - start <= _SUBSTITUTED_WORDS and abs((end - start) - (stop - begin)) <= 1
    ]


def words(text: str) -> frozenset[str]:
    """Return the different words of the first 16,384 characters."""
    return frozenset(_words(text))


def make_similarity_query(text: str) -> str:
    """Return the longest words of the first 16,384 characters, as a short query that finds texts like this one.

    Long words are rare ones, and of two texts that are nearly the same most are in both. Of a script without spaces the
    first characters of the longest runs are used as words.
    """
    folded = normalize_text(text[:COMPARED_CHARS])
    spaced = {word for word in _SPACED.findall(folded) if len(word) <= _LONGEST_DISTINCTIVE}
    runs = {run[:_RUN_CHARS] for run in _UNSPACED_RUN.findall(folded)}
    return " ".join((*_longest(spaced, _DISTINCTIVE_WORDS), *_longest(runs, _DISTINCTIVE_RUNS)))


def jaccard(item: frozenset[object], other: frozenset[object]) -> float:
    """Return the Jaccard similarity of two sets; 0 if both are empty."""
    shared = len(item & other)
    either = len(item) + len(other) - shared
    return shared / either if either else 0.0


def differ_in_length(text: str, other: str) -> bool:
    """Return whether one of two texts is much longer than the other, beyond the part that is compared."""
    longer, shorter = max(len(text), len(other)), min(len(text), len(other))
    return longer > COMPARED_CHARS and shorter < MIN_SIMILARITY * longer


def share_contained(item: frozenset[ItemT], other: frozenset[ItemT]) -> float:
    """Return the share of a set that another one contains; 0 of an empty set."""
    return len(item & other) / len(item) if item else 0.0


def is_long_enough(text: str, least: int) -> bool:
    """Return whether a text has `least` characters or more; those of scripts without spaces count twice."""
    # Each character counts once or twice: so many of them are enough.
    head = text[:least]
    return len(head) + len(_WIDE.findall(head)) >= least


def _longest(found: set[str], most: int) -> list[str]:
    return sorted(found, key=lambda item: (-len(item), item))[:most]


def _words(text: str) -> list[str]:
    return _WORD.findall(normalize_text(text[:COMPARED_CHARS]))


BANDS = 10
_ROWS = 4
_ROUNDS = 2
_BINS = BANDS * _ROWS // _ROUNDS

FEWEST_SHINGLES = 5
MAX_CANDIDATES = 8


def band_keys(shingles: frozenset[int]) -> list[int]:
    """Return the 10 keys of a set that is not empty; equal sets have equal keys.

    Two sets of Jaccard similarity s share at least one with a probability near 1 - (1 - s^4)^10: 0.995 at 0.8, 0.03
    at 0.25. Each of two rounds hashes every element once into 20 bins and keeps the least of each bin (one
    permutation hashing with densified bins): forty hashes of each would take twenty times as long.
    """
    slots = [slot for salt in range(_ROUNDS) for slot in _round(salt, shingles)]
    return [hash((band, *slots[band::BANDS])) for band in range(BANDS)]


class MinHashIndex:
    """The keys of many sets, 80 bytes each, by their number; those that are given none have no candidates."""

    def __init__(self) -> None:
        self._keys = array("q")
        self._owners = array("q")

    def put(self, number: int, keys: Sequence[int]) -> None:
        """Keep the keys of a set. Numbers must rise."""
        self._owners.append(number)
        self._keys.extend(keys)

    def find_candidates(self) -> "dict[int, array[int]]":
        """Return earlier sets that each set may resemble.

        Of those that share a key, it is the first one and the last one before it that count: whoever resembles
        many, resembles those. One band is looked at after another, so that one map at a time is in memory.
        """
        found: dict[int, array[int]] = {}
        for band in range(BANDS):
            firsts: dict[int, int] = {}
            lasts: dict[int, int] = {}
            for bin_index, owner in enumerate(self._owners):
                key = self._keys[bin_index * BANDS + band]
                first = firsts.setdefault(key, owner)
                if first != owner:
                    seen = found.get(owner)
                    if seen is None:
                        # No list: a hundred thousand of them would be walked by every collection of garbage.
                        seen = found[owner] = array("q")
                    seen.append(first)
                    seen.append(lasts.get(key, first))
                    lasts[key] = owner
        return found


def rank_candidates(candidates: Sequence[int]) -> list[int]:
    """Return each candidate once, those that share most keys first, oldest first among equals, 8 at most."""
    counts: dict[int, int] = {}
    for candidate in candidates:
        counts[candidate] = counts.get(candidate, 0) + 1
    return sorted(counts, key=lambda item: (-counts[item], item))[:MAX_CANDIDATES]


def _round(salt: int, shingles: frozenset[int]) -> list[int]:
    # Hashes of tuples of integers are not salted: all processes agree. From the largest down, the least stays.
    ordered = sorted(map(hash, zip(repeat(salt), shingles, strict=False)), reverse=True)
    filled = dict(zip(map(_BINS.__rmod__, ordered), ordered, strict=True))
    return [
        filled[bin_index] if bin_index in filled else _fill_empty_bin(bin_index, filled) for bin_index in range(_BINS)
    ]


def _fill_empty_bin(bin_index: int, filled: dict[int, int]) -> int:
    """Fill an empty bin from a bin that two similar sets both choose (optimal densification)."""
    attempt = 0
    while (chosen := hash((bin_index, attempt)) % _BINS) not in filled:
        attempt += 1
    return filled[chosen]


_SETS_KEPT = 512


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A row that resembles an older one of its cluster, the oldest where that holds; `similarity` is Jaccard's."""

    number: int
    to: int
    similarity: float


@dataclass(slots=True)
class Cluster:
    """A row and the newer rows that resemble it."""

    kept: int
    copies: list[int] = field(default_factory=list)
    near: list[NearDuplicate] = field(default_factory=list)


class ClusterBuilder:
    """Groups rows, given oldest first, into clusters; it keeps a digest and ten keys of each, but no text."""

    def __init__(self, text_of: Callable[[int], str | None]) -> None:
        self._text_of = text_of
        self._firsts: dict[bytes, int] = {}
        self._copies: dict[int, array[int]] = {}
        self._sketches = MinHashIndex()
        self._cluster_of: dict[int, int] = {}
        self._near: dict[int, list[NearDuplicate]] = {}
        self._sets: dict[int, tuple[int, frozenset[int]]] = {}

    def put(self, number: int, text: str, kind: str) -> int | None:
        """Add a row. Return the number of the older row with exactly the same text, None if there is none.

        Numbers must rise. Rows of different kinds are not compared.
        """
        first = self._firsts.setdefault(digest(f"{kind}\n{text}"), number)
        if first != number:
            self._copies.setdefault(first, array("q")).append(number)
            return first
        pairs = shingles(text)
        if len(pairs) >= FEWEST_SHINGLES:
            self._sketches.put(number, [hash((kind, key)) for key in band_keys(pairs)])
        return None

    def build(self) -> list[Cluster]:
        """Return every cluster of two rows or more, the oldest first, when all rows have been put.

        A copy of a near copy is in its cluster too. This takes seconds for many rows: call it in a thread.
        """
        found = self._sketches.find_candidates()
        for number in sorted(found):
            self._add_to_cluster(number, rank_candidates(found.pop(number)))
        # To free all the sets at once takes 50 ms.
        while self._sets:
            self._sets.popitem()
        clusters = []
        for kept in sorted(self._copies.keys() | self._near.keys()):
            if kept not in self._cluster_of:
                cluster = Cluster(kept, list(self._copies.get(kept, ())))
                for near in self._near.get(kept, ()):
                    copies = self._copies.get(near.number, ())
                    cluster.near += (near, *(NearDuplicate(item, near.to, near.similarity) for item in copies))
                clusters.append(cluster)
        return clusters

    def _add_to_cluster(self, number: int, candidates: list[int]) -> None:
        """Add a row to the cluster of the oldest row that it resembles."""
        kept = dict.fromkeys(self._cluster_of.get(candidate, candidate) for candidate in candidates)
        for other in dict.fromkeys((*kept, *candidates)):
            similarity = self._similarity(number, other)
            if similarity >= MIN_SIMILARITY:
                home = self._cluster_of.get(other, other)
                self._cluster_of[number] = home
                self._near.setdefault(home, []).append(NearDuplicate(number, other, round(similarity, 4)))
                return

    def _similarity(self, item: int, other: int) -> float:
        first, second = self._text_of(item), self._text_of(other)
        if first is None or second is None or differ_in_length(first, second):
            return 0.0
        return jaccard(self._set(item, first), self._set(other, second))

    def _set(self, number: int, text: str) -> frozenset[int]:
        text_hash = hash(text)
        known_hash, known = self._sets.pop(number, (None, frozenset()))
        made = known if known_hash == text_hash else shingles(text)
        # Ordered by last use: the first is dropped when there are too many.
        self._sets[number] = (text_hash, made)
        if len(self._sets) > _SETS_KEPT:
            del self._sets[next(iter(self._sets))]
        return made
