"""What a user says about themselves, their work and the assistant's mistakes, found by rules (KS-040, KS-044, KS-055).

Precision before recall: a sentence that asks, supposes, hedges, reports somebody else's words, points at something in
this conversation, or speaks of this once is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from knowhub.knowledge import spoken_patterns as patterns
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Candidate, Category
from knowhub.knowledge.model import KnowledgeType
from knowhub.knowledge.spoken import Sentence

_HAN = re.compile(r"[\u4e00-\u9fff]")
_FIRST_COMMA = re.compile(r"[，,]")
_OF_PROFILES: Final = (
    (Category.CONSTRAINT, patterns.CONSTRAINT),
    (Category.PREFERENCE, patterns.PREFERENCE),
    (Category.BACKGROUND, patterns.BACKGROUND),
    (Category.HABIT, patterns.HABIT),
)
_TITLES: Final = {
    Category.PREFERENCE: ("用户偏好", "User preference"),
    Category.HABIT: ("用户习惯", "User habit"),
    Category.BACKGROUND: ("用户背景", "User background"),
    Category.CONSTRAINT: ("用户约束", "User constraint"),
    Category.CORRECTION: ("用户纠正", "User correction"),
    Category.DEFINITION: ("用语定义", "Definition of a term"),
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


def said_by_user(number: int, said: Sequence[Sentence], *, answers: bool) -> Iterator[Candidate]:
    """Yield what a user's message says that lasts; `answers` tells that somebody spoke before, who can be corrected."""
    correction = _correction(said) if answers else None
    if correction is not None:
        yield _candidate(Category.CORRECTION, correction, number)
    for sentence in said:
        category = category_of(sentence)
        if category is not None and sentence.text not in (correction or ""):
            yield _candidate(category, sentence.text, number)


def category_of(sentence: Sentence) -> Category | None:
    """Return what a user's sentence is; None where it says nothing that lasts."""
    bare = sentence.bare
    # What is supposed says nothing; what shall be done then does (if it fails, always …).
    begins = 0
    if patterns.HYPOTHETICAL.search(bare):
        comma = _FIRST_COMMA.search(bare)
        if comma is None:
            return None
        begins = comma.end()
    for category, forms in _OF_PROFILES:
        match = forms.search(bare, begins)
        if match is not None and not _is_unmeant(category, bare, match.start()):
            return None if _says_nothing(bare) else category
    if patterns.DEFINITION.search(bare):
        return None if _says_nothing(bare) else Category.DEFINITION
    return Category.BACKGROUND if patterns.REMEMBER.search(bare) and not _says_nothing(bare) else None


def is_chinese(text: str) -> bool:
    """Tell in which language a text is answered: Chinese where a fifth of it is."""
    return len(_HAN.findall(text)) * 5 >= len(text.replace(" ", ""))


def titled(category: Category, text: str) -> tuple[str, dict[str, str]]:
    """Return the task and the tags of what was said: «用户偏好：编码风格» and its category and domain."""
    zh = is_chinese(text)
    title = _TITLES[category][0 if zh else 1]
    for name, pattern in _DOMAIN_PATTERNS.items():
        if pattern.search(text):
            task = f"{title}：{_DOMAINS[name][0]}" if zh else f"{title}: {_DOMAINS[name][1]}"
            return task, {"category": category.value, "domain": name}
    return title, {"category": category.value}


def _says_nothing(bare: str) -> bool:
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


def _is_unmeant(category: Category, bare: str, at: int) -> bool:
    before = bare[:at]
    if patterns.REPORTED.search(bare[: at + 1]):
        return True
    if category is Category.CONSTRAINT:
        return False
    return patterns.PAST.search(before) is not None or (
        category is Category.PREFERENCE and patterns.PASSING.search(bare) is not None
    )


def _correction(said: Sequence[Sentence]) -> str | None:
    """Return what a message that begins with «no» puts right: that sentence, or it and the next one."""
    if not said:
        return None
    first = said[0]
    if patterns.NOT_X_BUT_Y.search(first.bare):
        return first.text
    if not patterns.CORRECTION_START.search(first.bare):
        return None
    pair = said[:2]
    for count in (1, 2):
        bare = " ".join(one.bare for one in pair[:count])
        asks = patterns.QUESTION.search(bare) or patterns.HEDGE.search(bare)
        if not asks and patterns.CORRECTION.search(bare):
            return " ".join(one.text for one in pair[:count])
    return None


def _candidate(category: Category, text: str, number: int) -> Candidate:
    task, tags = titled(category, text)
    kinds = {Category.CORRECTION: KnowledgeType.STRATEGY, Category.DEFINITION: KnowledgeType.DEFINITION}
    kind = KnowledgeType.USER_PROFILE if category in PROFILE_CATEGORIES else kinds[category]
    said = f"用户说：{text}" if is_chinese(text) else f"The user said: {text}"
    content = text if category is Category.DEFINITION else said
    return Candidate(category, task, content, (number,), (kind.value,), expressed=True, tags=tags)
