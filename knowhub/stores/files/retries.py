"""Which retry keys have been used: a second request with the same key gets the first one's answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from knowhub.core.erasing import ERASED, ERASING, is_erased
from knowhub.core.errors import Conflict
from knowhub.core.operation import Committed, IdempotencyKey, Operation
from knowhub.stores.files.batch import check_same_body, key_name
from knowhub.stores.files.log.history import History


@dataclass(frozen=True, slots=True)
class _Used:
    seq: int
    timestamp: float
    key: IdempotencyKey


class RetryKeys:
    """The keys of the last `lifetime_s` seconds, read from the log, so known after a restart and elsewhere."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._used: dict[tuple[str, ...], _Used] = {}

    def remember(self, operation: Operation, now: float) -> None:
        key = operation.idempotency
        if key is None or operation.timestamp + self._lifetime_s < now:
            return
        self._drop_expired(now)
        self._used[key_name(operation.account, key)] = _Used(operation.seq, operation.timestamp, key)

    def find(self, account: str, key: IdempotencyKey, now: float) -> int | None:
        """Return the sequence number of the operation that answered this key. Raises InvalidInput on another body."""
        used = self._used.get(key_name(account, key))
        if used is None or used.timestamp + self._lifetime_s < now:
            return None
        check_same_body(used.key, key)
        return used.seq

    async def answers(
        self, history: History, account: str, key: IdempotencyKey | None, now: float
    ) -> Sequence[Committed]:
        """Return all that the request of this key wrote; nothing for a fresh one.

        Raises InvalidInput as `find`, and Conflict where what it wrote was erased since: the first answer is gone.
        """
        seq = self.find(account, key, now) if key is not None else None
        first = await history.at_async(seq) if seq is not None else None
        operations = await history.group_of(first) if first is not None else []
        for operation in operations:
            erased = [change.id for change in operation.changes if is_erased(change.after)]
            if erased and not operation.op.startswith(ERASING):
                raise Conflict(f"the request was answered before, and {erased[0]!r} was erased since", {ERASED: erased})
        return [Committed(operation, replayed=True) for operation in operations]

    def oldest_seq(self, now: float) -> int | None:
        """Return the number of the oldest operation that a retry may still ask for; None when there is none."""
        self._drop_expired(now)
        return min((used.seq for used in self._used.values()), default=None)

    def _drop_expired(self, now: float) -> None:
        # Keys are in the order of time, so the expired keys come first.
        while self._used:
            oldest = next(iter(self._used))
            if self._used[oldest].timestamp + self._lifetime_s >= now:
                return
            del self._used[oldest]
