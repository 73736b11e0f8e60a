"""How many sealed bodies one principal may be shown: whoever got hold of a key is slowed down, and noticed."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from knowhub.core.errors import TooManyRequests
from knowhub.core.request_context import RequestContext

_HOUR_S = 3600.0
_PRINCIPALS = 10_000


@dataclass(slots=True)
class _Allowance:
    left: float
    counted_at: float


class RevealQuota:
    """A bucket of `an_hour` reveals for each principal, filled evenly; 0 is no limit. `monotonic` in seconds.

    It is held in memory: each process counts its own, and a restart begins anew. The log has every reveal.
    """

    def __init__(self, an_hour: int, monotonic: Callable[[], float]) -> None:
        self._an_hour = an_hour
        self._monotonic = monotonic
        self._allowances: OrderedDict[tuple[str, str], _Allowance] = OrderedDict()

    def take(self, ctx: RequestContext) -> None:
        """Count one reveal. Raises TooManyRequests, naming the seconds after which there is another."""
        if self._an_hour == 0:
            return
        # Who holds it, as rates of requests have it, and not the key: another key is no other allowance.
        now, principal = self._monotonic(), (ctx.account, ctx.holder)
        allowance = self._allowances.pop(principal, None) or _Allowance(float(self._an_hour), now)
        rate = self._an_hour / _HOUR_S
        allowance.left = min(float(self._an_hour), allowance.left + (now - allowance.counted_at) * rate)
        allowance.counted_at = now
        self._allowances[principal] = allowance
        while len(self._allowances) > _PRINCIPALS:
            # Whoever revealed nothing for longest has the fullest bucket.
            self._allowances.popitem(last=False)
        if allowance.left < 1:
            raise TooManyRequests(
                f"{self._an_hour} sealed bodies an hour are revealed to one principal (KNOWHUB_REVEALS_PER_HOUR)",
                (1 - allowance.left) / rate,
            )
        allowance.left -= 1
