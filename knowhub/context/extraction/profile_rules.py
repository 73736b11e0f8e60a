"""What people say of themselves: a profile, and single-valued facts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction import entity_rules, preference_rules
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.extraction_model import SpokenStatement
from knowhub.context.model import MemoryCategory

# Where one clause about the speaker ends and the next begins.
_BETWEEN: Final = re.compile(
    r"(?<!\s)\s*(?:[,;]\s*)?\band (?=i\b|i'm|my\b|live\b|work\b|moved\b)|[，；;,]\s*",
    re.IGNORECASE,
)
_END: Final = (
    r"(?=\s{1,4}(?:and|but|in|at|for|on|with|from|since|because|now|last|this|a|two|three|after|when|where|near)\b"
    r"|[.,;!?，。；！？\n]|$)"
)
_SUBJECT: Final = r"(?:^|\bi (?:now |currently |just |recently |already )*|\bi(?:'m| am) (?:now |currently )*)"
_FORMS: Final = (
    ("name", re.compile(rf"\bmy (?:full )?name(?:'s| is) (?:now )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("name", re.compile(r"(?:^|[，,。；;\s])我(?:的名字)?(?:现在|就)*叫(?P<value>[^，,。；;！!\n什么]{1,12})")),
    ("name", re.compile(r"我的名字(?:现在|就)*[是叫](?P<value>[^，,。；;！!\n什么]{1,12})")),
    (
        "home",
        re.compile(
            rf"{_SUBJECT}(?:live|living|based) in (?!an? |my |the )(?P<value>[^,;!\n]+?){_END}",
            re.IGNORECASE,
        ),
    ),
    ("home", re.compile(r"(?:^|我)(?:现在|目前|就|一直|还)*住在(?P<value>[^，,。；;！!？?\n什哪]{1,12})")),
    ("job", re.compile(rf"{_SUBJECT}work as (?:an? |the )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("job", re.compile(r"(?:^|我)(?:现在|目前)*(?:是|当了?)一[名位](?P<value>[^，,。；;！!？?\n的]{2,10})")),
)
# What somebody says is not so, or not any more.
_NO_LONGER: Final = r"(?:no longer|don't|do not|dont) (?:currently |actually |really )?"
_NO_LONGER_ZH: Final = r"(?:^|我)(?:已经|早就|现在|目前|其实|并)*不(?:再)?"
_ENDED: Final = (
    ("name", re.compile(rf"\bmy (?:full )?name(?:'s| is) not (?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("name", re.compile(rf"{_NO_LONGER_ZH}叫(?P<value>[^，,。；;！!？?\n什么]{{1,12}})")),
    ("home", re.compile(rf"\bi {_NO_LONGER}live in (?!an? |my |the )(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    (
        "home",
        re.compile(
            r"\bi(?:'m| am) (?:no longer|not) (?:living|based) in (?!an? |my |the )"
            rf"(?P<value>[^,;!\n]+?){_END}",
            re.IGNORECASE,
        ),
    ),
    ("home", re.compile(rf"{_NO_LONGER_ZH}住在(?P<value>[^，,。；;！!？?\n什哪]{{1,12}})")),
    ("job", re.compile(rf"\bi {_NO_LONGER}work as (?:an? |the )?(?P<value>[^,;!\n]+?){_END}", re.IGNORECASE)),
    ("job", re.compile(rf"{_NO_LONGER_ZH}是(?:一[名位]|个)?(?P<value>[^，,。；;！!？?\n的]{{2,10}})")),
)
_ANY_MORE: Final = re.compile(r"(?:\s{0,4}(?:anymore|any more|any longer|at all)){1,4}$", re.IGNORECASE)
# One moves to a tool and a version as well: a place is a word or two, each with a capital, and none of those.
_MOVED: Final = re.compile(
    r"\b[Ii](?:'ve| have)? (?:just |recently |finally |now )*(?:moved|relocated) (?:back )?to "
    rf"(?P<value>[A-ZÀ-Þ][^\W\d_]+(?:[ -][A-ZÀ-Þ][^\W\d_]+){{0,2}}){_END}(?!\s+(?:and|for|with) (?:it|our|my)\b)"
)
_MOVED_ZH: Final = re.compile(
    r"(?:^|我)(?:已经|刚刚?|上周|上个?月|去年|今年|最近|现在|前几天|昨天|\d{1,2}月\d{1,2}[日号])*+"
    r"(?:从[^，,。；;！!？?\n搬]{1,8})?搬(?:到|去|来|回)了?"
    r"(?P<value>[^，,。；;！!？?\n一新个的]{2,8})"
)
_NO_PLACE: Final = re.compile(
    r"\A(?:vim|neovim|emacs|vs|vscode|visual|jetbrains|intellij|python|typescript|javascript|rust|go|golang|java|kotlin"
    r"|swift|ruby|php|kubernetes|docker|podman|linux|mac|macos|windows|ubuntu|debian|fedora|arch|postgres\w*|mysql"
    r"|sqlite|mongo\w*|redis|git\w*|bitbucket|aws|azure|gcp|google|amazon|react|vue|svelte|angular|next|node|deno|bun"
    r"|slack|teams|notion|obsidian|jira|linear|chrome|firefox|safari|zsh|fish|bash|terraform|ansible|jenkins|claude"
    r"|openai|gpt|chatgpt|cloud\w*|plan|phase|step|version|team|sales|engineering|marketing|product|management|monday"
    r"|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
    r"|\A.*(?:服务器|集群|容器|云|仓库|目录|分支|线上|项目|团队|部门|公司|工位|楼|房|框架|平台|系统|数据|屋|家)",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(r"(?:\s{0,4}(?:now|currently|these days|了|吧|啦|呢)){1,4}$")


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a statement, and its single-valued facts."""

    text: str
    values: frozenset[tuple[str, str]]


