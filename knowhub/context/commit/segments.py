"""The next part of a session that a model reads, and the operation that its answer makes."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from knowhub.context import uri
from knowhub.context.commit import results
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.memory_page import MemoryPage, read_page
from knowhub.context.commit.parts import read_message
from knowhub.context.commit.policies import apply_candidate
from knowhub.context.commit_model import CandidateMemory, ChangedMemory, StatementFacts, WriteAction
from knowhub.context.model import NODES, PARTS, ContextSummary, MemoryCategory, MemoryContext
from knowhub.context.ports import ContextIndex
from knowhub.context.queries import find_memory, list_memories_from, list_memories_in, list_parts, make_facet
from knowhub.context.reading import get_reading, hash_lines, mark_segment_read
from knowhub.conversations.changes.checks import read_lasting_values
from knowhub.conversations.changes.evidence import share_words
from knowhub.conversations.changes.prompt import (
    ADD,
    CATEGORIES,
    FORGET,
    MAX_KNOWN,
    MAX_SHOWN_CHARS,
    OVERLAP_MESSAGES,
    SIMILAR_TO_A_TEXT,
    UPDATE,
    KnownMemory,
    MemoryChange,
    RefusedChange,
    count_for_prompt,
    count_overlap,
    list_said,
)
from knowhub.conversations.cleaning import clean_messages
from knowhub.conversations.language import dates
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import RecalledTexts, normalize_words
from knowhub.conversations.secrets.detection import cover_secrets
from knowhub.core import clock
from knowhub.core.model_calls import search_texts
from knowhub.core.operation import Draft, Row, Unchanged, View, is_live
from knowhub.core.recall import SearchHits

EXTRACT_MEMORIES: Final = "extract_memories"
_MAX_PROFILE: Final = 80
_MAX_KEY: Final = 200


@dataclass(frozen=True, slots=True)
class Segment:
    """Messages of a session that wait, from number `first` to before `end`, after an overlap with those before them.

    `uris` are those of the messages of the prompt; `first_waiting` is the index of the first that waits.
    `cut_count` is how many of those that wait are too long to be shown whole.
    """

    session: ContextSummary
    whose: MemoryContext
    first: int
    end: int
    uris: Sequence[str]
    messages: Sequence[Message]
    first_waiting: int
    cut_count: int = 0

    @property
    def is_worth_asking(self) -> bool:
        """Whether a user or a tool says something in it."""
        return any(
            message.content and (message.is_user or message.is_tool) for message in self.messages[self.first_waiting :]
        )

    @property
    def count(self) -> int:
        """The number of messages that wait in it."""
        return len(self.messages) - self.first_waiting


def find_next_segment(view: View, summary: ContextSummary) -> Segment | None:
    """Return the first messages of a session that wait; None where none do.

    What is withheld from a model keeps its place as an empty message: system messages, what KnowHub said itself, what
    was recalled, and what somebody asks not to remember. Secrets are covered.
    """
    row = view.get(NODES, summary.uri)
    if row is None or not is_live(row):
        return None
    reading = get_reading(row["metadata"])
    if not reading["waiting"]:
        return None
    first, stop = reading["waiting"][0]
    parts = list_parts(view, summary.uri)
    waiting = [part for part in parts if first <= part.number < stop]
    count = count_for_prompt(_count_chars(view, part) for part in waiting)
    chosen, left = waiting[:count], waiting[count:]
    end = left[0].number if left else stop
    before = [part for part in parts if part.number < first]
    before = before[len(before) - count_overlap([_count_chars(view, part) for part in before[-OVERLAP_MESSAGES:]]) :]
    rows = [view.get(PARTS, part.uri) for part in (*before, *chosen)]
    messages = [read_message(said) for said in rows if said is not None]
    cut_count = sum(len(message.content) > MAX_SHOWN_CHARS for message in messages[len(before) :])
    shown = _filter_messages(messages, frozenset(reading["recalled"]))
    addresses = [part.uri for part in (*before, *chosen)]
    return Segment(summary, _make_memory_context(summary, row), first, end, addresses, shown, len(before), cut_count)


def _count_chars(view: View, part: ContextSummary) -> int:
    return len((view.get(PARTS, part.uri) or {}).get("content", ""))


def _filter_messages(messages: Sequence[Message], recalled: frozenset[str]) -> list[Message]:
    lines = (line for message in messages for line in (message.content, *message.content.splitlines()))
    known = frozenset(normalize_words(line) for line in lines if set(hash_lines([line])) & recalled) if recalled else ()
    return clean_messages(messages, RecalledTexts(frozenset(known), ()))


def _make_memory_context(summary: ContextSummary, row: Row) -> MemoryContext:
    parsed = uri.parse(summary.uri)
    user = parsed.space.partition("/")[2]
    return MemoryContext(parsed.account, user, "", summary.owner, str(row["metadata"].get("session_id") or ""))


ShownMemory: TypeAlias = tuple[KnownMemory, tuple[str, str]]
"""A statement that a prompt shows, with the URI of its node and its text there."""


async def find_similar(view: View, index: ContextIndex, segment: Segment) -> list[ShownMemory]:
    """Return the profile of a user, and the memories that are most similar to what they say in a segment.

    What rules took from this segment is left out: the model says it better, and what it says takes its place.
    """
    below = uri.parent_of(_make_profile_uri(segment.whose))
    groups = [frozenset({make_facet("under", below)})]

    def search(text: str) -> Awaitable[SearchHits[ContextSummary]]:
        return index.search(segment.whose.account, text, groups, lambda summary: summary.live, SIMILAR_TO_A_TEXT)

    found = await search_texts(list_said(segment.messages[segment.first_waiting :]), search)
    profile = _make_profile_uri(segment.whose)
    nearest = [address for address in dict.fromkeys(hit.summary.uri for hit in found) if address != profile][:MAX_KNOWN]
    nearest += _list_newest(view, below, set(nearest), MAX_KNOWN - len(nearest))
    shown: list[ShownMemory] = []
    for address in (profile, *nearest):
        summary = find_memory(view, address)
        if summary is None or not summary.live or summary.category.value not in CATEGORIES:
            continue
        for item in read_page(view.get(NODES, address)).current[-_MAX_PROFILE:]:
            if _is_rule_statement(item, segment):
                continue
            memory = KnownMemory(summary.category.value, cover_secrets(item["text"]), str(item["said_at"] or "")[:10])
            shown.append((memory, (address, item["text"])))
    # Oldest first, as the conversation goes on with them.
    return sorted(shown, key=lambda pair: pair[0].said_on)


def _list_newest(view: View, below: str, known: set[str], limit: int) -> list[str]:
    """Return the memories of a user that changed last: who has few is shown all of them."""
    summaries = [
        summary
        for category in CATEGORIES
        for summary in list_memories_in(view, f"{below}/{category}")
        if summary.uri not in known
    ]
    summaries.sort(key=lambda summary: (-summary.updated_at, summary.uri))
    return [summary.uri for summary in summaries[:limit]]


def _is_rule_statement(item: Row, segment: Segment) -> bool:
    """Return whether rules took a statement from the messages that wait in a segment."""
    return item["by"] == "rules" and set(item["source_refs"]) <= set(segment.uris[segment.first_waiting :])


def _make_profile_uri(whose: MemoryContext) -> str:
    return uri.node_uri(whose.account, uri.space_of(whose, "user"), MemoryCategory.PROFILE)


@dataclass(frozen=True, slots=True)
class SegmentDecision:
    """Writes what a segment teaches and that it was read, in one operation. Pure, as every decision.

    `failure` says why a segment was left out; then nothing is learnt from it.
    """

    segment: Segment
    shown: Sequence[ShownMemory]
    changes: Sequence[MemoryChange] = ()
    refused: Sequence[RefusedChange] = ()
    calls: Sequence[Row] = ()
    failure: str = ""

    def decide(self, view: View) -> Draft | Unchanged:
        """Return the operation; nothing where somebody else has read the segment, or the session is gone.

        Nor where a message that the model was shown was forgotten since: the rest is read again.
        """
        segment = self.segment
        row = view.get(NODES, segment.session.uri)
        shown = (find_memory(view, address) for address in segment.uris)
        if row is None or not is_live(row) or not all(summary is not None and summary.live for summary in shown):
            return Unchanged()
        candidates = [self._make_candidate(view, change) for change in self.changes]
        writer = ContextWriter(view, segment.whose)
        applied = []
        for candidate in candidates:
            applied.append(apply_candidate(writer, candidate))
            if applied[-1].plan.action is not WriteAction.SKIP:
                self._drop_statements_of_rules(writer, candidate)
        skipped = [item.plan.reason for item in applied if item.plan.action is WriteAction.SKIP]
        dropped = Counter([*(change.reason for change in self.refused), *skipped])
        if segment.cut_count:
            dropped["messages_cut"] += segment.cut_count
        if self.failure:
            dropped[self.failure] += segment.count
        reader = "by_model" if not self.failure else "by_rules"
        metadata = mark_segment_read(row, segment.first, segment.end, {reader: segment.count}, dropped)
        if metadata is None:
            return Unchanged()
        writer.merge_node(segment.session.uri, {"metadata": metadata})
        reply = {"plans": results.format_plans(applied), "dropped": dict(dropped)}
        return Draft(EXTRACT_MEMORIES, writer.list_writes(), reply=reply, agent_io=self.calls or None)

    def _make_candidate(self, view: View, change: MemoryChange) -> CandidateMemory:
        segment = self.segment
        cited = [(segment.uris[index], segment.messages[index]) for index in change.evidence]
        said = [moment for _, message in cited if (moment := dates.read_moment(message.timestamp))]
        said_at = max(said, default="")
        summaries = [find_memory(view, address) for address, _ in cited]
        facts = StatementFacts()
        if change.day is not None and change.category == MemoryCategory.EVENTS:
            facts = StatementFacts(day=change.day.isoformat())
        if change.category == MemoryCategory.PROFILE:
            values, ended = read_lasting_values(change.statement, dates.read_day(said_at))
            facts = StatementFacts(values, {} if values else ended)
        changed = self._find_statement(change)
        return CandidateMemory(
            category=MemoryCategory(change.category),
            routing_key=change.statement[:_MAX_KEY],
            content=change.statement,
            source_refs=[address for address, _ in cited],
            by="llm",
            said_at=said_at,
            recorded_at=clock.iso(view.now),
            message_ids=[summary.message_id for summary in summaries if summary is not None and summary.message_id],
            facts=facts,
            changes=None
            if changed is None
            else ChangedMemory(*changed, change.action == UPDATE, change.action == FORGET),
        )

    def _drop_statements_of_rules(self, writer: ContextWriter, candidate: CandidateMemory) -> None:
        """Remove what rules took from the same messages and shares a word with a candidate, which says it better."""
        summaries = {
            summary.uri for source in candidate.source_refs for summary in list_memories_from(writer.view, source)
        }
        for address in sorted(summaries):
            row = writer.get_row(address)
            page = read_page(row)
            said = [
                at
                for at, item in enumerate(page.current)
                if _is_rule_statement(item, self.segment)
                and normalize_words(item["text"]) != normalize_words(candidate.content)
                and share_words(item["text"], candidate.content)
            ]
            if row is not None and said:
                left = MemoryPage(tuple(item for at, item in enumerate(page.current) if at not in said), page.history)
                patch = {**left.make_layers(), "metadata": {**row["metadata"], **left.make_metadata()}}
                writer.merge_node(address, patch | ({} if left.current else {"deleted": True}))

    def _find_statement(self, change: MemoryChange) -> tuple[str, str] | None:
        """Return the node and the text of the statement that a change is about, or that says the same already."""
        if change.memory is not None:
            return self.shown[change.memory][1]
        wanted = normalize_words(change.statement)
        same = (stored for _, stored in self.shown if change.action == ADD and normalize_words(stored[1]) == wanted)
        return next(same, None)
