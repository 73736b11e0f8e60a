"""Who the user is: identity, work, home and long-term background, by rules (CE-070)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction import entity_rules, own_values, preference_rules
from knowhub.context.extraction.own_values import Clause
from knowhub.context.extraction.telling import Telling
from knowhub.context.heard import Statement
from knowhub.context.model import Category

# Beside what knowledge takes for background: what people say of themselves in talk.
_ALSO: Final = re.compile(
    r"^(?:and |so |well,? |yes,? |yeah,? )?(?:i am|i'm) (?:a |an )?(?:single|married|divorced|engaged|widowed"
    r"|pregnant|trans\w*|gay"
    r"|non-?binary|\d{2} years old)\b(?! (?:point|way|day|time|thing|one)\b)"
    r"|^(?:my (?:wife|husband|partner|girlfriend|boyfriend) and i|i) have (?:\w+ )?(?:kids|children|sons?|daughters?)\b"
    r"|\bi (?:was born|grew up) (?:in|on)\b|\bi(?:'ve| have) lived in \w"
    r"|^我(?:今年)?\d{1,3}岁|^我(?:已经)?(?:结婚|离婚|退休)了|^我(?:今年)?刚?(?:结婚|离婚|退休)了|^我(?:出生"
    r"|生)(?:于|在)|^我是[^，。？?]{1,8}人[，,。!！]?$"
    r"|^我有[一两二三四五1-5]个(?:孩子|儿子|女儿)"
)
_TOPICS: Final = (
    (
        "identity",
        (
            r"\bname\b|call me|years old|birthday|born|pronouns|\bi(?: am|'m) (?:a )?(?:trans|gay|non-?binary)|名字"
            r"|我叫|叫我|岁|生日|出生"
        ),
    ),
    (
        "home",
        (
            r"\blive|based in|moved to|relocated|\bfrom\b|grew up|hometown|\bcity\b|time ?zone|住在|搬[到去来回]"
            r"|来自|老家|家乡|城市|时区"
            r"|是[^，。]{1,8}人"
        ),
    ),
    (
        "family",
        (
            r"married|divorced|single|engaged|widowed|pregnant|kids|children|\bsons?\b|daughters?|parent|结婚|离婚"
            r"|孩子|儿子|女儿|单亲"
        ),
    ),
    ("language", r"native language|mother tongue|speak|fluent|bilingual|母语|会说"),
    ("setup", r"laptop|machine|\bos\b|operating system|shell|editor|\bide\b|电脑|操作系统|编辑器|开发环境|手机"),
    ("team", r"\b(?:our|we|my (?:team|company))\b|我们|咱们|团队|公司"),
    (
        "work",
        (
            r"work|job|role|title|engineer|developer|teach|study|student|lead|manage|run |own |experience|years|工作"
            r"|职|工程师"
            r"|开发|老师|教师|学生|医生|护士|设计师|经理|研究|负责|经验|年|专业|退休"
        ),
    ),
)
_TOPIC_FORMS: Final = tuple((name, re.compile(form)) for name, form in _TOPICS)
_OTHER: Final = "background"
# Of these a person has but one: a newer statement takes the place of an older one.
_SINGLE: Final = {
    "work": "job",
    "called": "name",
    "名字": "name",
    "城市": "home",
    "city": "home",
    "location": "home",
}


def found(telling: Telling, statements: Iterable[Statement]) -> list[CandidateMemory]:
    """Return what the users say of who they are."""
    candidates: list[CandidateMemory] = []
    for one in statements:
        if _is_background(one):
            candidates += (_candidate(telling, one, clause) for clause in own_values.clauses(one.text))
        elif one.is_meant and (ended := own_values.ended(one.text)):
            candidates.append(_ending(telling, one, dict(sorted(ended))))
    return candidates


def _is_background(one: Statement) -> bool:
    if not one.is_meant or preference_rules.is_preference(one):
        return False
    if not one.values and any(entity_rules.introduced(one)):
        # It tells of somebody or something of theirs, and by its name.
        return False
    is_told = _ALSO.search(one.bare) is not None or own_values.moved_to(one.text)
    return one.kind == "background" or (not one.kind and is_told)


def _candidate(telling: Telling, one: Statement, clause: Clause) -> CandidateMemory:
    is_whole = clause.text == one.text
    bare = one.bare if is_whole else clause.text.lower()
    topic = next((name for name, form in _TOPIC_FORMS if form.search(bare)), _OTHER)
    own = dict(sorted(clause.values))
    values = ({**dict(_singular(one.values)), **own} if is_whole else own).items()
    return telling.candidate(
        Category.PROFILE,
        telling.key(one.number, topic),
        clause.text,
        (one.number,),
        topic=telling.key(one.number, topic),
        values={telling.key(one.number, name): value for name, value in values},
    )


def _ending(telling: Telling, one: Statement, ended: Mapping[str, str]) -> CandidateMemory:
    """Return what is said not to be so any more: it takes the place of what said that it is, where that stands."""
    topic = telling.key(one.number, next((name for name, form in _TOPIC_FORMS if form.search(one.bare)), _OTHER))
    named = {telling.key(one.number, name): value for name, value in ended.items()}
    return telling.candidate(Category.PROFILE, topic, one.text, (one.number,), topic=topic, ended=named)


def _singular(values: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return sorted((_SINGLE.get(name, name), value) for name, value in values)
