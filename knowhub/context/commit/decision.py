"""The decision of a commit: what is new on the newest rows, planned and turned into one operation's writes. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import results
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.parts import SessionState, TranscriptPart, list_messages, make_part_writes, read_state
from knowhub.context.commit.policies import apply_candidate
from knowhub.context.commit.results import PlannedWrite
from knowhub.context.commit.rule_extraction import ExtractedCandidates, extract_by_rules
from knowhub.context.commit.session_node import (
    COUNTED_CALLS,
    is_summary_recent,
    plan_session,
    summarize_session,
)
from knowhub.context.commit.tool_calls import list_call_ids, renumber_calls
from knowhub.context.commit_model import CandidateMemory, SessionCommit
from knowhub.context.model import READING, MemoryContext
from knowhub.context.reading import add_messages
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold
from knowhub.core import clock
from knowhub.core.operation import Draft, Row, Unchanged, View, Write

COMMIT_SESSION: Final = "commit_session"


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What was decided: plans and what becomes of them, the messages that are new, all that is written, and counts.

    `row` is the session's node after this commit. Where nothing is new there are no `writes`.
    """

    row: Row | None
    stats: Mapping[str, Any]
    planned: Sequence[PlannedWrite] = ()
    fresh: Sequence[TranscriptPart] = ()
    writes: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class CommitDecider:
    """Decides for one commit, as often as it is asked, each time on the view that it is given.

    `messages` are those that say something, and `keys` those of their content. `recalled` must not be learnt from them,
    and `reader` reads them, see `add_messages`. What takes long is done once for each state of the session.
    """

    commit: SessionCommit
    whose: MemoryContext
    messages: Sequence[Message]
    keys: Sequence[str]
    recalled: Sequence[str]
    reader: str
    fold: Fold
    _prepared: dict[frozenset[str], tuple[tuple[str, str] | None, ExtractedCandidates]] = field(default_factory=dict)

    def read_state(self, view: View) -> SessionState:
        """Return the session as it is, and where the messages stand in it. Raises Conflict."""
        return read_state(view, uri.session_uri(self.whose), self.messages, self.keys)

    def prepare(self, state: SessionState, stored: Sequence[Message]) -> None:
        """Do what takes long: summarise the session, and extract what its new messages say.

        `stored` are the newest messages of the session, where `needs_summary`.
        """
        fresh = [part.message for part in state.fresh]
        summary = summarize_session([*stored, *fresh], self.fold) if self.needs_summary(state) else None
        extracted = ExtractedCandidates()
        if self.commit.options.extract:
            extracted = extract_by_rules(state.uri, fresh, self.commit.used_tools, self.recalled, self.fold)
        self._prepared[state.uris] = summary, extracted

    def needs_summary(self, state: SessionState) -> bool:
        """Return whether the session has grown so much that it is to be summarised."""
        return not is_summary_recent(state.row, len(state.stored) + len(state.fresh))

    def decide(self, view: View) -> CommitDecision:
        """Return what is to be written. Raises Conflict.

        Where somebody else wrote to the session since it was prepared, that is done again.
        """
        state = self.read_state(view)
        if not state.fresh and not self.commit.used_tools:
            return CommitDecision(state.row, self._count_received(ExtractedCandidates(), state))
        if state.uris not in self._prepared:
            self.prepare(state, list_messages(view, state.stored if self.needs_summary(state) else ()))
        summary, extracted = self._prepared[state.uris]
        stats = self._count_received(extracted, state)
        counted = frozenset(call for message in state.stored for call in message.calls)
        counted |= frozenset(() if state.row is None else state.row["metadata"].get(COUNTED_CALLS, ()))
        candidates = extracted.candidates
        if len(state.fresh) == len(state.parts) > 0:
            # No message is a repeat, so no call of a tool is one.
            candidates = renumber_calls(candidates, counted)
        calls = [call for call in list_call_ids(candidates) if call not in counted]
        if not state.fresh and not calls:
            return CommitDecision(state.row, stats)
        new = make_part_writes(view, self.whose, state, calls)
        before: Row = {} if state.row is None else state.row["metadata"]
        numbers = [write.after["number"] for write in new]
        marks = {READING: add_messages(before, numbers, self.recalled, view.now, self.reader)}
        plan = plan_session(self.whose, state, summary, () if state.fresh else calls, marks)
        writer = ContextWriter(view)
        planned: list[PlannedWrite] = [(plan, writer.apply_plan(self.whose, plan), ())]
        new_candidates = _list_new(candidates, view, state.fresh, frozenset(calls))
        planned += [apply_candidate(view, writer, self.whose, candidate) for candidate in new_candidates]
        session_write, *nodes = writer.writes()
        actions = Counter(result.action.value for _, result, _ in planned[1:])
        writes = [session_write, *new, *nodes]
        return CommitDecision(session_write.after, stats | {"plans": dict(actions)}, planned, state.fresh, writes)

    def draft(self, view: View) -> Draft | Unchanged:
        """Return the operation; Unchanged where nothing is new. Raises Conflict."""
        decided = self.decide(view)
        if not decided.writes:
            return Unchanged()
        reply = {"plans": results.format_plans(decided.planned), "stats": decided.stats}
        return Draft(COMMIT_SESSION, decided.writes, reply=reply, group=self.commit.group)

    def _count_received(self, extracted: ExtractedCandidates, state: SessionState) -> dict[str, Any]:
        received = len(self.commit.messages)
        messages = {"received": received, "blank": received - len(self.messages), **state.counts}
        return {"messages": messages, "candidates": len(extracted.candidates), "dropped": dict(extracted.dropped)}


def _list_new(
    candidates: Sequence[CandidateMemory], view: View, fresh: Sequence[TranscriptPart], calls: frozenset[str]
) -> Iterator[CandidateMemory]:
    """Yield the candidates with a new source, with what the policies need of it."""
    ids = {part.uri: part.message_id for part in fresh}
    for candidate in candidates:
        uses = [use for use in candidate.uses if use.use_id in ids or use.use_id in calls]
        if uses or any(source in ids for source in candidate.source_refs):
            named = [named for source in candidate.source_refs if (named := ids.get(source))]
            yield replace(candidate, message_ids=named, recorded_at=clock.iso(view.now), uses=uses)
