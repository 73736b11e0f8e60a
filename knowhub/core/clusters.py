"""Copies and near copies, gathered around the oldest row that they resemble."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from knowhub.core.shingles import COMPARED_CHARS, digest, jaccard, shingles
from knowhub.core.sketch import FEWEST_SHINGLES, Sketches, band_keys, ranked

LEAST_SIMILARITY = 0.8
_SETS_KEPT = 512
_NUMBERS_A_STEP = 256


@dataclass(frozen=True, slots=True)
class NearCopy:
    """A row that resembles an older one of its cluster, the oldest where that holds; `similarity` is Jaccard's."""

    number: int
    to: int
    similarity: float


@dataclass(slots=True)
class Cluster:
    """Rows around the one that was there first."""

    kept: int
    copies: list[int] = field(default_factory=list)
    near: list[NearCopy] = field(default_factory=list)


class Clusters:
    """Gathers the rows that it is shown, oldest first; it keeps a digest, ten keys and no text of each."""

    def __init__(self, text_of: Callable[[int], str | None]) -> None:
        self._text_of = text_of
        self._firsts: dict[bytes, int] = {}
        self._copies: dict[int, array[int]] = {}
        self._sketches = Sketches()
        self._homes: dict[int, int] = {}
        self._near: dict[int, list[NearCopy]] = {}
        self._sets: dict[int, tuple[int, frozenset[int]]] = {}
        self._count = 0

    def put(self, number: int, text: str, kind: str) -> int | None:
        """Take in a row; return the number of the older one that says exactly the same, None where there is none.

        Numbers count from 0. Rows of different kinds are not compared.
        """
        self._count = number + 1
        first = self._firsts.setdefault(digest(f"{kind}\n{text}"), number)
        if first != number:
            self._copies.setdefault(first, array("q")).append(number)
            return first
        pairs = shingles(text)
        if len(pairs) >= FEWEST_SHINGLES:
            self._sketches.put(number, [hash((kind, key)) for key in band_keys(pairs)])
        return None

    def gathering(self) -> Iterator[None]:
        """Compare what may be alike, when all have been put; yields after each bit of work. Then read `clusters`."""
        found: dict[int, array[int]] = {}
        yield from self._sketches.candidates(found)
        for number in range(self._count):
            if number in found:
                self._settle(number, ranked(found.pop(number)))
                yield
            elif number % _NUMBERS_A_STEP == 0:
                yield

    def clusters(self) -> Iterator[Cluster | None]:
        """Yield every cluster of two rows or more, the oldest first, and None after each bit of work without one.

        A copy of a near copy is in its cluster too.
        """
        for kept in range(self._count):
            if kept in self._homes or not (kept in self._copies or kept in self._near):
                if kept % _NUMBERS_A_STEP == 0:
                    yield None
                continue
            cluster = Cluster(kept, list(self._copies.get(kept, ())))
            for near in self._near.get(kept, ()):
                again = (NearCopy(one, near.to, near.similarity) for one in self._copies.get(near.number, ()))
                cluster.near += (near, *again)
                if len(cluster.near) % _NUMBERS_A_STEP == 0:
                    yield None
            yield cluster

    def _settle(self, number: int, candidates: list[int]) -> None:
        """Put a row into the cluster of an older one that it resembles: its oldest row before all others."""
        kept = dict.fromkeys(self._homes.get(one, one) for one in candidates)
        for other in dict.fromkeys((*kept, *candidates)):
            similarity = self._similarity(number, other)
            if similarity >= LEAST_SIMILARITY:
                home = self._homes.get(other, other)
                self._homes[number] = home
                self._near.setdefault(home, []).append(NearCopy(number, other, round(similarity, 4)))
                return

    def _similarity(self, one: int, other: int) -> float:
        first, second = self._text_of(one), self._text_of(other)
        if first is None or second is None:
            return 0.0
        if max(len(first), len(second)) > COMPARED_CHARS and min(len(first), len(second)) < LEAST_SIMILARITY * max(
            len(first), len(second)
        ):
            # Alike as far as they are compared, but one of them goes on.
            return 0.0
        return jaccard(self._set(one, first), self._set(other, second))

    def _set(self, number: int, text: str) -> frozenset[int]:
        text_hash = hash(text)
        known_hash, known = self._sets.pop(number, (None, frozenset()))
        made = known if known_hash == text_hash else shingles(text)
        # The one that was used last stands last; the first goes when there are too many.
        self._sets[number] = (text_hash, made)
        if len(self._sets) > _SETS_KEPT:
            del self._sets[next(iter(self._sets))]
        return made
