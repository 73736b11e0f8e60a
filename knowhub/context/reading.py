"""How far a model has read a session: which messages wait, and what became of those that were read.

It is kept in the metadata of the session's node, so that what was learnt and how far was read are one operation.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

from knowhub.context.model import NODES, PARTS, READING
from knowhub.conversations.recalled import normalize_words
from knowhub.core.operation import Operation, Row, is_live

READ_FIELDS: Final = ("waiting", "since", "by_model", "dropped", "recalled")
"""What an undo leaves as it is: what a model has read it does not read again, though what it learnt is undone."""
Reader: TypeAlias = Literal["by_model", "by_rules", "not_asked"]
"""What reads messages: a model in the background, the rules of the commit, or nothing."""
UNREAD_COUNTS: Final = ("by_rules", "not_asked")
_MAX_RECALLED: Final = 400
_MIN_CHARS: Final = 8


def get_reading(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far a session was read.

    `waiting` are ranges of the numbers of messages that a model shall read, `since` since when they wait. `by_model`,
    `by_rules` and `not_asked` count messages, `dropped` lists what was left out: why, and how much. `recalled` are
    hashes of the lines that were recalled into the messages that wait.
    """
    return {
        "waiting": [],
        "since": None,
        "by_model": 0,
        "by_rules": 0,
        "not_asked": 0,
        "dropped": [],
        "recalled": [],
        **metadata.get(READING, {}),
    }


def add_messages(
    metadata: Mapping[str, Any], numbers: Sequence[int], recalled: Sequence[str], now: float, reader: Reader
) -> dict[str, Any]:
    """Return how far a session is read when messages are added that `reader` reads. Only a model reads later."""
    reading = get_reading(metadata)
    if reader != "by_model":
        return {**reading, reader: reading[reader] + len(numbers)}
    waiting = [list(span) for span in reading["waiting"]]
    for number in sorted(numbers):
        if waiting and waiting[-1][1] == number:
            waiting[-1][1] = number + 1
        else:
            waiting.append([number, number + 1])
    since = reading["since"] if reading["waiting"] else now
    known = list(dict.fromkeys((*reading["recalled"], *hash_lines(recalled))))[-_MAX_RECALLED:]
    return {**reading, "waiting": waiting, "since": since if waiting else None, "recalled": known}


def mark_segment_read(
    row: Row, first: int, end: int, counts: Mapping[str, int], dropped: Mapping[str, int]
) -> Row | None:
    """Return the metadata of a session whose waiting messages from `first` to before `end` were read.

    None where these do not wait (any more): somebody else has read them.
    """
    reading = get_reading(row["metadata"])
    if not reading["waiting"] or reading["waiting"][0][0] != first:
        return None
    left = [[max(start, end), stop] for start, stop in reading["waiting"] if stop > end]
    summed = dict(reading["dropped"])
    for why, count in dropped.items():
        summed[why] = summed.get(why, 0) + count
    read = {name: reading[name] + count for name, count in counts.items()}
    rest: dict[str, Any] = {} if left else {"since": None, "recalled": []}
    after = {**reading, **read, "waiting": left, "dropped": [list(item) for item in summed.items()], **rest}
    return {**row["metadata"], READING: after}


def reads_messages(commit: Operation, later: Operation) -> bool:
    """Return whether a model read in the later operation any message that a commit added."""
    added = {
        (change.after["session_uri"], change.after["number"])
        for change in commit.changes
        if change.collection == PARTS and is_live(change.after) and not is_live(change.before)
    }
    sessions = [change for change in later.changes if change.collection == NODES and is_live(change.before)]
    read = {
        (change.id, number)
        for change in sessions
        for number in _list_waiting(change.before) - _list_waiting(change.after)
    }
    return not added.isdisjoint(read)


def _list_waiting(row: Row | None) -> set[int]:
    spans = get_reading((row or {}).get("metadata", {}))["waiting"]
    return {number for start, stop in spans for number in range(start, stop)}


def hash_lines(texts: Iterable[str]) -> Iterable[str]:
    """Yield hashes of texts and their lines: what was recalled is recognised, and its words are stored nowhere else."""
    for text in texts:
        for line in dict.fromkeys((text, *text.splitlines())):
            words = normalize_words(line)
            if len(words) >= _MIN_CHARS:
                yield blake2b(words.encode("utf-8", "replace"), digest_size=6).hexdigest()
