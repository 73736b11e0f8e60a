"""MinHash with bands: short keys of a set, of which similar sets share one with a known probability."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat

BANDS = 10
_ROWS = 4
_ROUNDS = 2
_BINS = BANDS * _ROWS // _ROUNDS

FEWEST_SHINGLES = 5
MOST_CANDIDATES = 8
_PLACES_A_STEP = 256


def band_keys(shingles: frozenset[int]) -> list[int]:
    """Return the 10 keys of a set that is not empty; equal sets have equal keys.

    Two sets of Jaccard similarity s share at least one with a probability near 1 - (1 - s^4)^10: 0.995 at 0.8, 0.03
    at 0.25. Each of two rounds hashes every element once, into one of 20 bins of which the least is kept (one
    permutation hashing with densified bins): forty hashes of each would take twenty times as long.
    """
    slots = [slot for salt in range(_ROUNDS) for slot in _round(salt, shingles)]
    return [hash((band, *slots[band::BANDS])) for band in range(BANDS)]


class Sketches:
    """The keys of many sets, 80 bytes each, by their number; those that are given none have no candidates."""

    def __init__(self) -> None:
        self._keys = array("q")
        self._owners = array("q")

    def put(self, number: int, keys: Sequence[int]) -> None:
        """Keep the keys of a set. Numbers must rise."""
        self._owners.append(number)
        self._keys.extend(keys)

    def candidates(self, found: "dict[int, array[int]]") -> Iterator[None]:
        """Fill `found` with earlier sets that each set may resemble; yields after each bit of work.

        Of those that share a key, it is the first one and the last one before it that count: whoever resembles
        many, resembles those. One band is looked at after another, so that one map at a time is in memory.
        """
        for band in range(BANDS):
            firsts: dict[int, int] = {}
            lasts: dict[int, int] = {}
            for place, owner in enumerate(self._owners):
                key = self._keys[place * BANDS + band]
                first = firsts.setdefault(key, owner)
                if first != owner:
                    seen = found.get(owner)
                    if seen is None:
                        # No list: a hundred thousand of them would be walked by every collection of garbage.
                        seen = found[owner] = array("q")
                    seen.append(first)
                    seen.append(lasts.get(key, first))
                    lasts[key] = owner
                if place % _PLACES_A_STEP == 0:
                    yield


def ranked(candidates: Sequence[int]) -> list[int]:
    """Return each candidate once, those that share most keys first, oldest first among equals, 8 at most."""
    counts: dict[int, int] = {}
    for one in candidates:
        counts[one] = counts.get(one, 0) + 1
    return sorted(counts, key=lambda one: (-counts[one], one))[:MOST_CANDIDATES]


def _round(salt: int, shingles: frozenset[int]) -> list[int]:
    # Hashes of tuples of integers are not salted: all processes agree. From the largest down, the least stays.
    ordered = sorted(map(hash, zip(repeat(salt), shingles, strict=False)), reverse=True)
    filled = dict(zip(map(_BINS.__rmod__, ordered), ordered, strict=True))
    return [filled[place] if place in filled else _borrowed(place, filled) for place in range(_BINS)]


def _borrowed(place: int, filled: dict[int, int]) -> int:
    """Fill an empty bin from one that both of two similar sets would choose (optimal densification)."""
    attempt = 0
    while (chosen := hash((place, attempt)) % _BINS) not in filled:
        attempt += 1
    return filled[chosen]
