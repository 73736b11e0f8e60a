"""Texts held against each other: each is read once, and only those are compared that have a word in common."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.core import shingles
from knowhub.knowledge import profile
from knowhub.knowledge.extraction_model import Fold
from knowhub.knowledge.profile import Statement


@dataclass(frozen=True, slots=True)
class Meeting:
    """How far one text says what another says, and whether it contradicts it; `is_rival`, where only one can hold."""

    likeness: float = 0.0
    is_against: bool = False
    is_rival: bool = False


_STRANGERS: Final = Meeting()


class Meetings:
    """What was read and compared for one request; nothing of it outlives that."""

    def __init__(self, fold: Fold = str) -> None:
        self._fold = fold
        self._statements: dict[str, Statement] = {}
        self._keys: dict[str, frozenset[str]] = {}
        self._shingles: dict[str, frozenset[int]] = {}
        self._meetings: dict[tuple[str, str], Meeting] = {}
        self._alike: dict[tuple[str, str], float] = {}
        self._prepared: set[str] = set()
        self._worded: set[str] = set()

    def statement(self, text: str) -> Statement:
        """Read a text."""
        read = self._statements.get(text)
        if read is None:
            read = self._statements[text] = profile.statement(text, self._fold)
        return read

    def prepare(self, said: Sequence[str], stored: Sequence[str]) -> None:
        """Compare statements beforehand: of pure texts, so that it may be done beside the event loop."""
        sharing = _by_key({text: self._keys_of(text) for text in stored})
        for text in said:
            for other in _near(self._keys_of(text), sharing):
                self._met(text, other)
        self._prepared.update(said, stored)

    def prepare_words(self, said: Sequence[str], stored: Sequence[str]) -> None:
        """Compare texts of another kind beforehand, by their shingles."""
        sharing = _by_key({text: self._shingles_of(text) for text in stored})
        for text in said:
            for other in _near(self._shingles_of(text), sharing):
                self._alike_by_words(text, other)
        self._worded.update(said, stored)

    def meeting(self, said: str, stored: str) -> Meeting:
        """Tell what a statement is to a stored one."""
        done = self._meetings.get((said, stored))
        if done is not None:
            return done
        if said in self._prepared and stored in self._prepared:
            # They were held against each other, and have no word in common.
            return _STRANGERS
        if self._keys_of(said).isdisjoint(self._keys_of(stored)):
            return _STRANGERS
        return self._met(said, stored)

    def likeness_of_words(self, said: str, stored: str) -> float:
        """Return the share of their words that two texts have in common, from 0 to 1."""
        done = self._alike.get((said, stored))
        if done is not None:
            return done
        return 0.0 if said in self._worded and stored in self._worded else self._alike_by_words(said, stored)

    def _met(self, said: str, stored: str) -> Meeting:
        new, old = self.statement(said), self.statement(stored)
        is_rival = profile.is_against(new, old)
        is_against = is_rival and profile.is_against(new, old, is_exclusive=False)
        met = Meeting(0.0 if is_rival else profile.likeness(new, old), is_against, is_rival)
        self._meetings[said, stored] = met
        return met

    def _alike_by_words(self, said: str, stored: str) -> float:
        share = shingles.jaccard(self._shingles_of(said), self._shingles_of(stored))
        self._alike[said, stored] = share
        return share

    def _keys_of(self, text: str) -> frozenset[str]:
        found = self._keys.get(text)
        if found is None:
            found = self._keys[text] = profile.keys(self.statement(text))
        return found

    def _shingles_of(self, text: str) -> frozenset[int]:
        found = self._shingles.get(text)
        if found is None:
            found = self._shingles[text] = shingles.shingles(text)
        return found


def _by_key(keys: Mapping[str, Iterable[Hashable]]) -> dict[Hashable, list[str]]:
    sharing: dict[Hashable, list[str]] = {}
    for text, found in keys.items():
        for key in found:
            sharing.setdefault(key, []).append(text)
    return sharing


def _near(keys: Iterable[Hashable], sharing: Mapping[Hashable, list[str]]) -> set[str]:
    return set[str]().union(*(sharing.get(key, ()) for key in keys))
