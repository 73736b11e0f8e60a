"""Candidates of a conversation: what it states by rules, and the changes that a model asks for."""

from collections.abc import Sequence
from typing import Final

from knowhub.conversations.changes.checks import read_lasting_values
from knowhub.conversations.changes.prompt import FORGET, REPLACE, UPDATE, MemoryChange
from knowhub.conversations.language.dates import read_day
from knowhub.conversations.messages import Message
from knowhub.conversations.secrets.detection import COVER
from knowhub.conversations.sentences import Fold, is_chinese
from knowhub.conversations.statements.model import Statement, StatementKind
from knowhub.conversations.statements.reader import read_statements
from knowhub.knowledge.extract.model import CandidateCategory, KnowledgeCandidate
from knowhub.knowledge.model import KnowledgeType

CHANGE_FIELDS: Final = {
    "type": "what kind of knowledge it is, where it is no profile and no preference: strategy (experience gained by"
    " reflecting on what was done), tool (how a tool is used, its pitfalls), usecase (a background, the solution taken,"
    " its effect), definition (what a term means here) or plan (the steps of a procedure). Its"
    " statement may have several sentences.",
    "task": "in what situation, doing what, it will help; at most 200 characters, in the language of the messages.",
    "domain": "its area in a word or two, such as coding_style.",
}
"""What a record has beside a memory."""
PROFILE: Final = "profile"
PREFERENCES: Final = "preferences"
_EVENTS: Final = "events"
_CASES: Final = "cases"
_CATEGORY_OF_TYPE: Final = {
    KnowledgeType.STRATEGY: CandidateCategory.OUTCOME,
    KnowledgeType.TOOL: CandidateCategory.PITFALL,
    KnowledgeType.USECASE: CandidateCategory.OUTCOME,
    KnowledgeType.DEFINITION: CandidateCategory.DEFINITION,
    KnowledgeType.PLAN: CandidateCategory.PLAN,
}
_CATEGORIES: Final = {
    StatementKind.REQUEST: CandidateCategory.BACKGROUND,
    StatementKind.INTRODUCTION: CandidateCategory.BACKGROUND,
    StatementKind.INSTRUCTION: CandidateCategory.PREFERENCE,
    StatementKind.PREFERENCE: CandidateCategory.PREFERENCE,
    StatementKind.PLAN: CandidateCategory.BACKGROUND,
    StatementKind.LESSON: CandidateCategory.PITFALL,
}
_TITLES: Final = {
    CandidateCategory.BACKGROUND: ("用户背景", "User background"),
    CandidateCategory.PREFERENCE: ("用户偏好", "User preference"),
}


def find_candidates(messages: Sequence[Message], fold: Fold = str) -> list[KnowledgeCandidate]:
    """Return what the messages state by rules, in the order of the conversation, without repetitions."""
    statements = read_statements(messages, fold)
    # What only changes or ends a plan says nothing alone.
    said = (item for item in statements if not item.is_over and (item.day or item.kind is not StatementKind.PLAN))
    return [_make_candidate(item) for item in said if COVER not in item.text]


def make_candidate(
    change: MemoryChange, numbers: Sequence[int], messages: Sequence[Message], record_id: str | None
) -> KnowledgeCandidate:
    """Return what a change asks for, by the numbers of the messages that it cites and the record that it changes."""
    cited = tuple(sorted(numbers))
    sources = [messages[number] for number in cited]
    kind, category = _classify(change, sources)
    domain = change.fields.get("domain")
    said_on = max(filter(None, (read_day(message.timestamp) for message in sources)), default=None)
    values, ended = read_lasting_values(change.statement, said_on) if change.category == PROFILE else ({}, {})
    return KnowledgeCandidate(
        category,
        change.fields.get("task") or _make_title(category, change.statement),
        change.statement,
        cited,
        (kind.value,),
        # Who speaks last says so: the messages before are what they answer.
        is_said_by_user=sources[-1].is_user,
        tags={"category": category.value} | ({"domain": domain} if domain else {}),
        by="llm",
        same_as=record_id if change.action == UPDATE else None,
        against=record_id if change.action == REPLACE else None,
        ends=record_id if change.action == FORGET else None,
        values=tuple(values.items()),
        ended=tuple(ended.items()),
    )


def _classify(change: MemoryChange, sources: Sequence[Message]) -> tuple[KnowledgeType, CandidateCategory]:
    if change.category == PREFERENCES:
        return KnowledgeType.USER_PROFILE, CandidateCategory.PREFERENCE
    kind = next((known for known in _CATEGORY_OF_TYPE if known == change.fields.get("type")), None)
    # What a page or a tool says is never part of a profile.
    is_told = any(message.is_user for message in sources)
    if change.category == PROFILE or (change.category == _EVENTS and kind is None and is_told):
        return KnowledgeType.USER_PROFILE, CandidateCategory.BACKGROUND
    if kind is None and change.category == _CASES:
        kind = KnowledgeType.TOOL if any(message.is_tool for message in sources) else KnowledgeType.STRATEGY
    elif kind is None:
        kind = KnowledgeType.USECASE if change.category == _EVENTS else KnowledgeType.DEFINITION
    return kind, _CATEGORY_OF_TYPE[kind]


def _make_title(category: CandidateCategory, text: str) -> str:
    titles = _TITLES.get(category)
    return titles[0 if is_chinese(text) else 1] if titles else ""


def _make_candidate(statement: Statement) -> KnowledgeCandidate:
    category = _CATEGORIES[statement.kind]
    tags = {"category": category.value}
    if category is CandidateCategory.PITFALL:
        kinds = (KnowledgeType.TOOL.value,)
        return KnowledgeCandidate(category, statement.task, statement.text, statement.numbers, kinds, tags=tags)
    dated = f"{statement.text} ({statement.day.isoformat()})" if statement.day is not None else statement.text
    named = f"{statement.speaker}: {dated}" if statement.speaker else dated
    content = f"用户说：{named}" if is_chinese(statement.text) else f"The user said: {named}"
    return KnowledgeCandidate(
        category,
        _make_title(category, statement.text),
        content,
        statement.numbers,
        (KnowledgeType.USER_PROFILE.value,),
        is_said_by_user=True,
        tags=tags,
        values=() if statement.speaker else statement.values,
        ended=() if statement.speaker else statement.ended,
    )
