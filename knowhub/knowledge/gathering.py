"""Candidates against what is stored: saved, merged into what says the same, or put in place of what they contradict.

One decision over all of them, so that one operation writes them and one undo takes them back (KS-046, KS-051…055).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core import scopes
from knowhub.core.errors import KnowHubError
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import Row, next_version
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import decisions, heads, profile
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Candidate, Category, Extraction, Result, Status
from knowhub.knowledge.model import COLLECTION, NewKnowledge
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.stock import Stock, Stored

_MAX_MESSAGE_IDS = 50
_MAX_CASE_CHARS = 4_096


@dataclass(frozen=True, slots=True)
class Place:
    """Whose a record is and who sees it; None stands for the caller's default."""

    owner: str | None
    scopes: tuple[str, ...] | None

    def audience(self, ctx: RequestContext) -> frozenset[str]:
        """Return who reads a record there."""
        return scopes.audience(self.scopes or ctx.default_scopes, self.owner or ctx.default_owner)


def place_of(ctx: RequestContext, candidate: Candidate) -> Place:
    """Return owner and scopes of a candidate, from who is calling (KS-045, KS-054).

    What the user said is theirs: owner `user:ID`, scopes `user:ID` and the project. What was done is the agent's, seen
    by it, the user and the project. Teams and organisations see it when somebody shares it.
    """
    return _place(ctx, is_users=candidate.category in PROFILE_CATEGORIES or candidate.expressed)


def users_place(ctx: RequestContext) -> Place:
    """Return where what the user says of themselves is kept."""
    return _place(ctx, is_users=True)


def _place(ctx: RequestContext, *, is_users: bool) -> Place:
    if ctx.is_root or not ctx.own:
        return Place(None, None)
    user = next((one for one in ctx.own if one.startswith("user:")), None)
    agent = next((one for one in ctx.own if one.startswith("agent:")), None)
    projects = sorted(one for one in ctx.visible or () if one.startswith("project:"))
    if is_users and user is not None:
        return Place(user, (user, *projects))
    return Place(agent or user, tuple(one for one in (agent, user, *projects) if one is not None))


