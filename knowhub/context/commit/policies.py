"""Which node a candidate memory belongs to, and what it adds, changes or ends there."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import tool_calls
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.memory_page import MAX_CONTENT, MemoryPage, is_edited, make_statement, read_page
from knowhub.context.commit_model import AppliedPlan, CandidateMemory, ChangedMemory, WriteAction, WritePlan
from knowhub.context.edits import BY_PERSON, EDITABLE, FORGOTTEN
from knowhub.context.events import EventType
from knowhub.context.model import COUNTED, ContextType, MemoryCategory, MemoryContext, RelationEdge
from knowhub.context.queries import list_memories_in
from knowhub.context.uri import session_uri, space_of
from knowhub.conversations.changes.evidence import list_content_words
from knowhub.conversations.language import dates, plan_days
from knowhub.conversations.language.sentence_ends import COMMA
from knowhub.conversations.recalled import normalize_words
from knowhub.conversations.sentences import is_chinese
from knowhub.conversations.statements.forms import CANCELLED, CHANGE
from knowhub.core import clock
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live

EXTRACTED_FROM: Final = "extracted_from"
EDITED: Final = "a person wrote what it would replace"
KNOWN: Final = "it is stated already, from these messages"
GONE: Final = "what it would change is not stated any more"
_MAX_SOURCES: Final = 200
# A tool is used in every session: its node is logged again with each call, and counts alone say what is worth knowing.
_MAX_SOURCES_OF_TOOLS: Final = 8
_FULL: Final = "the memory is full, and nothing of it is dropped; correct or delete what is no longer needed"
_ENDED: Final = "it does not hold any more"
_OLDER: Final = "a newer statement exists"
# At most so many events are compared with what changes one.
_MAX_EVENTS: Final = 200
_MAX_AHEAD_S: Final = 86_400
# Without these, what somebody likes and what they do not like any more is the same text.
_NEGATION: Final = re.compile(
    r"\b(?:no longer|not|any ?more|any longer|do|don't|don’t|dont|now|again)\b|不再|再也|现在|[不又了]", re.IGNORECASE
)
_FILLERS: Final = re.compile("我|原定|原计划|本来")
_NAMED_BY_DAY: Final = (MemoryCategory.EVENTS, MemoryCategory.CASES)


def find_target(candidate: CandidateMemory, whose: MemoryContext) -> str:
    """Return the URI of the node that a candidate belongs to.

    A person has one profile. An event and a case are named by their day and a hash of what they are about, a tool by
    its name, everything else by a hash of its routing key. A candidate that changes a memory names it.
    """
    if candidate.changes is not None:
        return candidate.changes.uri
    space, category = space_of(whose, candidate.owner_scope), candidate.category
    if category is MemoryCategory.PROFILE:
        return uri.node_uri(whose.account, space, category)
    if category in COUNTED:
        return uri.node_uri(whose.account, space, category, _make_tool_name(candidate.routing_key))
    if category in _NAMED_BY_DAY:
        day = candidate.facts.day or candidate.said_at[:10]
        key = uri.hash_name(normalize_words(candidate.routing_key))
        return uri.node_uri(whose.account, space, category, f"{day}-{key}" if day else key)
    # A hash, so that nobody reads the key in the URI.
    name = uri.hash_name(whose.account, space, category.value, uri.make_slug(candidate.routing_key))
    return uri.node_uri(whose.account, space, category, name)


def build_plan(candidate: CandidateMemory, whose: MemoryContext, row_at: Callable[[str], Row | None]) -> WritePlan:
    """Return the plan of a candidate, given the rows at URIs, tombstones too.

    Erased memories never return, nor do deleted events and cases. Any other deleted memory starts again, empty.
    """
    target = find_target(candidate, whose)
    row = row_at(target)
    if is_erased(row):
        return _skip(target, "it was erased, and what was erased does not come back")
    if row is not None and not is_live(row) and row.get(FORGOTTEN) and candidate.category in _NAMED_BY_DAY:
        return _skip(target, "it was deleted, and what was deleted stays forgotten")
    policy = _Policy(candidate, whose, target, row if is_live(row) else None)
    return policy.plan_calls() if candidate.category in COUNTED else policy.plan_statement()


@dataclass(frozen=True, slots=True)
class _Policy:
    """Makes the plan of one candidate for the node `target`, whose live row is `existing`."""

    candidate: CandidateMemory
    whose: MemoryContext
    target: str
    existing: Row | None

    def plan_statement(self) -> WritePlan:
        """Add a statement, or its source; what does not hold beside it becomes history."""
        candidate, page = self.candidate, read_page(self.existing)
        facts, changes = candidate.facts, candidate.changes
        is_forgotten = changes is not None and changes.is_forgotten
        same = page.find(candidate.content)
        replaced = [at for at in page.find_replaced(candidate) if at != same or is_forgotten]
        problem = _find_skip_reason(page, candidate, same, replaced)
        if problem:
            return _skip(self.target, problem)
        if is_forgotten:
            page = page.end(replaced, candidate.said_at or candidate.recorded_at, _ENDED)
            plan = self._plan_page(page, _ENDED)
            return plan if page.current else replace(plan, node_patch={**plan.node_patch, "deleted": True})
        if same is not None and not replaced:
            plan = self._plan_page(page.support(same, candidate.source_refs), "said again: only its source is added")
            left = {name: value for name, value in plan.node_patch.items() if name not in EDITABLE}
            return replace(plan, node_patch=left)
        sources = candidate.source_refs
        if changes is not None and changes.is_update:
            earlier = (ref for at in replaced for ref in page.current[at]["source_refs"])
            sources = list(dict.fromkeys((*earlier, *sources)))
        # A statement that a person wrote keeps its author if it is said again.
        by = BY_PERSON if same is not None and is_edited(page, [same]) else candidate.by
        statement = make_statement(candidate.content, candidate.said_at, by, sources, facts.values, facts.ended)
        reason = "what it replaces is in the history" if replaced else "a new statement"
        return self._plan_page(page.add(statement, replaced, "something else was said later"), reason)

    def plan_calls(self) -> WritePlan:
        """Count calls of a tool or a skill that were not counted before; the text says what they add up to."""
        candidate, uses = self.candidate, self.candidate.uses
        if not uses:
            return _skip(self.target, "every call of it was counted before")
        before: Row = self.existing or {"content": "", "metadata": {}}
        earlier = before["metadata"].get("stats", {})
        stats = tool_calls.count_uses(earlier, uses, candidate.recorded_at)
        layers = tool_calls.make_layers(candidate, str(before["content"]), earlier, stats)
        known = before["metadata"].get("source_refs", ())
        said = [moment for moment in (before["metadata"].get("said_at"), candidate.said_at) if moment]
        own = {
            "source_refs": _join_newest(known, candidate.source_refs, _MAX_SOURCES_OF_TOOLS),
            "said_at": max(said) if said else None,
            "stats": stats,
        }
        return self._make_plan(layers, own, f"calls counted: {len(uses)}")

    def _plan_page(self, page: MemoryPage, reason: str) -> WritePlan:
        own = page.make_metadata()
        if self.candidate.facts.day:
            # An event is found by its own day.
            own["said_at"] = f"{self.candidate.facts.day}T00:00:00Z"
        return self._make_plan(page.make_layers(), own, reason)

    def _make_plan(self, layers: Mapping[str, str], own: Mapping[str, Any], reason: str) -> WritePlan:
        """Return the plan that writes these layers and metadata, and an edge to the session."""
        if len(layers["content"]) > MAX_CONTENT:
            return _skip(self.target, _FULL)
        candidate, existing = self.candidate, self.existing
        category = candidate.category if existing is None else MemoryCategory(existing["category"])
        kind = ContextType.SKILL if category in COUNTED else ContextType.MEMORY
        patch = {
            "context_type": kind.value,
            "category": category.value,
            "owner_scope": candidate.owner_scope,
            **layers,
            "metadata": {**self._make_metadata(), **own},
        }
        session, why = session_uri(self.whose), "it was said in this session"
        edge = RelationEdge(self.target, session, EXTRACTED_FROM, why, candidate.confidence)
        action = WriteAction.CREATE if existing is None else WriteAction.MERGE
        events = (EventType.UPSERT_CONTEXT, EventType.UPSERT_RELATION)
        return WritePlan(action, self.target, patch, (edge,), events, reason)

    def _make_metadata(self) -> dict[str, Any]:
        candidate = self.candidate
        before: Mapping[str, Any] = {} if self.existing is None else self.existing["metadata"]
        limit = _MAX_SOURCES_OF_TOOLS if candidate.category in COUNTED else _MAX_SOURCES
        return {
            **before,
            "by": candidate.by,
            "routing_key": before.get("routing_key") or candidate.routing_key,
            "message_ids": _join_newest(before.get("message_ids", ()), candidate.message_ids, limit),
            "sessions": _join_newest(before.get("sessions", ()), [self.whose.session_id], limit),
        }


def _find_skip_reason(page: MemoryPage, candidate: CandidateMemory, same: int | None, replaced: Sequence[int]) -> str:
    """Return why a candidate changes nothing; empty where it does."""
    said_at = candidate.said_at
    if not replaced and same is None and (candidate.changes is not None or candidate.facts.ended):
        return GONE
    if is_edited(page, replaced):
        return EDITED
    if any(said_at and said_at < page.current[at]["said_at"] for at in replaced):
        return _OLDER
    is_known = same is not None and set(candidate.source_refs) <= set(page.current[same]["source_refs"])
    return KNOWN if is_known and not replaced else ""


def _skip(target: str, reason: str) -> WritePlan:
    return WritePlan(WriteAction.SKIP, target, reason=reason)


def _join_newest(before: Sequence[str], new: Sequence[str], limit: int) -> list[str]:
    """Return the newest of both, each once."""
    return list(dict.fromkeys((*before, *new)))[-limit:]


def _make_tool_name(key: str) -> str:
    try:
        uri.encode_segment(key)
    except ValueError:
        return uri.make_slug(key)
    return key


def apply_candidate(writer: ContextWriter, candidate: CandidateMemory) -> AppliedPlan:
    """Decide what becomes of a candidate, given the rows as they are by now, and write it."""
    now, facts = writer.view.now, candidate.facts
    if candidate.said_at > clock.iso(now + _MAX_AHEAD_S):
        # A clock that is wrong must not make this newer than all that is said later.
        candidate = replace(candidate, said_at=clock.iso(now))
    replaced = _find_replaced_event(writer, candidate) if facts.is_change or facts.is_over else None
    if replaced is not None:
        candidate = candidate if facts.day or facts.is_over else _keep_day(candidate, replaced)
        changes = ChangedMemory(replaced["id"], is_forgotten=facts.is_over)
        plan = build_plan(replace(candidate, changes=changes), writer.whose, writer.get_row)
    elif facts.is_over or (facts.is_change and not facts.day):
        plan = _skip(find_target(candidate, writer.whose), GONE)
    else:
        plan = build_plan(_find_contrary(writer, candidate), writer.whose, writer.get_row)
    return writer.apply_plan(plan, candidate.source_refs)


def _find_contrary(writer: ContextWriter, candidate: CandidateMemory) -> CandidateMemory:
    """Return a preference with the statement that it takes back: «I don't like tea any more», «stop calling me Bo»."""
    ended, is_preference = candidate.facts.ended, candidate.category is MemoryCategory.PREFERENCES
    if not is_preference or candidate.facts.is_single or candidate.changes is not None:
        return candidate
    for key in ended or [_NEGATION.sub("", candidate.routing_key)]:
        node_uri = find_target(replace(candidate, routing_key=key), writer.whose)
        for item in read_page(writer.get_row(node_uri)).current:
            text = str(item["text"])
            is_contrary = ended[key] in text.lower() if ended else _affirm(text) == _affirm(candidate.content)
            if is_contrary and normalize_words(text) != normalize_words(candidate.content):
                return replace(candidate, changes=ChangedMemory(node_uri, text))
    return replace(candidate, facts=replace(candidate.facts, ended={}))


