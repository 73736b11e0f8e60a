"""What was shown to whom: so that a session is not told twice, and a goal's outcome reaches all that was shown for it.

A row of `showings` is one session's, or, without a session, one goal's; it belongs to the caller that searched. It is
written behind the search, which never waits for it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from knowhub.core import clock
from knowhub.core.clock import Clock
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Draft, Row, Unchanged, Write, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import OWNER
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView

SHOWINGS = "showings"
OP = "note_showing"
MAX_SHOWN = 1_000
MAX_WAITING = 256
CLOSE_S = 5.0
_NO_GOAL = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """For whom something is shown: for a goal, in a session, or both; one of them is given."""

    session_id: str | None = None
    goal_id: str | None = None

    @property
    def is_named(self) -> bool:
        """Tell whether anything says for whom."""
        return self.session_id is not None or self.goal_id is not None

    def row_id(self, ctx: RequestContext) -> str:
        """Return the id of the row that holds what was shown there to this caller."""
        named = ["goal", self.goal_id] if self.session_id is None else ["session", self.session_id]
        return f"showing-{digest([*principals(ctx), *named])}"

    def among(self, row: Row | None) -> list[str]:
        """Return the ids that a row says were shown: for the goal, or without one for any, each once."""
        goals: Mapping[str, Mapping[str, str]] = (row or {}).get("goals", {})
        wanted = goals.values() if self.goal_id is None else [goals.get(self.goal_id, {})]
        return list(dict.fromkeys(knowledge_id for ids in wanted for knowledge_id in ids))


@dataclass(slots=True)
class _Waiting:
    """What is to be written into one row: when each (goal, id) was shown first."""

    ctx: RequestContext
    shown: Shown
    times: dict[tuple[str, str], str] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class Showings:
    """Notes and knows what was shown. What cannot be written counts here and nowhere else, and is tried again.

    `dropped` counts what was given up because too much waited, `failed` the times that the store refused.
    """

    def __init__(self, store: KnowledgeStore, clock: Clock, close_s: float = CLOSE_S) -> None:
        self._store = store
        self._clock = clock
        self._close_s = close_s
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self.dropped = 0
        self.failed = 0

    def known(self, ctx: RequestContext, shown: Shown) -> frozenset[str]:
        """Return the ids that were shown before; nothing where nobody is named."""
        if not shown.is_named:
            return frozenset()
        row_id = shown.row_id(ctx)
        ids = shown.among(self._store.view(ctx.account).get(SHOWINGS, row_id))
        waiting = self._waiting.get((ctx.account, row_id))
        times = waiting.times if waiting is not None else {}
        return frozenset([*ids, *(one for goal, one in times if shown.goal_id in {None, goal})])

    def note(self, ctx: RequestContext, shown: Shown, ids: Sequence[str]) -> None:
        """Start to write down what a search shows; what was shown there before is not written again.

        Call it in a running event loop.
        """
        known = self.known(ctx, Shown(shown.session_id, shown.goal_id or _NO_GOAL)) if shown.is_named else frozenset()
        new = [one for one in ids if one not in known]
        if not shown.is_named or not new:
            return
        waiting = self._place(ctx, shown)
        if waiting is None:
            self.dropped += 1
            return
        moment = clock.iso(self._clock.now())
        waiting.times |= {(shown.goal_id or _NO_GOAL, one): moment for one in new}
        for oldest in list(waiting.times)[:-MAX_SHOWN]:
            del waiting.times[oldest]
        if waiting.task is None:
            waiting.task = asyncio.get_running_loop().create_task(self._write(waiting))

    async def settle(self, ctx: RequestContext, shown: Shown) -> None:
        """Wait until what was noted there is written, or has failed to be."""
        waiting = self._waiting.get((ctx.account, shown.row_id(ctx)))
        if waiting is not None and waiting.task is not None:
            await asyncio.wait({waiting.task})

    async def close(self) -> None:
        """Wait for what is being written, `close_s` seconds at most; the rest is dropped."""
        tasks = {waiting.task for waiting in self._waiting.values() if waiting.task is not None}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._close_s)
        self.dropped += len(late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _place(self, ctx: RequestContext, shown: Shown) -> _Waiting | None:
        """Return where what is shown there waits to be written; None where too much waits already."""
        place = (ctx.account, shown.row_id(ctx))
        if place not in self._waiting and len(self._waiting) >= MAX_WAITING:
            # What the store has refused makes room; what is being written does not.
            idle = next((other for other, one in self._waiting.items() if one.task is None), None)
            if idle is None:
                return None
            del self._waiting[idle]
            self.dropped += 1
        return self._waiting.setdefault(place, _Waiting(ctx, shown))

    async def _write(self, waiting: _Waiting) -> None:
        try:
            while waiting.times:
                # What is shown while this is written goes with the next one.
                await self._write_once(waiting, dict(waiting.times))
        except KnowHubError:
            self.failed += 1
        finally:
            waiting.task = None
            if not waiting.times:
                self._waiting.pop((waiting.ctx.account, waiting.shown.row_id(waiting.ctx)), None)

    async def _write_once(self, waiting: _Waiting, noted: Mapping[tuple[str, str], str]) -> None:
        ctx = waiting.ctx
        await self._store.commit(ctx.account, ctx.actor, lambda view: _draft(view, waiting, noted))
        for key in noted:
            waiting.times.pop(key, None)


def principals(ctx: RequestContext) -> Sequence[str]:
    """Return all that a caller is, not the actor alone: two users of one agent are two."""
    return sorted(ctx.own) or [ctx.actor]


def digest(named: Sequence[Any]) -> str:
    """Hash what names a row: ids of sessions and goals may be long, and hold any character."""
    return blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _draft(view: KnowledgeView, waiting: _Waiting, noted: Mapping[tuple[str, str], str]) -> Draft | Unchanged:
    row_id = waiting.shown.row_id(waiting.ctx)
    before = view.get(SHOWINGS, row_id)
    goals: dict[str, dict[str, str]] = {goal: dict(ids) for goal, ids in (before or {}).get("goals", {}).items()}
    for (goal, knowledge_id), moment in noted.items():
        goals.setdefault(goal, {}).setdefault(knowledge_id, moment)
    bounded = _newest(goals)
    if before is not None and bounded == before["goals"]:
        return Unchanged()
    moment = clock.iso(view.now)
    row = {
        "id": row_id,
        "owner": waiting.ctx.actor,
        "scopes": [OWNER],
        "session_id": waiting.shown.session_id,
        "goals": bounded,
        "version": next_version(before),
        "created_at": moment if before is None else before["created_at"],
        "updated_at": moment,
    }
    return Draft(OP, [Write(SHOWINGS, row_id, row)])


def _newest(goals: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    entries = [(moment, goal, knowledge_id) for goal, ids in goals.items() for knowledge_id, moment in ids.items()]
    # A stable sort: of one moment, what was noted last is kept.
    kept = sorted(entries, key=lambda entry: entry[0])[-MAX_SHOWN:]
    bounded: dict[str, dict[str, str]] = {}
    for moment, goal, knowledge_id in kept:
        bounded.setdefault(goal, {})[knowledge_id] = moment
    return bounded
