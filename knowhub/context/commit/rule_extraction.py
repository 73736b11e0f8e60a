"""The memories that a session's own words give without a model, and the checks of each."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from knowhub.context import uri
from knowhub.context.commit.tool_calls import find_tool_calls
from knowhub.context.commit_model import CandidateMemory, StatementFacts, UsedTool
from knowhub.context.edits import is_row_seen
from knowhub.context.model import COUNTED, NODES, PARTS, MemoryCategory
from knowhub.context.texts import cut_at_word, one_line
from knowhub.conversations.changes.evidence import is_earlier_move
from knowhub.conversations.cleaning import clean_messages
from knowhub.conversations.language import dates
from knowhub.conversations.messages import Message, count_partly_read, list_readable
from knowhub.conversations.recalled import RecalledTexts, index_recalled, normalize_words
from knowhub.conversations.secrets.detection import COVER, contains_secret
from knowhub.conversations.sentences import Fold
from knowhub.conversations.statements.model import Statement, StatementKind
from knowhub.conversations.statements.reader import read_statements
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext

MAX_CANDIDATES: Final = 1_000
UNREAD: Final = "messages_not_read"
"""The key of what is dropped that counts messages; the others count candidates."""
_MAX_NAMED: Final = 400
_MAX_CONTENT: Final = 8_000
_MAX_KEY: Final = 200
_MAX_SOURCES: Final = 50
_TITLE_CHARS: Final = 60
# The slots that are preferences: «my favorite color is …».
_TASTE: Final = re.compile(r"called$|reply language$|(?:favorite|preferred|go-to) |最[喜爱]")
_CATEGORIES: Final[Mapping[StatementKind, MemoryCategory]] = {
    StatementKind.INTRODUCTION: MemoryCategory.PROFILE,
    StatementKind.PREFERENCE: MemoryCategory.PREFERENCES,
    StatementKind.INSTRUCTION: MemoryCategory.PREFERENCES,
    StatementKind.REQUEST: MemoryCategory.PREFERENCES,
    StatementKind.PLAN: MemoryCategory.EVENTS,
    StatementKind.LESSON: MemoryCategory.CASES,
}


@dataclass(frozen=True, slots=True)
class ExtractedCandidates:
    """The candidates, and how many were dropped, by why."""

    candidates: Sequence[CandidateMemory] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


def list_recalled(view: View, ctx: RequestContext, used_contexts: Sequence[str]) -> list[str]:
    """Return the recalled texts: plain texts as they are, and for each URI the texts that the caller sees."""
    return [text for named in used_contexts[:_MAX_NAMED] for text in _list_texts(view, ctx, named) if text.strip()]


def extract_by_rules(
    session_uri: str,
    messages: Sequence[Message],
    used_tools: Sequence[UsedTool],
    recalled: Sequence[str],
    fold: Fold = str,
) -> ExtractedCandidates:
    """Return what these messages, each named by its `message_id`, say that is worth remembering.

    They are read as far as `list_readable` says. What KnowHub said, and what was recalled, is not remembered again.
    """
    known = index_recalled(recalled)
    readable = list_readable(messages)
    cleaned = clean_messages(readable, known)
    found = [_make_candidate(session_uri, cleaned, item) for item in read_statements(cleaned, fold)]
    kept, dropped = normalize_candidates([*found, *find_tool_calls(session_uri, cleaned, used_tools)], known)
    if unread := count_partly_read(messages, readable):
        dropped[UNREAD] = unread
    return ExtractedCandidates(kept, dropped)


def normalize_candidates(
    candidates: Sequence[CandidateMemory], known: RecalledTexts
) -> tuple[list[CandidateMemory], dict[str, int]]:
    """Trim and bound candidates; drop what is empty, said twice, recalled, or holds a credential."""
    kept: dict[tuple[str, str, str], CandidateMemory] = {}
    dropped: Counter[str] = Counter()
    for candidate in (_drop_secret_notes(_limit_candidate(candidate_memory)) for candidate_memory in candidates):
        problem = _find_problem(candidate, known)
        identity = (candidate.category.value, candidate.routing_key.casefold(), _get_identity(candidate))
        if problem:
            dropped[problem] += 1
        elif identity in kept:
            kept[identity] = _merge_candidates(kept[identity], candidate)
            dropped["duplicate"] += 1
        elif len(kept) == MAX_CANDIDATES:
            dropped["too_many"] += 1
        else:
            kept[identity] = candidate
    return list(kept.values()), dict(dropped)


def _list_texts(view: View, ctx: RequestContext, named: str) -> Iterable[str]:
    if not named.startswith(uri.SCHEME):
        return [named]
    try:
        parsed = uri.parse(named.strip())
    except InvalidInput:
        return [named]
    if parsed.account != ctx.account:
        return []
    row = view.get(PARTS if parsed.is_part else NODES, parsed.text)
    if row is None or not is_row_seen(ctx, row):
        return []
    return [str(row[layer]) for layer in ("abstract", "overview", "content") if row.get(layer)]


def _make_candidate(session_uri: str, messages: Sequence[Message], statement: Statement) -> CandidateMemory:
    """Make the candidate of a statement: what has a single value belongs to the profile, what has a day is an event.

    If several people speak as users, the speaker's name is added: they need not be the account holder.
    """
    timestamp = messages[statement.numbers[-1]].timestamp
    if is_earlier_move(statement.text, dates.read_day(timestamp)):
        # They may have moved again since.
        statement = replace(statement, values=(), ended=())
    category = _find_category(statement)
    prefix = f"{statement.speaker}: " if statement.speaker else ""
    text = prefix + one_line(statement.text)
    facts = StatementFacts(is_change=statement.is_change, is_over=statement.is_over)
    content = text
    if category is MemoryCategory.PROFILE:
        owner = f"{statement.speaker} " if statement.speaker else ""
        topic = statement.kind.value
        if statement.kind is StatementKind.INTRODUCTION:
            topic = next((slot for slot, _ in (*statement.values, *statement.ended)), topic)
        key = f"{owner}{topic}"
        values = {f"{owner}{slot}": value for slot, value in statement.values}
        ended = {f"{owner}{slot}": value for slot, value in statement.ended if not values}
        facts = replace(facts, values=values, ended=ended)
    elif category is MemoryCategory.EVENTS and statement.day is not None:
        day = statement.day.isoformat()
        key, content = text, text if day in text else f"{text} ({day})"
        facts = replace(facts, day=day)
    elif category is MemoryCategory.CASES:
        key, content = uri.stable_hash(one_line(statement.task)), statement.text
    else:
        # Single-valued facts: the newest statement wins.
        slot = next((f"{prefix}{slot}" for slot, _ in statement.values), "")
        key = slot or cut_at_word(text, _TITLE_CHARS)
        ended = {} if slot else {f"{prefix}{name}": value for name, value in statement.ended}
        facts = replace(facts, is_single=bool(slot), ended=ended)
    sources = [uri.part_uri(session_uri, messages[number].message_id or "") for number in statement.numbers]
    return CandidateMemory(category, key, content, sources, said_at=dates.read_moment(timestamp) or "", facts=facts)


def _find_category(statement: Statement) -> MemoryCategory:
    slots = {slot for slot, _ in statement.values}
    if slots:
        is_taste = all(_TASTE.match(slot) for slot in slots)
        return MemoryCategory.PREFERENCES if is_taste else MemoryCategory.PROFILE
    return MemoryCategory.EVENTS if statement.day is not None else _CATEGORIES[statement.kind]


def _drop_secret_notes(candidate: CandidateMemory) -> CandidateMemory:
    """Drop notes that contain a credential; the calls still count."""
    uses = [replace(use, note="") if contains_secret(use.note) else use for use in candidate.uses]
    return replace(candidate, uses=uses)


def _find_problem(candidate: CandidateMemory, known: RecalledTexts) -> str:
    """Return why a candidate is dropped; empty where it is not."""
    if not candidate.routing_key or not candidate.content:
        return "empty"
    text = f"{candidate.routing_key}\n{candidate.content}"
    if COVER in text or contains_secret(text):
        return "secret"
    said = candidate.content.removesuffix(f" ({candidate.facts.day})")
    return "recalled" if known.is_said_in(one_line(said)) or known.is_said_in(candidate.content) else ""


def _limit_candidate(candidate: CandidateMemory) -> CandidateMemory:
    return replace(
        candidate,
        routing_key=one_line(candidate.routing_key)[:_MAX_KEY].strip(),
        content=cut_at_word(candidate.content.strip(), _MAX_CONTENT),
        source_refs=list(dict.fromkeys(candidate.source_refs))[-_MAX_SOURCES:],
    )


def _get_identity(candidate: CandidateMemory) -> str:
    # The calls of one tool add up, whatever the text about them says.
    return "" if candidate.category in COUNTED else normalize_words(candidate.content)


def _merge_candidates(first: CandidateMemory, again: CandidateMemory) -> CandidateMemory:
    sources = list(dict.fromkeys((*first.source_refs, *again.source_refs)))[-_MAX_SOURCES:]
    return replace(first, source_refs=sources, uses=[*first.uses, *again.uses])
