"""The log of the results that searches returned to a session or for a goal.

A session is not shown the same record twice, and the outcome of a goal reaches the records that were shown for it. A
row belongs to the caller that searched, and holds one session, or one goal where no session was named. Rows are
written in the background: a search never waits for them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from typing import Any

from knowhub.core import clock
from knowhub.core.background_writes import CLOSE_S, finish_tasks
from knowhub.core.clock import Clock
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Draft, HistoryStore, Row, Unchanged, View, Write, add_version
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import OWNER
from knowhub.knowledge.evidence import hash_id

IMPRESSIONS = "showings"
OP = "note_showing"
MAX_SHOWN = 1_000
MAX_WAITING = 256
_NO_GOAL = ""
_MILLISECOND_S = 0.001


@dataclass(frozen=True, slots=True)
class ImpressionScope:
    """The session, the goal, or both, that a search is made for."""

    session_id: str | None = None
    goal_id: str | None = None

    @property
    def is_named(self) -> bool:
        """Return whether there is a session or a goal."""
        return self.session_id is not None or self.goal_id is not None

    @property
    def tagged(self) -> "ImpressionScope":
        """The searches that share their tags: those of one goal, or those without a goal."""
        return replace(self, goal_id=self.goal_id or _NO_GOAL)

    def row_id(self, ctx: RequestContext) -> str:
        """Return the id of the row for this session or goal of the caller."""
        named = ["goal", self.goal_id] if self.session_id is None else ["session", self.session_id]
        return f"showing-{hash_id([*list_principals(ctx), *named])}"

    def select_shown(self, row: Row | None) -> dict[str, str]:
        """Return the ids in a row, in the order in which they were shown, with the time of each.

        They are those of the goal, or of all goals where none is named.
        """
        goals: Mapping[str, Mapping[str, str]] = (row or {}).get("goals", {})
        wanted = goals.values() if self.goal_id is None else [goals.get(self.goal_id, {})]
        return {knowledge_id: moment for shown in wanted for knowledge_id, moment in shown.items()}


@dataclass(slots=True)
class _PendingImpressions:
    """What is still to be written into one row: when each (goal, id) was first shown."""

    ctx: RequestContext
    scope: ImpressionScope
    times: dict[tuple[str, str], str] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class ImpressionLog:
    """Records and returns what was shown. A write that the store refuses is given up.

    `dropped` counts searches that were not recorded because too many rows waited, `failed` the refusals of the store.
    """

    def __init__(self, store: HistoryStore, clock: Clock, close_s: float = CLOSE_S) -> None:
        self._store = store
        self._clock = clock
        self._close_s = close_s
        self._pending: dict[tuple[str, str], _PendingImpressions] = {}
        self.dropped = 0
        self.failed = 0

    def list_shown(self, ctx: RequestContext, scope: ImpressionScope) -> dict[str, str]:
        """Return the ids that a named scope was shown before, in order, each with its time."""
        row_id = scope.row_id(ctx)
        shown = scope.select_shown(self._store.view(ctx.account).get(IMPRESSIONS, row_id))
        pending = self._pending.get((ctx.account, row_id))
        times = pending.times if pending is not None else {}
        return shown | {item: moment for (goal, item), moment in times.items() if scope.goal_id in {None, goal}}

    def tag_ids(self, ctx: RequestContext, scope: ImpressionScope, ids: Sequence[str]) -> dict[str, str]:
        """Return a short tag for each id, by which an outcome may name it: a, b … z, aa … in the order of showing."""
        return make_tags([*self.list_shown(ctx, scope.tagged), *ids])

    def record(self, ctx: RequestContext, scope: ImpressionScope, ids: Sequence[str]) -> None:
        """Start to write the ids that are new in a named scope. Needs a running event loop."""
        goal = scope.goal_id or _NO_GOAL
        known = self.list_shown(ctx, ImpressionScope(scope.session_id, goal))
        new = [item for item in ids if item not in known]
        key = (ctx.account, scope.row_id(ctx))
        if not new:
            return
        if key not in self._pending and len(self._pending) >= MAX_WAITING:
            self.dropped += 1
            return
        pending = self._pending.setdefault(key, _PendingImpressions(ctx, scope))
        now = self._clock.now()
        # The time tells the searches of a goal apart.
        while (moment := clock.iso(now)) in known.values():
            now += _MILLISECOND_S
        pending.times |= {(goal, item): moment for item in new}
        for oldest in list(pending.times)[:-MAX_SHOWN]:
            del pending.times[oldest]
        if pending.task is None:
            pending.task = asyncio.get_running_loop().create_task(self._write(pending))

    async def flush(self, ctx: RequestContext, scope: ImpressionScope) -> None:
        """Wait until the pending ids there are written, or given up."""
        pending = self._pending.get((ctx.account, scope.row_id(ctx)))
        if pending is not None and pending.task is not None:
            await asyncio.wait({pending.task})

    async def close(self) -> None:
        """Wait at most `close_s` seconds for pending writes; drop the rest."""
        tasks = {pending.task for pending in self._pending.values() if pending.task is not None}
        self.dropped += await finish_tasks(tasks, self._close_s)

    async def _write(self, pending: _PendingImpressions) -> None:
        ctx = pending.ctx
        try:
            # Ids that are noted during a write go into the next one.
            while pending.times:
                batch = dict(pending.times)
                await self._store.commit(ctx.account, ctx.actor, lambda view: _decide(view, pending, batch))  # noqa: B023 -- awaited here
                for key in batch:
                    pending.times.pop(key, None)
        except KnowHubError:
            self.failed += 1
        finally:
            self._pending.pop((ctx.account, pending.scope.row_id(ctx)), None)


def make_tags(ids: Sequence[str]) -> dict[str, str]:
    """Return the tags of ids by their positions; a repeated id has that of the first."""
    tags: dict[str, str] = {}
    for position, knowledge_id in enumerate(dict.fromkeys(ids)):
        number, tag = position + 1, ""
        while number:
            number, letter = divmod(number - 1, len(ascii_lowercase))
            tag = ascii_lowercase[letter] + tag
        tags[knowledge_id] = tag
    return tags


def list_principals(ctx: RequestContext) -> Sequence[str]:
    """Return every principal of the caller: two users of one agent are two callers."""
    return sorted(ctx.own) or [ctx.actor]


def _decide(view: View, pending: _PendingImpressions, batch: dict[tuple[str, str], str]) -> Draft | Unchanged:
    row_id = pending.scope.row_id(pending.ctx)
    before = view.get(IMPRESSIONS, row_id)
    times = {
        (goal, item): moment for goal, ids in (before or {}).get("goals", {}).items() for item, moment in ids.items()
    }
    # A stored time is kept. The sort is stable: of one moment, the last noted ids remain.
    newest = sorted((times | batch | times).items(), key=lambda entry: entry[1])[-MAX_SHOWN:]
    goals: dict[str, dict[str, str]] = {}
    for (goal, item), moment in newest:
        goals.setdefault(goal, {})[item] = moment
    if before is not None and goals == before["goals"]:
        return Unchanged()
    fields = {"session_id": pending.scope.session_id, "goals": goals}
    return Draft(OP, [Write(IMPRESSIONS, row_id, make_private_row(pending.ctx, row_id, before, view.now, fields))])


def make_private_row(
    ctx: RequestContext, row_id: str, before: Row | None, now: float, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the next version of a row that only its caller sees."""
    return add_version({"id": row_id, "owner": ctx.default_owner, "scopes": [OWNER], **fields}, before, now)
