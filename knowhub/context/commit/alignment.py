"""Where the messages that are sent lie in their session: which repeat it, and which go on with it. Pure.

A message with an id is known by that. Those without ids are known by their place. What is sent is laid on the session,
in which forgotten and undone messages have their places too, and a message repeats the one that it lies on:

1. Where a message with an id is known, those without around it are compared with what stands around that one.
2. Else where the list begins as the session does, and says the same as far as both go, or for three messages at least.
3. Else where the list begins with what the session ends with, the longest such end: a window that goes on, or a retry.
4. Else it goes on: all of it is new, whatever of it was said before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SAME_BEGINNING: Final = 3
"""So many messages alike do not begin a session twice by chance; one greeting does."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is sent: its URI where it has an id, and a key that only messages alike share."""

    uri: str | None
    key: str


@dataclass(frozen=True, slots=True)
class Stood:
    """A message of the session, a deleted one too."""

    uri: str
    key: str


def repeated(sent: Sequence[Sent], session: Sequence[Stood]) -> list[str | None]:
    """Return for each message that is sent the URI of the one that it repeats; None for one that is new."""
    places = {one.uri: place for place, one in enumerate(session)}
    found = [None if one.uri is None else places.get(one.uri) for one in sent]
    if any(place is not None for place in found):
        _spread(found, sent, session)
    else:
        begins, count = _overlap([one.key for one in sent], [one.key for one in session])
        found[:count] = range(begins, begins + count)
    return [None if place is None else session[place].uri for place in found]


def _spread(found: list[int | None], sent: Sequence[Sent], session: Sequence[Stood]) -> None:
    """Place those without ids behind, then those before, a message that has a place."""
    for step, order in ((1, range(len(sent))), (-1, range(len(sent) - 1, -1, -1))):
        taken = {place for place in found if place is not None}
        place: int | None = None
        for at in order:
            if found[at] is not None:
                place = found[at]
                continue
            if place is None:
                continue
            place += step
            is_same = 0 <= place < len(session) and place not in taken and session[place].key == sent[at].key
            place = place if is_same and sent[at].uri is None else None
            found[at] = place


def _overlap(sent: Sequence[str], session: Sequence[str]) -> tuple[int, int]:
    """Return where in the session the list begins, and how many messages of it stand there."""
    pairs = zip(sent, session, strict=False)
    alike = next((at for at, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(sent), len(session)))
    if alike >= min(len(sent), len(session), _SAME_BEGINNING):
        return 0, alike
    count = _end_that_begins(sent, session[-len(sent) :])
    return len(session) - count, count


def _end_that_begins(sent: Sequence[str], end: Sequence[str]) -> int:
    """Return the length of the longest end of a list with which another begins (Knuth, Morris and Pratt)."""
    borders = [0]
    for key in sent[1:]:
        length = borders[-1]
        while length and sent[length] != key:
            length = borders[length - 1]
        borders.append(length + (sent[length] == key))
    length = 0
    for key in end:
        while length and (length == len(sent) or sent[length] != key):
            length = borders[length - 1]
        length += sent[length] == key
    return length