def _affirm(text: str) -> str:
    """Return the words of a statement without those that deny it."""
    return normalize_words(_NEGATION.sub("", text))


def _find_replaced_event(writer: ContextWriter, candidate: CandidateMemory) -> Row | None:
    """Return the live event that has most words in common with what moves or cancels it."""
    best, max_shared = None, 0
    summaries = list_memories_in(writer.view, uri.parent_of(find_target(candidate, writer.whose)))
    for summary in summaries[-_MAX_EVENTS:]:
        row = writer.get_row(summary.uri)
        shared = _count_shared(candidate, row) if row is not None and is_live(row) else 0
        if shared == max_shared:
            # Of two that are equally near, none is ended.
            best = None if candidate.facts.is_over or not candidate.facts.day else best
        elif shared > max_shared:
            best, max_shared = row, shared
    return best


def _count_shared(candidate: CandidateMemory, row: Row) -> int:
    """Return how many words a plan shares with what changes it; 0 if it is about something else."""
    facts, stored = candidate.facts, str(row["content"])
    day = str(row["metadata"].get("said_at") or "")
    if facts.is_over or not facts.day:
        when = facts.day or (candidate.said_at or candidate.recorded_at)[:10]
        if plan_days.count_planned_days(stored.removesuffix(f" ({day[:10]})"), date.fromisoformat(when)) > 1:
            # It says nothing of the other plans of that sentence.
            return 0
        subject = _find_subject(candidate.content, CANCELLED if facts.is_over else CHANGE)
        named, known = (_find_event_words(text, when) for text in (subject, stored))
        both = named & known
        if facts.day:
            is_same = day.startswith(when) and (not named or both)
        else:
            # Without a day the words alone say which of the coming plans it is.
            is_same = day >= when and 2 * len(both) > len(named) and not _is_past(subject, when)
        return 1 + len(both) if is_same else 0
    shared = len(list_content_words(candidate.content) & list_content_words(stored))
    # A plan of the past is about something else unless it shares more than a word.
    return shared if shared > int(day < candidate.said_at) else 0


