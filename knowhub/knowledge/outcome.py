"""How it went with a goal: the same evidence for all that was shown for it (KM-076)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core import clock
from knowhub.core.operation import Draft, IdempotencyKey, Row, Unchanged, Write, is_live, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import OWNER
from knowhub.core.undo import RowRules
from knowhub.knowledge import decisions
from knowhub.knowledge.model import COLLECTION, Feedback
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView
from knowhub.knowledge.showings import SHOWINGS, Showings, Shown, digest, principals
from knowhub.knowledge.standing import standing_head
from knowhub.knowledge.votes import Ballot

OUTCOMES = "outcomes"
OP = "report_outcome"
APPLIED = "applied"
COUNTED = "counted_before"
UNDO_RULES = RowRules(is_verdict=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went, with the case that is evidence of it."""

    shown: Shown
    is_helpful: bool
    case: Mapping[str, Any]

    def row_id(self, ctx: RequestContext) -> str:
        """Return the id of the row that remembers for which records this verdict was counted."""
        return f"outcome-{digest([*principals(ctx), self.shown.session_id, self.shown.goal_id, self.is_helpful])}"


class OutcomeService:
    """Turns an outcome into evidence. Each record gets each verdict once for one goal, however often it is told."""

    def __init__(self, store: KnowledgeStore, showings: Showings) -> None:
        self._store = store
        self._showings = showings

    async def report(
        self, ctx: RequestContext, outcome: Outcome, key: IdempotencyKey | None = None
    ) -> tuple[Sequence[Mapping[str, str]], str | None]:
        """Give evidence on all that was shown and is still seen; return each one's status, and the operation.

        Nothing that was shown is no error: then there is nothing to say.
        """
        await self._showings.settle(ctx, outcome.shown)

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            ballot = Ballot(view, ctx)
            rows, reply = _decided(view, ctx, outcome, self._showings.known(ctx, outcome.shown), ballot)
            if not rows:
                return Unchanged(reply)
            writes = [decisions.write(row) for row in rows.values()]
            return Draft(OP, [*writes, *ballot.writes(), _noted(view, ctx, outcome, list(rows))], reply=reply)

        done = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(done, Unchanged):
            return done.answer["results"], None
        return (done.operation.reply or {})["results"], done.operation.operation_id


def _decided(
    view: KnowledgeView, ctx: RequestContext, outcome: Outcome, known: frozenset[str], ballot: Ballot
) -> tuple[dict[str, Row], dict[str, Any]]:
    """Return the rows with their evidence, and the status of each record that is there."""
    feedback = Feedback(helpful_case=outcome.case) if outcome.is_helpful else Feedback(harmful_case=outcome.case)
    noted = outcome.shown.among(view.get(SHOWINGS, outcome.shown.row_id(ctx)))
    counted = _counted(view, ctx, outcome)
    rows: dict[str, Row] = {}
    results = []
    # What could not be written yet was shown all the same; what was merged since gets its evidence where it went.
    standing = (standing_head(view, shown) for shown in (*noted, *sorted(known)))
    for knowledge_id, head in {head.id: head for head in standing if head is not None}.items():
        if not ctx.sees(head.audience):
            continue
        status = COUNTED if knowledge_id in counted else APPLIED
        if status == APPLIED:
            row = view.get(COLLECTION, knowledge_id) or {}
            rows[knowledge_id] = ballot.give(row, feedback)
        results.append({"knowledge_id": knowledge_id, "status": status})
    return rows, {"results": results}


def _counted(view: KnowledgeView, ctx: RequestContext, outcome: Outcome) -> frozenset[str]:
    row = view.get(OUTCOMES, outcome.row_id(ctx))
    return frozenset(row["knowledge_ids"]) if row is not None and is_live(row) else frozenset()


def _noted(view: KnowledgeView, ctx: RequestContext, outcome: Outcome, ids: Sequence[str]) -> Write:
    row_id, moment = outcome.row_id(ctx), clock.iso(view.now)
    before = view.get(OUTCOMES, row_id)
    counted = before["knowledge_ids"] if before is not None and is_live(before) else []
    row = {
        "id": row_id,
        "owner": ctx.actor,
        "scopes": [OWNER],
        "session_id": outcome.shown.session_id,
        "goal_id": outcome.shown.goal_id,
        "is_helpful": outcome.is_helpful,
        "knowledge_ids": [*counted, *ids],
        "version": next_version(before),
        "created_at": moment if before is None else before["created_at"],
        "updated_at": moment,
    }
    return Write(OUTCOMES, row_id, row)
