"""Identity as an input, and the forms of ids that KnowHub makes itself."""

import secrets
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

_UUID_DIGITS = 32
_SEQ_DIGITS = 12
_POOLED_BYTES = 1024
_DAY_S = 86_400


class Ids(Protocol):
    def hex(self, digits: int) -> str:
        """Return `digits` random lower-case hexadecimal digits."""


class RandomIds:
    """Digits from the system's generator, fetched many at a time: each call of it costs more than a save's JSON."""

    def __init__(self) -> None:
        self._pool = ""

    def hex(self, digits: int) -> str:
        """Return digits that were never returned before."""
        if len(self._pool) < digits:
            self._pool = secrets.token_hex(_POOLED_BYTES + digits)
        taken, self._pool = self._pool[:digits], self._pool[digits:]
        return taken


def random_bytes(count: int) -> bytes:
    """Return bytes for keys and nonces, fresh from the system's generator in any thread, and kept in no pool."""
    return secrets.token_bytes(count)


def uuid4_id(ids: Ids) -> str:
    """Make a random version 4 UUID, the id of a keyword or an info."""
    digits = ids.hex(30)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[15:18]}-{digits[18:]}"


def operation_id(seq: int, ids: Ids) -> str:
    """Make the id of the operation at `seq`: a version 8 UUID that begins with the sequence number.

    So an operation is found by its id with no map from ids to places in memory.
    """
    tail = ids.hex(18)
    head = f"{seq:0{_SEQ_DIGITS}x}"
    return f"{head[:8]}-{head[8:]}-8{tail[:3]}-a{tail[3:6]}-{tail[6:]}"


def seq_of(operation: str) -> int | None:
    """Read the sequence number out of an operation's id; None when it is not one."""
    digits = operation.replace("-", "")
    if len(digits) != _UUID_DIGITS or len(operation) != _UUID_DIGITS + 4 or not digits.isalnum():
        return None
    try:
        return int(digits[:_SEQ_DIGITS], 16)
    except ValueError:
        return None


def knowledge_id(now: float, ids: Ids, taken: Callable[[str], bool]) -> str:
    """Make `knowledge-{YYYYMMDD}-{random}`: four digits, more when the day is crowded."""
    day = _day(int(now // _DAY_S))
    digits = 4
    while True:
        candidate = f"knowledge-{day}-{ids.hex(digits)}"
        if not taken(candidate):
            return candidate
        # Four digits are 65,536 ids a day; each collision makes room for 256 times as many.
        digits += 2


@lru_cache(maxsize=4)
def _day(days: int) -> str:
    return time.strftime("%Y%m%d", time.gmtime(days * _DAY_S))
