"""What the user likes, keeps to and does not want, by rules: one topic a node."""

import re
from collections.abc import Iterable
from typing import Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction import procedure_rules
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.extraction_model import SpokenStatement
from knowhub.context.model import MemoryCategory

_KINDS: Final = ("preference", "habit", "constraint")
# A taboo is a preference, though it tells of who somebody is.
_TABOO: Final = re.compile(
    r"\bi(?:'m| am| have)? (?:\w+ ){0,2}(?:allergic to|vegetarian|vegan|lactose|gluten|celiac|diabetic)"
    r"|\bi (?:don't|do not|never|can't|cannot) (?:eat|drink|smoke)\b"
    r"|我[^，。]{0,12}(?:过敏|不吃|不喝|不抽|忌口|吃素|素食)"
)
_TOPICS: Final = (
    ("diet", r"allerg|vegetarian|vegan|lactose|gluten|celiac|diabetic|过敏|不吃|忌口|吃素|素食|清真"),
    (
        "food",
        (
            r"\beat|\bfood|\bcook|dish|meal|breakfast|lunch|dinner|spicy|pizza|sushi|noodle|dessert|cake|chocolate"
            r"|restaurant|cuisine|吃|菜|辣|火锅|面条|米饭|甜|水果|零食|餐"
        ),
    ),
    ("drink", r"\bdrink|coffee|\btea\b|\bbeer|\bwine|latte|espresso|喝|咖啡|茶|啤酒|酒|奶茶"),
    ("music", r"\bmusic|\bsong|\bjazz|\bband\b|\bguitar|piano|violin|concert|音乐|歌|吉他|钢琴|演唱会"),
    ("reading", r"\bread(?:ing)?\b|\bbooks?\b|novel|author|poetry|读书|看书|小说|阅读|诗"),
    ("film", r"\bmovie|\bfilm|tv show|series|anime|电影|电视剧|动漫|综艺"),
    ("games", r"\bgames?\b|\bchess|游戏|围棋|象棋"),
    (
        "sport",
        (
            r"\brun(?:ning)?\b(?! in| on| the)|swim|hik(?:e|ing)|yoga|\bgym|football|soccer|basketball|tennis|climb"
            r"|cycl"
            r"|跑步|游泳|爬山|徒步|瑜伽|健身|足球|篮球|网球|骑车|羽毛球"
        ),
    ),
    ("travel", r"travel|flight|hotel|window seat|aisle seat|\btrip|旅行|旅游|航班|酒店|靠窗|出差"),
    (
        "communication",
        (
            r"answers?\b|repl(?:y|ies)|respon|explain|emoji|chinese|english|summar|tone|apologi|call me|回答|回复"
            r"|解释|语气"
            r"|中文|英文|表情|结论|总结|叫我|客套|感叹号"
        ),
    ),
    (
        "coding-style",
        (
            r"\btabs?\b|spaces|naming|variable|comment|type hint|function|indent|snake|camel|缩进|命名|变量|注释"
            r"|代码|函数"
        ),
    ),
    (
        "tools",
        (
            r"editor|\bvim\b|vs ?code|docker|kubernetes|postgres|mysql|npm|pytest|git(?:hub|lab)|framework|database"
            r"|theme|dark mode"
            r"|编辑器|框架|数据库|主题|深色"
        ),
    ),
    (
        "workflow",
        (
            r"commit|branch|\bdiff\b|\btests?\b|review|deploy|release|pull request|merge|pipeline|提交|分支|测试"
            r"|评审|部署"
            r"|发布|上线|合并"
        ),
    ),
    ("budget", r"budget|spend|\bcosts?\b|\bprice|预算|成本|费用|花费"),
    (
        "schedule",
        (
            r"deadline|\bdue\b|meeting|morning|evening|weekend|\bmonday|\bfriday|截止|期限|会议|早上|晚上|周末"
            r"|周[一二三四五六日]"
        ),
    ),
)
_GENERAL: Final = "general"
TOPICS: Final = frozenset({_GENERAL, *(name for name, _ in _TOPICS)})
"""The topics that are known by themselves; any other is what somebody said."""
_TOPIC_FORMS: Final = tuple((name, re.compile(form)) for name, form in _TOPICS)
_OBJECT: Final = re.compile(
    r"\b(?:prefer|like|love|hate|dislike|enjoy|favou?r|stand|detest|loathe|adore)s? (?:to |the |a |an |my |using )?"
    r"(?P<en>[a-z][\w-]*(?: [a-z][\w-]*)?)"
    r"|(?:喜欢|偏好|偏爱|倾向于?|讨厌|反感|受不了|厌恶|热爱|习惯用?|爱)(?P<zh>[\u4e00-\u9fff\w]{1,8})"
)
_POINTED: Final = re.compile(
    r"(?:it|them|this|that|these|those|their|his|her|being|how|what|when|who|you|your|to)\b|这|那|它"
)
_STOPS: Final = re.compile(r"\b(?:over|than|and|or|with|when|in|on|at|for|to|it|that|of|more|most|as|because)\b.*$")


def find_preferences(telling: CandidateFactory, statements: Iterable[SpokenStatement]) -> list[CandidateMemory]:
    """Return what the users like, keep to, and do not want."""
    return [
        _candidate(telling, statement)
        for statement in statements
        if is_preference(statement) and not procedure_rules.is_procedure(statement)
    ]


def is_preference(statement: SpokenStatement) -> bool:
    """Return whether a statement is about what somebody likes, keeps to, or does not want."""
    if not statement.is_meant and statement.kind != "preference":
        return False
    if statement.kind in _KINDS:
        return True
    return statement.kind in ("background", "") and statement.is_meant and _TABOO.search(statement.bare) is not None


def topic_of(bare: str) -> str:
    """Return the topic of a preference in lower case: one of a few, else what it is of, else `general`."""
    named = next((name for name, form in _TOPIC_FORMS if form.search(bare)), None)
    if named is not None:
        return named
    match = _OBJECT.search(bare)
    if match is None:
        return _GENERAL
    said = _STOPS.sub("", match["en"]).strip() if match["en"] else match["zh"]
    return uri.slug(said) if said and _POINTED.match(said) is None else _GENERAL


def _candidate(telling: CandidateFactory, statement: SpokenStatement) -> CandidateMemory:
    topic = telling.key(statement.number, topic_of(statement.bare))
    return telling.candidate(
        MemoryCategory.PREFERENCES, topic, statement.text, (statement.number,), kind=statement.kind or "taboo"
    )
