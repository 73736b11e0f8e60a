"""The outcome of a goal, as evidence on the records that were used for it.

| said | evidence |
|---|---|
| success, `used` | helpful for these; passed over for what the same search showed above them |
| `wrong`, `not_helpful` | harmful for these, whatever the outcome |
| failure, `used` | weak: a failure blames nobody |
| nothing about records | weak for everything that was shown |
| external: network, quota, cancelled | none |

Reported again for the same goal, the last word counts: what it does not repeat is taken back. A field that is left out
says what it said before. Weak evidence and "passed over" are counted apart: `helpful` and `harmful` do not show them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from knowhub.core.errors import InvalidInput
from knowhub.core.operation import (
    Draft,
    HistoryStore,
    IdempotencyKey,
    Row,
    Unchanged,
    View,
    Write,
    is_live,
    next_version,
)
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import record_rules
from knowhub.knowledge.evidence import VoteKind, Voter, hash_id, with_feedback, with_unattributed_run, with_vote
from knowhub.knowledge.impressions import (
    IMPRESSIONS,
    ImpressionLog,
    ImpressionScope,
    list_principals,
    make_private_row,
    make_tags,
)
from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.knowledge.visibility import follow_merges

OUTCOMES = "outcomes"
OP = "report_outcome"
APPLIED = "applied"
COUNTED = "counted_before"
UNKNOWN = "unknown"
NOT_COUNTED = "not_counted"
WEAK: Final = "weak"
NOTHING: Final = "none"
_NOT_HELPFUL: Final = "it did not help"
_WRONG: Final = "it is wrong"
# Weak evidence on what was used, so that a later report without `used` knows it.
_USED_IN_FAILURE: Final = "used_failure"
_WEAK_RESULTS: Final = {f"{WEAK}_{result}": result for result in ("success", "failure")} | {_USED_IN_FAILURE: "failure"}


class OutcomeKind(StrEnum):
    """How a goal ended. `external` is a failure for a reason outside knowledge, such as the network."""

    SUCCESS = "success"
    FAILURE = "failure"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """How a goal ended, and which records helped or misled. They are named by id, or by the tags of the search.

    `used` is None if nothing was said, and empty if nothing helped; so are the others. Histories show `case`.
    """

    shown: ImpressionScope
    kind: OutcomeKind
    case: Mapping[str, Any]
    used: Sequence[str] | None = None
    not_helpful: Sequence[str] | None = None
    wrong: Sequence[str] | None = None

    @property
    def is_empty_report(self) -> bool:
        """Return whether the outcome names no record, and does not say that none helped."""
        return self.used is None and not self.not_helpful and not self.wrong

    @property
    def names(self) -> list[str]:
        """Return the records that it names."""
        return [*(self.wrong or ()), *(self.not_helpful or ()), *(self.used or ())]

    def row_id(self, ctx: RequestContext) -> str:
        """Return the id of the row that lists the evidence that was counted for this goal."""
        return f"outcome-{hash_id([*list_principals(ctx), self.shown.session_id, self.shown.goal_id])}"


@dataclass(frozen=True, slots=True)
class _Finding:
    """What an outcome says of one record: a kind of vote, `weak` or `none`, and why."""

    kind: str
    reason: str = ""


class _Counted(NamedTuple):
    """What the last report of a goal said of a record, and the id by which it named the record."""

    kind: str
    named_id: str


class OutcomeService:
    """Turns an outcome into evidence. Each finding counts once per goal and record, however often it is reported."""

    def __init__(self, store: HistoryStore, impressions: ImpressionLog) -> None:
        self._store = store
        self._impressions = impressions

    async def report(
        self, ctx: RequestContext, outcome: GoalOutcome, key: IdempotencyKey | None = None
    ) -> tuple[Sequence[Mapping[str, str]], str | None]:
        """Add evidence to the records; return the status and the evidence of each, and the operation.

        An outcome for which nothing was shown is no error. A named record that the caller does not see is `unknown`.
        Raises InvalidInput for a record that is said to have helped and not.
        """
        await self._impressions.flush(ctx, outcome.shown)

        def decide(view: View) -> Draft | Unchanged:
            row = view.get(IMPRESSIONS, outcome.shown.row_id(ctx))
            shown = outcome.shown.select_shown(row)
            reported = _resolve_tags(outcome, shown, make_tags(list(outcome.shown.tagged.select_shown(row))))
            before = view.get(OUTCOMES, outcome.row_id(ctx))
            counted = _read_counted(view, before)
            findings = judge(_fill_from_last_report(reported, counted), shown)
            not_repeated = {item: _Finding(NOTHING) for item in counted if item not in findings}
            rows: dict[str, Row] = {}
            results: dict[str, Mapping[str, str]] = {}
            for named, finding in (findings | not_repeated).items():
                # The survivor of a merge gets the evidence on a merged record.
                summary = follow_merges(view, named)
                record = None if summary is None else view.get(KNOWLEDGE, summary.id)
                if summary is None or record is None or not ctx.sees(summary.audience):
                    # What the caller has not named is not mentioned: it may be hidden from them by now.
                    if named in reported.names:
                        results[named] = _make_result(named, UNKNOWN, NOTHING)
                    continue
                if summary.id in results:
                    continue
                status, changed = _apply_finding(record, finding, outcome, counted, ctx, view.now)
                results[summary.id] = _make_result(summary.id, status, finding.kind)
                if status == APPLIED:
                    rows[summary.id] = {**changed, "version": next_version(record)}
            reply = {"results": list(results.values())}
            if not rows:
                return Unchanged(reply)
            goal = {"session_id": outcome.shown.session_id, "goal_id": outcome.shown.goal_id}
            marks = [f"{kind}:{named_id}" for kind, named_id in counted.values()]
            fields = {**goal, "outcome": outcome.kind.value, "counted": marks}
            after = make_private_row(ctx, outcome.row_id(ctx), before, view.now, fields)
            writes = [*map(record_rules.write, rows.values()), Write(OUTCOMES, after["id"], after)]
            return Draft(OP, writes, reply=reply)

        done = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(done, Unchanged):
            return done.answer["results"], None
        return (done.operation.reply or {})["results"], done.operation.operation_id


def judge(outcome: GoalOutcome, shown: Mapping[str, str]) -> dict[str, _Finding]:
    """Return what an outcome says of each record, by the id or the unknown name under which it was named.

    `shown` has the ids in the order of showing, each with the time of its search. Raises InvalidInput for a record that
    helped and did not.
    """
    wrong, not_helpful, used = outcome.wrong or (), outcome.not_helpful or (), outcome.used or ()
    for item in set(used) & {*wrong, *not_helpful}:
        raise InvalidInput.of(
            "used", f"{item!r} is in `used` and among what did not help, by its id or its tag; name it once"
        )
    if outcome.kind is OutcomeKind.EXTERNAL:
        return dict.fromkeys(outcome.names or shown, _Finding(NOTHING))
    if outcome.is_empty_report:
        return dict.fromkeys(shown, _Finding(WEAK))
    succeeded = outcome.kind is OutcomeKind.SUCCESS
    findings = {item: _Finding(VoteKind.HELPFUL) if succeeded else _Finding(WEAK, _USED_IN_FAILURE) for item in used}
    findings |= {item: _Finding(VoteKind.HARMFUL, _NOT_HELPFUL) for item in not_helpful}
    findings |= {item: _Finding(VoteKind.HARMFUL, _WRONG) for item in wrong}
    if succeeded:
        for item in _list_passed_over(used, shown):
            findings.setdefault(item, _Finding(VoteKind.PASSED_OVER))
    return findings


def _list_passed_over(used: Sequence[str], shown: Mapping[str, str]) -> list[str]:
    """List what each search showed above the first record of it that was used."""
    passed: list[str] = []
    for moment in dict.fromkeys(shown[item] for item in used if item in shown):
        for item in (item for item, time in shown.items() if time == moment):
            if item in used:
                break
            passed.append(item)
    return passed


def _resolve_tags(outcome: GoalOutcome, shown: Mapping[str, str], tags: Mapping[str, str]) -> GoalOutcome:
    """Return the outcome with ids in the place of tags. `tags` has the tags of ids."""
    ids = {tag: knowledge_id for knowledge_id, tag in tags.items()}

    def resolve(names: Sequence[str] | None) -> Sequence[str] | None:
        return None if names is None else [name if name in shown else ids.get(name, name) for name in names]

    return replace(
        outcome,
        used=resolve(outcome.used),
        not_helpful=resolve(outcome.not_helpful),
        wrong=resolve(outcome.wrong),
    )


def _read_counted(view: View, row: Row | None) -> dict[str, _Counted]:
    """Return what the last report of a goal said, by the id of the record; of a merged record, of its survivor."""
    counted: dict[str, _Counted] = {}
    for mark in row["counted"] if row is not None and is_live(row) else ():
        kind, _, named_id = mark.partition(":")
        survivor = follow_merges(view, named_id)
        counted[survivor.id if survivor else named_id] = _Counted(kind, named_id)
    return counted


def _fill_from_last_report(outcome: GoalOutcome, counted: Mapping[str, _Counted]) -> GoalOutcome:
    """Return the outcome with the fields that it leaves out filled from the last report."""

    def list_others(*wanted: str) -> list[str] | None:
        return [item for item, (kind, _) in counted.items() if kind in wanted and item not in outcome.names] or None

    used = list_others(VoteKind.HELPFUL, _USED_IN_FAILURE) if outcome.used is None else outcome.used
    is_silent = outcome.wrong is None and outcome.not_helpful is None
    return replace(outcome, used=used, wrong=list_others(VoteKind.HARMFUL) if is_silent else outcome.wrong)


def _apply_finding(
    row: Row,
    finding: _Finding,
    outcome: GoalOutcome,
    counted: dict[str, _Counted],
    ctx: RequestContext,
    now: float,
) -> tuple[str, Row]:
    """Return the status of a finding, and the record with its evidence in the place of that of the last report.

    `counted` then says what this report says of the record.
    """
    # Weak evidence is remembered with the result of the run, so that the next report can take it back.
    kind = (finding.reason or f"{WEAK}_{outcome.kind}") if finding.kind == WEAK else finding.kind
    former, named_id = counted.get(row["id"], _Counted(NOTHING, row["id"]))
    if kind == former:
        return NOT_COUNTED if kind == NOTHING else COUNTED, row
    voter = Voter(ctx.actor, hash_id([outcome.shown.session_id, outcome.shown.goal_id]))
    if former in _WEAK_RESULTS:
        row = with_unattributed_run(row, _WEAK_RESULTS[former], -1, now)
    elif former != NOTHING and (finding.kind in {WEAK, NOTHING} or named_id != row["id"]):
        row = with_vote(row, VoteKind.WITHDRAWN, now, replace(voter, record_id=named_id))
    counted.pop(row["id"], None)
    if kind == NOTHING:
        return APPLIED, row
    counted[row["id"]] = _Counted(kind, row["id"])
    return APPLIED, _add_evidence(row, finding, outcome, now, voter)


def _add_evidence(row: Row, finding: _Finding, outcome: GoalOutcome, now: float, voter: Voter) -> Row:
    match finding.kind:
        case VoteKind.HELPFUL:
            return with_feedback(row, Feedback(helpful_case=outcome.case), now, voter)
        case VoteKind.HARMFUL:
            case = {"reason": finding.reason, **outcome.case}
            return with_feedback(row, Feedback(harmful_case=case), now, voter)
        case VoteKind.PASSED_OVER:
            return with_vote(row, VoteKind.PASSED_OVER, now, voter)
        case _:
            return with_unattributed_run(row, outcome.kind.value, 1, now)


def _make_result(knowledge_id: str, status: str, evidence: str) -> Mapping[str, str]:
    return {"knowledge_id": knowledge_id, "status": status, "evidence": str(evidence)}