class Gathering:
    """One decision over the candidates of a conversation; run anew on each newer state."""

    def __init__(self, view: KnowledgeView, ctx: RequestContext, asked: Extraction, ids: Ids) -> None:
        self._view = view
        self._ctx = ctx
        self._asked = asked
        self._ids = ids
        self._stocks: dict[str, Stock] = {}
        self.rows: dict[str, Row] = {}

    def use(self, stocks: Mapping[str, Stock]) -> None:
        """Hold the candidates against these, by owner; they are read as they stand now."""
        self._stocks = dict(stocks)
        for stock in self._stocks.values():
            stock.refresh(self._view)

    def gather(self, candidate: Candidate) -> Result:
        """Decide on one candidate; what cannot be saved is answered, and is no reason to stop."""
        try:
            return self._gathered(candidate)
        except KnowHubError as problem:
            return Result(candidate, Status.FAILED, None, problem.detail)

    def _gathered(self, candidate: Candidate) -> Result:
        place = place_of(self._ctx, candidate)
        stock = self._stocks[place.owner or self._ctx.default_owner]
        audience = place.audience(self._ctx)
        same = stock.same(candidate, audience)
        if same is not None:
            return self._met(candidate, same, stock)
        against = stock.against(candidate, audience)
        if against is not None and not candidate.expressed:
            reason = "the user said otherwise, and an inference does not weigh against that"
            return Result(candidate, Status.CONTRADICTED, against.row["id"], reason)
        if against is not None:
            return self._changed(candidate, against, place, stock)
        row = self._new_row(candidate, place)
        twin = self._twin(row)
        if twin is not None:
            return Result(candidate, Status.KNOWN, twin["id"], "the same is stored already")
        self._put(row, stock)
        return Result(candidate, Status.NEW, row["id"])

    def _met(self, candidate: Candidate, same: Stored, stock: Stock) -> Result:
        row_id = same.row["id"]
        message_id = self._message_id(candidate)
        if message_id is not None and profile.cites(same.row, message_id):
            return Result(candidate, Status.KNOWN, row_id, "its message was counted before")
        if not candidate.expressed:
            return Result(candidate, Status.KNOWN, row_id, "an agent that says it again is no evidence")
        case = self._case(candidate, "said again")
        after = profile.supported(same.row, candidate.content, case, self._view.now, stock.statement)
        self._put(after, stock)
        return Result(candidate, Status.MERGED, row_id)

    def _changed(self, candidate: Candidate, against: Stored, place: Place, stock: Stock) -> Result:
        """Put what the user says now in the place of what they said: that stays, with its confidence fallen.

        No word goes from one place to readers of another: who reads only the earlier record sees it as it was.
        """
        audience = place.audience(self._ctx)
        if candidate.category is Category.CORRECTION and against.category != Category.CORRECTION:
            candidate = _as_what_it_corrects(candidate, against.row, with_text=audience <= against.audience)
        row = self._new_row(candidate, place, against.row["id"])
        if against.audience <= audience:
            after = profile.contradicted(against.row, self._case(candidate, "contradicted"), self._view.now)
            self._put(after, stock)
        self._put(row, stock)
        return Result(candidate, Status.CHANGED, row["id"])

    def _new_row(self, candidate: Candidate, place: Place, supersedes: str | None = None) -> Row:
        cited = [self._asked.messages[number] for number in candidate.cited]
        ids = list(dict.fromkeys(one.message_id for one in cited if one.message_id))[-_MAX_MESSAGE_IDS:]
        tags: dict[str, str | list[str]] = dict(candidate.tags)
        if len(ids) > 1:
            tags["message_ids"] = ids
        new = NewKnowledge(
            task=candidate.task,
            content=candidate.content,
            types=candidate.types,
            tags=tags,
            scopes=place.scopes,
            owner=place.owner,
            message_id=ids[-1] if ids else None,
            source=self._source(candidate),
            supersedes=supersedes,
        )

        def taken(row_id: str) -> bool:
            return row_id in self.rows or self._view.raw(COLLECTION, row_id) is not None

        return decisions.new_row(new, knowledge_id(self._view.now, self._ids, taken), self._view.now, self._ctx)

    def _source(self, candidate: Candidate) -> dict[str, Any]:
        last = self._asked.messages[candidate.cited[-1]]
        named = {kind: entity for kind, _, entity in (one.partition(":") for one in sorted(self._ctx.own))}
        is_named = not self._ctx.is_root
        return {
            "category": "exp",
            "agent_id": named.get("agent") if is_named else None,
            "submitted_by": named.get("user") if is_named else None,
            "trace_id": self._asked.trace_id,
            "timestamp": last.timestamp,
        }

    def _case(self, candidate: Candidate, outcome: str) -> dict[str, Any]:
        last = self._asked.messages[candidate.cited[-1]]
        case = {
            "task": "extraction",
            "outcome": outcome,
            "query": candidate.content[:_MAX_CASE_CHARS],
            "message_id": last.message_id,
            "trace_id": self._asked.trace_id,
            "timestamp": last.timestamp,
        }
        return {name: value for name, value in case.items() if value is not None}

    def _message_id(self, candidate: Candidate) -> str | None:
        return self._asked.messages[candidate.cited[-1]].message_id

    def _twin(self, row: Row) -> Row | None:
        """Return a live record that says the same word for word and that nothing has replaced."""
        for head in self._view.duplicates(heads.duplicate_key(row)):
            newer = (one for one in self._view.superseders(head.id) if self._ctx.sees(one.audience))
            if self._ctx.sees(head.audience) and next(newer, None) is None:
                return self._view.get(COLLECTION, head.id)
        return None

    def _put(self, row: Row, stock: Stock) -> None:
        before = self._view.get(COLLECTION, row["id"])
        # Several pieces of evidence on one record are one change of its row: its version rises once.
        self.rows[row["id"]] = {**row, "version": next_version(before)}
        stock.put(self.rows[row["id"]])


def owners_of(ctx: RequestContext, candidates: Sequence[Candidate]) -> set[str]:
    """Return whose records the candidates may meet."""
    return {place_of(ctx, one).owner or ctx.default_owner for one in candidates}


def _as_what_it_corrects(candidate: Candidate, row: Row, *, with_text: bool) -> Candidate:
    """Return a correction as the kind of record that it puts right: a corrected preference is a preference."""
    if not with_text:
        kind = {"category": row["tags"]["category"]} if isinstance(row["tags"].get("category"), str) else {}
        return replace(candidate, types=tuple(row["types"]), tags={**candidate.tags, **kind})
    tags = {name: value for name, value in row["tags"].items() if isinstance(value, str)}
    return replace(candidate, types=tuple(row["types"]), task=row["task"], tags=tags)
