"""What searches found before, each kept until an operation touches what it rests on (seed 001 §4.4, KT-205…218)."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, Final, TypeAlias

from knowhub.core.clock import Clock
from knowhub.core.operation import Row, is_live
from knowhub.keywords import agent_decision
from knowhub.keywords.descent import PickQuestion
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, Found

EXACT_TTL_S: Final = 3_600.0
DESCEND_TTL_S: Final = 3_600.0
INFOS_TTL_S: Final = 3_600.0
PICK_TTL_S: Final = 6 * 3_600.0
CAPACITY: Final = 20_000
CAPACITY_BYTES: Final = 64 * 1024 * 1024
REMEMBERED: Final = 50_000

_DESCENDS: Final = "descend:"
_PICKS: Final = "agent:pick:"
# What a model was paid for; the rest is found again in microseconds. Their values are JSON.
_PERSISTED: Final = (_DESCENDS, _PICKS)
_USES_A_PLACE: Final = 32
# No one answer may take the place of more than a sixteenth of all others.
_SHARE: Final = 16

Use: TypeAlias = tuple[str, str]
"""An account, and in it the id of a keyword or an info, or `token:<normal form>`."""


@dataclass(slots=True)
class _Entry:
    value: Any
    put_at: float
    expires_at: float
    uses: Sequence[Use]
    size: int
    known_at: int

    def is_over(self, now: float) -> bool:
        # Before it was put is over too: a clock that was set back would let it live for as long again.
        return not self.put_at <= now < self.expires_at


class ResultCache:
    """Values by key, each with an end and with what it rests on; a bounded number, those read last stay longest.

    It knows no caller: a key names the account and who reads. All together rest on at most 32 things per place, so
    that a few thousand wide answers cannot fill the memory.

    What is touched is remembered, not who rests on it (`node_used_by_keys` of the seed, turned around; KT-209): a value
    is put a thousand times for each time that one is touched. Whether it still holds is asked when it is read.
    """

    def __init__(
        self, clock: Clock, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES, remembered: int = REMEMBERED
    ) -> None:
        self._clock = clock
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._remembered = remembered
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._uses = 0
        # Moments are counted by touches: an entry is known to hold at one, and a thing was last touched at one.
        self._moment = 0
        self._touched_at: OrderedDict[Use, int] = OrderedDict()
        self._forgotten = 0
        self._touches: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Any | None:  # noqa: ANN401 -- each kind of key has its own kind of value
        """Return the value; None when there is none, its time is over, or something that it rests on was touched."""
        entry = self._held(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key: str, value: Any, ttl_s: float, uses: Sequence[Use]) -> None:  # noqa: ANN401 -- as `get`
        """Keep a value for `ttl_s` seconds, or until one of `uses` is touched."""
        now = self._clock.now()
        self._put(key, _Entry(value, now, now + ttl_s, uses, _size_of(value), self._moment))

    def left_s(self, key: str) -> float:
        """Return for how many seconds `get` will give the value; 0 where it gives none."""
        entry = self._held(key)
        return 0.0 if entry is None else entry.expires_at - self._clock.now()

    def touch(self, account: str, used: Iterable[str]) -> None:
        """Have exactly the entries that rest on one of `used` hold no more."""
        self._touches[account] = self._touches.get(account, 0) + 1
        self._moment += 1
        if not self._entries:
            return
        for one in used:
            self._touched_at[account, one] = self._moment
            self._touched_at.move_to_end((account, one))
        while len(self._touched_at) > self._remembered:
            _, self._forgotten = self._touched_at.popitem(last=False)

    def clear(self) -> None:
        """Drop every entry."""
        for key in list(self._entries):
            self._drop(key)

    def touches(self, account: str) -> int:
        """Count how often something of an account was touched: an answer that took longer than that is not kept."""
        return self._touches.get(account, 0)

    def persistable(self) -> list[dict[str, Any]]:
        """List the entries worth keeping over a restart as JSON objects, those read last at the end."""
        held = [(key, self._held(key)) for key in list(self._entries) if key.startswith(_PERSISTED)]
        return [
            {
                "key": key,
                "value": entry.value,
                "uses": [list(use) for use in sorted(entry.uses)],
                "expires_at": entry.expires_at,
            }
            for key, entry in held
            if entry is not None
        ]

    def restore(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Take back what `persistable` listed.

        Not what is over, nor what `persistable` lists never, nor what another version wrote in another shape: it is
        only asked again. The caller leaves out, or touches, what operations have touched since.
        """
        now = self._clock.now()
        for listed in entries:
            match _restored(listed, now):
                case key, entry if not entry.is_over(now):
                    entry.known_at = self._moment
                    self._put(key, entry)

    def _held(self, key: str) -> _Entry | None:
        """Return an entry that still holds; one that does not is dropped."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.is_over(self._clock.now()) or not self._stands(entry):
            self._drop(key)
            return None
        return entry

    def _stands(self, entry: _Entry) -> bool:
        known_at, touched_at = entry.known_at, self._touched_at
        if known_at == self._moment:
            return True
        # What was touched before the oldest touch that is remembered, nobody can say any more.
        if known_at < self._forgotten or any(touched_at.get(use, 0) > known_at for use in entry.uses):
            return False
        entry.known_at = self._moment
        return True

    def _put(self, key: str, entry: _Entry) -> None:
        self._drop(key)
        if len(entry.uses) > self._capacity * _USES_A_PLACE or entry.size > self._capacity_bytes // _SHARE:
            # Too many others would have to go for it.
            return
        self._entries[key] = entry
        self._uses += len(entry.uses)
        self._bytes += entry.size
        while self._is_over():
            self._drop(next(iter(self._entries)))

    def _is_over(self) -> bool:
        return (
            len(self._entries) > self._capacity
            or self._uses > self._capacity * _USES_A_PLACE
            or self._bytes > self._capacity_bytes
        )

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._uses -= len(entry.uses)
            self._bytes -= entry.size


def _size_of(value: object) -> int:
    """Count the bytes of the texts in a value, about; all else in it is small."""
    if isinstance(value, Found):
        # Of these there are the most, and they hold nothing but texts.
        rows = chain(value.path, value.infos, value.candidates)
        return len(value.node or b"") + sum(map(len, rows))
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Mapping):
        return _size_of(tuple(value.values()))
    return sum(map(_size_of, value)) if isinstance(value, list | tuple) else 0


class Picks:
    """The decisions of `pick_branch`, kept for six hours in a ResultCache (KT-207)."""

    def __init__(self, cache: ResultCache) -> None:
        self._cache = cache

    def get(self, asked: PickQuestion) -> Row | None:
        """Return what was decided when the very same was shown; None when nothing is kept."""
        decision: Row | None = self._cache.get(_pick_key(asked))
        return decision

    def put(self, asked: PickQuestion, decision: Row) -> None:
        """Keep a decision until a keyword changes that was shown, or that the shown ones hang below."""
        used = [*asked.start_ids, *(candidate[0] for candidate in asked.candidates)]
        self._cache.put(_pick_key(asked), decision, PICK_TTL_S, [(asked.account, one) for one in used])


def touched(collection: str, before: Row | None, after: Row) -> set[str]:
    """Name what one change of a row touches, an undo's too (KT-211…218).

    | change of | touches |
    |---|---|
    | a keyword | its id; the tokens that it had and has |
    | … that comes, goes, moves, or is seen by others | also the parent that it had and has: their children differ |
    | an info | its id |
    | a link | the ids of both its ends |
    | anything else | nothing |

    Whatever rests on a path names every keyword on it, so that an id is enough for all that lies below.
    """
    if collection == KEYWORDS:
        return _touched_by_keyword(before, after)
    if collection == LINKS:
        return {str(after["info_id"]), str(after["keyword_id"])}
    return {str(after["id"])} if collection == INFOS else set()


def _touched_by_keyword(before: Row | None, after: Row) -> set[str]:
    rows = [row for row in (before, after) if row is not None]
    used = {str(after["id"])}
    used.update(f"token:{token}" for row in rows for name in ("normalized", "pinyin") for token in row[name])
    if before is None or _place(before) != _place(after):
        used.update(str(row["parent_id"]) for row in rows if row["parent_id"] is not None)
    return used


def _place(row: Row) -> tuple[Any, ...]:
    """Return what decides under whom, and for whom, a keyword is among the children."""
    return is_live(row), row["parent_id"], sorted(map(str, row["scopes"])), row["owner"]


def _pick_key(asked: PickQuestion) -> str:
    """Name a question by all that the answer could depend on, the fingerprint of the candidates with it."""
    reader = None if asked.reader is None else sorted(asked.reader)
    told = [reader, asked.model, asked.intent, asked.query, asked.start_ids, asked.candidates]
    return f"{_PICKS}{asked.account}:{sha256(json.dumps(told).encode()).hexdigest()}"


def _restored(listed: Mapping[str, Any], now: float) -> tuple[str, _Entry] | None:
    match listed:
        case {"key": str(key), "value": value, "uses": [*pairs], "expires_at": float() | int() as expires_at}:
            uses = [_use(pair) for pair in pairs]
            ttl_s = _persisted_ttl_s(key, value)
            # What ends later than it could if it were put now was put before the clock was set back.
            if None in uses or ttl_s is None or expires_at > now + ttl_s:
                return None
            return key, _Entry(value, now, float(expires_at), list(filter(None, uses)), _size_of(value), 0)
    return None


def _persisted_ttl_s(key: str, value: object) -> float | None:
    """Return how long a value of this kind lives; None where it is none of those, or has not the shape of its kind."""
    if key.startswith(_PICKS):
        return PICK_TTL_S if agent_decision.is_row(value) else None
    match value:
        case {"path": [_, *_] as path, "reason": str()} if key.startswith(_DESCENDS):
            return DESCEND_TTL_S if all(isinstance(one, str) for one in path) else None
    return None


def _use(pair: object) -> Use | None:
    match pair:
        case [str(account), str(used)]:
            return account, used
    return None
