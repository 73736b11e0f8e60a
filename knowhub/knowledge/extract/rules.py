"""Extraction by rules: what users say about themselves and their work, and what the assistant did.

Precision comes before recall: questions, hypotheses, hedges, reported speech, and statements for this conversation only
are left out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from knowhub.conversations import patterns, recalled
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold, Sentence, is_chinese, parse_messages
from knowhub.knowledge.extract import episodes
from knowhub.knowledge.extract.model import PROFILE_CATEGORIES, CandidateCategory, KnowledgeCandidate, Trigger
from knowhub.knowledge.model import KnowledgeType

_FIRST_COMMA = re.compile(r"[，,]")
_OF_PROFILES: Final = (
    (CandidateCategory.CONSTRAINT, patterns.CONSTRAINT),
    (CandidateCategory.PREFERENCE, patterns.PREFERENCE),
    (CandidateCategory.BACKGROUND, patterns.BACKGROUND),
    (CandidateCategory.HABIT, patterns.HABIT),
)
_TITLES: Final = {
    CandidateCategory.PREFERENCE: ("用户偏好", "User preference"),
    CandidateCategory.HABIT: ("用户习惯", "User habit"),
    CandidateCategory.BACKGROUND: ("用户背景", "User background"),
    CandidateCategory.CONSTRAINT: ("用户约束", "User constraint"),
    CandidateCategory.CORRECTION: ("用户纠正", "User correction"),
    CandidateCategory.DEFINITION: ("用语定义", "Definition of a term"),
}
_DOMAINS: Final = {
    "communication": ("沟通", "communication"),
    "workflow": ("工作流程", "workflow"),
    "coding_style": ("编码风格", "coding style"),
    "tooling": ("工具", "tools"),
}
_DOMAIN_WORDS: Final = {
    "communication": "回答|回复|解释|语气|表情|结论|中文|英文|总结|answer|reply|replies|respon|explain|explanation"
    "|emoji"
    "|summar|chinese|english|apologi",
    "workflow": "提交|分支|测试|评审|部署|发布|上线|合并|commit|branch|test|review|deploy|release|pull request|merge"
    "|pipeline",
    "coding_style": "缩进|命名|变量|注释|代码|函数|类型|tabs|spaces|naming|variable|comment|type hint|function|import"
    "|typescript|code|snake",
    "tooling": "编辑器|框架|数据库|主题|工具|editor|framework|database|theme|vim|vs ?code|docker|kubernetes"
    "|postgres|mysql"
    "|npm|pytest|gitlab|github",
}
_DOMAIN_PATTERNS: Final = {name: re.compile(words, re.IGNORECASE) for name, words in _DOMAIN_WORDS.items()}


def find_user_facts(number: int, said: Sequence[Sentence], *, answers: bool) -> Iterator[KnowledgeCandidate]:
    """Yield the lasting statements of a user's message. It may correct an agent that spoke before (`answers`)."""
    correction = _find_correction(said) if answers else None
    if correction is not None:
        yield _make_candidate(CandidateCategory.CORRECTION, correction, number)
    for sentence in said:
        category = category_of(sentence)
        if category is not None and sentence.text not in (correction or ""):
            yield _make_candidate(category, sentence.text, number)


def category_of(sentence: Sentence) -> CandidateCategory | None:
    """Return the category of a user's sentence; None if it states nothing lasting."""
    bare = sentence.bare
    # A hypothesis is no statement, but its consequence may be one (if it fails, always …).
    begins = 0
    if patterns.HYPOTHETICAL.search(bare):
        comma = _FIRST_COMMA.search(bare)
        if comma is None:
            return None
        begins = comma.end()
    for category, forms in _OF_PROFILES:
        match = forms.search(bare, begins)
        if match is not None and not _is_past_or_reported(category, bare, match.start()):
            return None if _is_excluded(bare) else category
    if patterns.DEFINITION.search(bare):
        return None if _is_excluded(bare) else CandidateCategory.DEFINITION
    return CandidateCategory.BACKGROUND if patterns.REMEMBER.search(bare) and not _is_excluded(bare) else None