def clauses(statement: str) -> list[Clause]:
    """Return a statement in as many parts as it gives values of different kinds; at least one, the whole of it."""
    starts = [0, *(match.end() for match in _BETWEEN.finditer(statement))]
    ends = [*(match.start() for match in _BETWEEN.finditer(statement)), len(statement)]
    parted: list[tuple[int, int, frozenset[tuple[str, str]]]] = []
    for start, end in zip(starts, ends, strict=True):
        told = values(statement[start:end])
        kinds = {kind for kind, _ in told}
        before = {kind for kind, _ in parted[-1][2]} if parted else set()
        if parted and (kinds <= before or not before):
            # It goes on about the same, or is the first to say anything.
            parted[-1] = (parted[-1][0], end, parted[-1][2] | told)
        else:
            parted.append((start, end, told))
    if len(parted) == 1:
        return [Clause(statement, parted[0][2])]
    return [Clause(statement[start:end].strip(), told) for start, end, told in parted]


def values(text: str) -> frozenset[tuple[str, str]]:
    """Return the single-valued facts of a text: (name, li), (home, berlin)."""
    said = [(kind, match["value"]) for kind, form in _FORMS for match in form.finditer(text)]
    said += [("home", place) for place in _moves(text)]
    return frozenset((kind, value) for kind, item in said if (value := _plain(item)))


def find_ended_values(text: str) -> frozenset[tuple[str, str]]:
    """Return what a text says is not so, or not any more: (home, berlin)."""
    said = ((kind, _ANY_MORE.sub("", match["value"])) for kind, form in _ENDED for match in form.finditer(text))
    return frozenset((kind, value) for kind, item in said if (value := _plain(item)))


def says_moved(statement: str) -> bool:
    """Return whether somebody says that they have moved, and where."""
    return any(True for _ in _moves(statement))


def _plain(value: str) -> str:
    return _TRAILING.sub("", value.strip(" .。")).casefold().strip()


def _moves(text: str) -> Iterable[str]:
    places = (match["value"] for form in (_MOVED, _MOVED_ZH) for match in form.finditer(text))
    return (place for place in places if not _NO_PLACE.match(place))


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


def find_profile(telling: CandidateFactory, statements: Iterable[SpokenStatement]) -> list[CandidateMemory]:
    """Return what the users say of who they are."""
    candidates: list[CandidateMemory] = []
    for statement in statements:
        if _is_background(statement):
            candidates += (_candidate(telling, statement, clause) for clause in clauses(statement.text))
        elif statement.is_meant and (ended := find_ended_values(statement.text)):
            candidates.append(_make_correction(telling, statement, dict(sorted(ended))))
    return candidates


def _is_background(statement: SpokenStatement) -> bool:
    if not statement.is_meant or preference_rules.is_preference(statement):
        return False
    if not statement.values and any(entity_rules.find_introduced_names(statement)):
        # It tells of somebody or something of theirs, and by its name.
        return False
    is_told = _ALSO.search(statement.bare) is not None or says_moved(statement.text)
    return statement.kind == "background" or (not statement.kind and is_told)


def _candidate(telling: CandidateFactory, statement: SpokenStatement, clause: Clause) -> CandidateMemory:
    is_whole = clause.text == statement.text
    bare = statement.bare if is_whole else clause.text.lower()
    topic = next((name for name, form in _TOPIC_FORMS if form.search(bare)), _OTHER)
    own = dict(sorted(clause.values))
    values = ({**dict(_singular(statement.values)), **own} if is_whole else own).items()
    return telling.candidate(
        MemoryCategory.PROFILE,
        telling.key(statement.number, topic),
        clause.text,
        (statement.number,),
        topic=telling.key(statement.number, topic),
        values={telling.key(statement.number, name): value for name, value in values},
    )


def _make_correction(
    telling: CandidateFactory, statement: SpokenStatement, ended: Mapping[str, str]
) -> CandidateMemory:
    """Return the statements that are denied; a denial replaces the stored statement."""
    topic = telling.key(
        statement.number, next((name for name, form in _TOPIC_FORMS if form.search(statement.bare)), _OTHER)
    )
    named = {telling.key(statement.number, name): value for name, value in ended.items()}
    return telling.candidate(
        MemoryCategory.PROFILE, topic, statement.text, (statement.number,), topic=topic, ended=named
    )


def _singular(values: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return sorted((_SINGLE.get(name, name), value) for name, value in values)
