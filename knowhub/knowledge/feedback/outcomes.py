"""The outcome of a goal, as evidence on every record that was shown for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core import clock
from knowhub.core.operation import Draft, IdempotencyKey, Row, Unchanged, View, Write, is_live, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import OWNER
from knowhub.knowledge import decisions
from knowhub.knowledge.feedback.evidence import VoteRecorder, hash_id
from knowhub.knowledge.feedback.impressions import IMPRESSIONS, ImpressionLog, ImpressionScope, caller_identity
from knowhub.knowledge.model import COLLECTION, Feedback
from knowhub.knowledge.ports import KnowledgeStore
from knowhub.knowledge.visibility import follow_merges

OUTCOMES = "outcomes"
OP = "report_outcome"
APPLIED = "applied"
COUNTED = "counted_before"


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """Whether a goal was reached, with the case that is added as evidence."""

    shown: ImpressionScope
    is_helpful: bool
    case: Mapping[str, Any]

    def row_id(self, ctx: RequestContext) -> str:
        """Return the id of the row that lists the records for which this verdict was counted."""
        return f"outcome-{hash_id([*caller_identity(ctx), self.shown.session_id, self.shown.goal_id, self.is_helpful])}"


class OutcomeService:
    """Turns an outcome into evidence. Each verdict counts once per goal and record, however often it is reported."""

    def __init__(self, store: KnowledgeStore, impressions: ImpressionLog) -> None:
        self._store = store
        self._impressions = impressions

    async def report(
        self, ctx: RequestContext, outcome: GoalOutcome, key: IdempotencyKey | None = None
    ) -> tuple[Sequence[Mapping[str, str]], str | None]:
        """Add evidence to every shown record that the caller still sees; return the status of each, and the operation.

        An outcome for which nothing was shown is no error; its answer is empty.
        """
        await self._impressions.flush(ctx, outcome.shown)
        unwritten = self._impressions.get_ids(ctx, outcome.shown)
        case = outcome.case
        feedback = Feedback(helpful_case=case) if outcome.is_helpful else Feedback(harmful_case=case)

        def decide(view: View) -> Draft | Unchanged:
            votes = VoteRecorder(view, ctx)
            before = view.get(OUTCOMES, outcome.row_id(ctx))
            counted = before["knowledge_ids"] if before is not None and is_live(before) else []
            shown = outcome.shown.select_ids(view.get(IMPRESSIONS, outcome.shown.row_id(ctx)))
            rows: dict[str, Row] = {}
            results: dict[str, str] = {}
            for shown_id in dict.fromkeys((*shown, *sorted(unwritten))):
                # The survivor of a merge gets the evidence on a merged record.
                summary = follow_merges(view, shown_id)
                if summary is None or not ctx.sees(summary.audience) or summary.id in results:
                    continue
                results[summary.id] = COUNTED if summary.id in counted else APPLIED
                if results[summary.id] == APPLIED:
                    rows[summary.id] = votes.record(view.get(COLLECTION, summary.id) or {}, feedback)
            reply = {"results": [{"knowledge_id": item, "status": status} for item, status in results.items()]}
            if not rows:
                return Unchanged(reply)
            outcome_write = _make_write(view, ctx, outcome, before, [*counted, *rows])
            return Draft(OP, [*map(decisions.write, rows.values()), *votes.writes(), outcome_write], reply=reply)

        done = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(done, Unchanged):
            return done.answer["results"], None
        return (done.operation.reply or {})["results"], done.operation.operation_id


def _make_write(
    view: View, ctx: RequestContext, outcome: GoalOutcome, before: Row | None, counted: Sequence[str]
) -> Write:
    row_id, moment = outcome.row_id(ctx), clock.iso(view.now)
    row = {
        "id": row_id,
        "owner": ctx.actor,
        "scopes": [OWNER],
        "session_id": outcome.shown.session_id,
        "goal_id": outcome.shown.goal_id,
        "is_helpful": outcome.is_helpful,
        "knowledge_ids": list(counted),
        "version": next_version(before),
        "created_at": moment if before is None else before["created_at"],
        "updated_at": moment,
    }
    return Write(OUTCOMES, row_id, row)