def make_title(category: CandidateCategory, text: str) -> tuple[str, dict[str, str]]:
    """Return the task («用户偏好：编码风格») and the tags (category and domain) of a statement."""
    zh = is_chinese(text)
    title = _TITLES[category][0 if zh else 1]
    for name, pattern in _DOMAIN_PATTERNS.items():
        if pattern.search(text):
            task = f"{title}：{_DOMAINS[name][0]}" if zh else f"{title}: {_DOMAINS[name][1]}"
            return task, {"category": category.value, "domain": name}
    return title, {"category": category.value}


def _is_excluded(bare: str) -> bool:
    if patterns.QUESTION.search(bare) and not patterns.POLITE_REQUEST.search(bare):
        return True
    tests = (
        patterns.HEDGE,
        patterns.NOT_SO,
        patterns.EXAMPLE,
        patterns.GENERAL,
        patterns.MADE_TO_ORDER,
        patterns.PRIVATE,
    )
    return any(test.search(bare) for test in tests)


def _is_past_or_reported(category: CandidateCategory, bare: str, at: int) -> bool:
    before = bare[:at]
    if patterns.REPORTED.search(bare[: at + 1]):
        return True
    if category is CandidateCategory.CONSTRAINT:
        return False
    return patterns.PAST.search(before) is not None or (
        category is CandidateCategory.PREFERENCE and patterns.PASSING.search(bare) is not None
    )


def _find_correction(said: Sequence[Sentence]) -> str | None:
    """Return the correction in a message that begins with «no»: one sentence, or two."""
    if not said:
        return None
    first = said[0]
    if patterns.NOT_X_BUT_Y.search(first.bare):
        return first.text
    if not patterns.CORRECTION_START.search(first.bare):
        return None
    pair = said[:2]
    for count in (1, 2):
        bare = " ".join(sentence.bare for sentence in pair[:count])
        asks = patterns.QUESTION.search(bare) or patterns.HEDGE.search(bare)
        if not asks and patterns.CORRECTION.search(bare):
            return " ".join(sentence.text for sentence in pair[:count])
    return None


def _make_candidate(category: CandidateCategory, text: str, number: int) -> KnowledgeCandidate:
    task, tags = make_title(category, text)
    kinds = {
        CandidateCategory.CORRECTION: KnowledgeType.STRATEGY,
        CandidateCategory.DEFINITION: KnowledgeType.DEFINITION,
    }
    kind = KnowledgeType.USER_PROFILE if category in PROFILE_CATEGORIES else kinds[category]
    said = f"用户说：{text}" if is_chinese(text) else f"The user said: {text}"
    content = text if category is CandidateCategory.DEFINITION else said
    return KnowledgeCandidate(category, task, content, (number,), (kind.value,), expressed=True, tags=tags)


def by_rules(messages: Sequence[Message], trigger: Trigger, fold: Fold = str) -> list[KnowledgeCandidate]:
    """Return the candidates in the order of the conversation, without repetitions.

    Statements of the user are found for every trigger (主动表达 comes first). What agents and tools did is found when a
    task is done or messages are compacted, and a verdict of the user when feedback is given.
    """
    without_answers = [Message("tool", "") if recalled.is_recall_answer(message) else message for message in messages]
    found = sorted(_find_candidates(without_answers, trigger, fold), key=lambda candidate: candidate.cited[-1])
    return list({(candidate.category, candidate.content): candidate for candidate in reversed(found)}.values())[::-1]


def _find_candidates(messages: Sequence[Message], trigger: Trigger, fold: Fold) -> Iterator[KnowledgeCandidate]:
    conversation = parse_messages(messages, fold)
    answers = False
    for number, (message, said) in enumerate((item.message, item.said) for item in conversation):
        if message.is_user:
            yield from find_user_facts(number, said, answers=answers)
        answers = answers or message.is_agent
    if trigger is Trigger.USER_FEEDBACK:
        yield from episodes.find_feedback(conversation)
    if trigger in (Trigger.TASK_COMPLETION, Trigger.COMPACTION):
        pitfalls = list(episodes.find_pitfalls(conversation))
        yield from pitfalls
        # A pitfall is not repeated as an outcome.
        texts = {candidate.content for candidate in pitfalls}
        yield from (outcome for outcome in episodes.find_outcomes(conversation) if outcome.content not in texts)
        yield from episodes.find_plans(messages)
