"""The decision of a commit: what is new on the newest rows, planned and turned into one operation's writes. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import results
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.parts import SessionState, list_messages, make_part_writes, read_state
from knowhub.context.commit.policies import apply_candidate
from knowhub.context.commit.rule_extraction import ExtractedCandidates, extract_by_rules
from knowhub.context.commit.session_node import COUNTED_CALLS, is_summary_recent, plan_session
from knowhub.context.commit.session_summary import summarize_session
from knowhub.context.commit.tool_calls import list_call_ids, renumber_calls
from knowhub.context.commit_model import CandidateMemory, CommitDecision, SessionCommit
from knowhub.context.model import MemoryContext
from knowhub.context.reading import Reader, add_messages
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold
from knowhub.core import clock
from knowhub.core.operation import Draft, Row, Unchanged, View

COMMIT_SESSION: Final = "commit_session"


@dataclass(frozen=True, slots=True)
class CommitDecider:
    """Decides for one commit, as often as it is asked, each time on the view that it is given.

    `messages` are the non-empty ones, and `keys` their `make_content_keys`. Of the texts `recalled` nothing is learnt.
    What takes long is done once for each state of the session.
    """

    commit: SessionCommit
    whose: MemoryContext
    messages: Sequence[Message]
    keys: Sequence[str]
    recalled: Sequence[str]
    reader: Reader
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

    def draft(self, view: View) -> Draft | Unchanged:
        """Return the operation; Unchanged where nothing is new. Raises Conflict."""
        decided = self.decide(view)
        if not decided.writes:
            return Unchanged()
        reply = {"plans": results.format_plans(decided.applied), "stats": decided.stats}
        return Draft(COMMIT_SESSION, decided.writes, reply=reply, group=self.commit.group)

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
        candidates, calls = _select_new(state, extracted.candidates, clock.iso(view.now))
        if not state.fresh and not calls:
            return CommitDecision(state.row, stats)
        messages = make_part_writes(view, self.whose, state, calls)
        before: Row = {} if state.row is None else state.row["metadata"]
        numbers = [write.after["number"] for write in messages]
        reading = add_messages(before, numbers, self.recalled, view.now, self.reader)
        writer = ContextWriter(view, self.whose)
        session = writer.apply_plan(plan_session(self.whose, state, summary, () if state.fresh else calls, reading))
        memories = [apply_candidate(writer, candidate) for candidate in candidates]
        session_write, *nodes = writer.list_writes()
        return CommitDecision(
            row=session_write.after,
            stats=stats | {"plans": dict(Counter(item.result.action.value for item in memories))},
            applied=[session, *memories],
            fresh=[part.message for part in state.fresh],
            writes=[session_write, *messages, *nodes],
        )

    def _count_received(self, extracted: ExtractedCandidates, state: SessionState) -> dict[str, Any]:
        received = len(self.commit.messages)
        messages = {"received": received, "blank": received - len(self.messages), **state.counts}
        return {"messages": messages, "candidates": len(extracted.candidates), "dropped": dict(extracted.dropped)}


def _select_new(
    state: SessionState, candidates: Sequence[CandidateMemory], now: str
) -> tuple[list[CandidateMemory], list[str]]:
    """Return the candidates with a new source, and the ids of the calls of tools that are to be counted.

    Each candidate gets what the policies need of its sources.
    """
    counted = frozenset(call for message in state.stored for call in message.calls)
    counted |= frozenset(() if state.row is None else state.row["metadata"].get(COUNTED_CALLS, ()))
    if len(state.fresh) == len(state.parts) > 0:
        # No message is a repeat, so no call of a tool is one.
        candidates = renumber_calls(candidates, counted)
    calls = [call for call in list_call_ids(candidates) if call not in counted]
    message_ids = {part.uri: part.message_id for part in state.fresh}
    new_uses = message_ids.keys() | set(calls)
    selected = []
    for candidate in candidates:
        uses = [use for use in candidate.uses if use.use_id in new_uses]
        if uses or any(source in message_ids for source in candidate.source_refs):
            named = [named for source in candidate.source_refs if (named := message_ids.get(source))]
            selected.append(replace(candidate, message_ids=named, recorded_at=now, uses=uses))
    return selected, calls
