"""A limit to the tokens of an hour: a runaway caller costs no more than was meant."""

from collections import deque
from collections.abc import Callable

_HOUR_S = 3600.0
_SLOT_S = 60.0
_BYTES_A_TOKEN = 3


class TokenBudget:
    """Counts the tokens of the last hour, minute by minute; a limit of 0 is none."""

    def __init__(self, tokens_per_hour: int, monotonic: Callable[[], float]) -> None:
        self._limit = tokens_per_hour
        self._monotonic = monotonic
        self._slots: deque[tuple[float, int]] = deque()
        self._spent = 0

    def reserve(self, tokens: int) -> bool:
        """Take `tokens` for a request that is about to be sent; False, and nothing taken, when they go over the limit.

        What is reserved counts at once: calls that run side by side cannot overspend together.
        """
        self._drop_expired()
        if self._limit and self._spent + tokens > self._limit:
            return False
        self.add(tokens)
        return True

    def add(self, tokens: int) -> None:
        """Count tokens that were spent; a negative number gives back."""
        now = self._monotonic()
        if self._slots and now - self._slots[-1][0] < _SLOT_S:
            began, before = self._slots.pop()
            self._slots.append((began, before + tokens))
        else:
            self._slots.append((now, tokens))
        self._spent += tokens

    def _drop_expired(self) -> None:
        while self._slots and self._monotonic() - self._slots[0][0] >= _HOUR_S:
            self._spent -= self._slots.popleft()[1]


def estimate_request_tokens(text: bytes) -> int:
    """Guess the tokens of UTF-8 text where a server counts none: a Chinese character, or three letters, are one."""
    return len(text) // _BYTES_A_TOKEN + 1
