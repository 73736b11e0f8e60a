"""The candidates that the statements of a conversation are, without a model."""

from collections.abc import Sequence
from typing import Final

from knowhub.conversations import recalled
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold, is_chinese
from knowhub.conversations.statements import Statement, StatementKind, read_statements
from knowhub.knowledge.extract.model import CandidateCategory, KnowledgeCandidate
from knowhub.knowledge.model import KnowledgeType

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
    """Return the candidates in the order of the conversation, without repetitions and KnowHub's own answers."""
    own = [Message("tool", "") if recalled.is_recall_answer(message) else message for message in messages]
    return [_make_candidate(statement) for statement in read_statements(own, fold)]


def _make_candidate(statement: Statement) -> KnowledgeCandidate:
    category = _CATEGORIES[statement.kind]
    tags = {"category": category.value}
    if category is CandidateCategory.PITFALL:
        kinds = (KnowledgeType.TOOL.value,)
        return KnowledgeCandidate(category, statement.task, statement.text, statement.numbers, kinds, tags=tags)
    chinese = is_chinese(statement.text)
    dated = f"{statement.text} ({statement.day.isoformat()})" if statement.day is not None else statement.text
    named = f"{statement.speaker}: {dated}" if statement.speaker else dated
    content = f"用户说：{named}" if chinese else f"The user said: {named}"
    return KnowledgeCandidate(
        category,
        _TITLES[category][0 if chinese else 1],
        content,
        statement.numbers,
        (KnowledgeType.USER_PROFILE.value,),
        expressed=True,
        tags=tags,
        values=() if statement.speaker else statement.values,
        ended=() if statement.speaker else statement.ended,
    )