def _find_subject(text: str, form: re.Pattern[str]) -> str:
    """Return the part of a text that says what is cancelled or changed; of a change, what is before its word."""
    parts = COMMA.split(text)
    ends = next((part for part in parts if form.search(part.lower())), text if form is CHANGE else "")
    if form is not CHANGE:
        return ends
    before = (form.split(part.lower(), 1)[0] for part in (ends, text))
    return next((part for part in before if any(map(str.isalpha, part))), ends)


def _keep_day(candidate: CandidateMemory, event: Row) -> CandidateMemory:
    """Return a change without a day of its own with the day of the plan that it changes."""
    day = str(event["metadata"].get("said_at") or "")[:10]
    text = candidate.content
    content = f"{text}（原计划：{day}）" if is_chinese(text) else f"{text} (planned: {day})"
    return replace(candidate, content=content, facts=replace(candidate.facts, day=day))


def _find_event_words(text: str, day: str) -> set[str]:
    """Return the words of a plan without its day, and without those that cancel it."""
    for mention in dates.iter_times(text, date.fromisoformat(day)):
        text = text.replace(mention.words, " ")
    return list_content_words(CHANGE.sub(" ", CANCELLED.sub(" ", _FILLERS.sub(" ", text.lower()))))


def _is_past(text: str, day: str) -> bool:
    """Return whether a text names a time before a day: «last year's run was cancelled»."""
    said = date.fromisoformat(day)
    times = (mention.reading for mention in dates.iter_times(text, said))
    return any(time is not None and time.last < said and not time.every_year for time in times)
