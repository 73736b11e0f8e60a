"""People, animals, projects, products and places that somebody introduces with a sentence that says what they are."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.extraction_model import SpokenStatement
from knowhub.context.model import MemoryCategory

# The joiner is required: with an optional one, a run of capitals can be split in a cubic number of ways.
_NAME: Final = r"[A-Z][\w'+#-]{0,40}(?:[ .][A-Z0-9][\w'+#-]{0,40}){0,3}"
_KIN: Final = (
    r"(?:(?:younger |older |little |big |elder |twin |best |old |new |ex-|step-?|grand|great-)*"
    r"(?:sister|brother|mother|mom|mum|father|dad|wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|son|daughter"
    r"|child|kid|cousin"
    r"|aunt|uncle|niece|nephew|grandma|grandpa|mother|father|friend|roommate|flatmate|neighbou?r|boss|manager"
    r"|colleague|co-?worker"
    r"|teammate|mentor|teacher|tutor|professor|supervisor|advisor|doctor|dentist|therapist|lawyer|accountant"
    r"|landlord|coach|client"
    r"|customer|cat|dog|puppy|kitten|rabbit|parrot|horse|hamster|turtle|pet|car|boat|band))"
)
_THING: Final = (
    r"(?:project|product|app|application|service|tool|library|framework|platform|company|startup|team|system|website"
    r"|site|repo"
    r"|repository|module|package|game|book|podcast|blog|channel|shop|store|restaurant|café|cafe|school|university"
    r"|city|town|village"
    r"|database|server|cluster|bot|agent|model|language)"
)
_ENTITIES_EN: Final = (
    # Anna is my sister; Bob was our tech lead.
    re.compile(
        rf"^(?:And |So |Well, |Oh, |By the way, )?(?P<name>{_NAME})(?:,)? (?:is|was) (?:my|our) (?!favou?rite|go-to"
        rf"|own)(?P<what>[^.!?]{{0,40}}?(?:{_KIN}|{_THING}|\b(?:lead|head|ceo|cto|intern|pet|\w+(?:er|or|ist|ant"
        rf"|ian)))\b[^.!?]*)"
    ),
    # My sister Anna …; my dog is called Rex; our project's name is Apollo.
    re.compile(rf"\b[Mm]y (?P<what>{_KIN})(?:'s name is|,? (?:is |was )?(?:called|named),?|,) (?P<name>{_NAME})\b"),
    re.compile(rf"\b[Mm]y (?P<what>{_KIN}) (?P<name>[A-Z][a-z]+)\b(?! (?:day|and I)\b)"),
    re.compile(
        rf"\b(?:I|[Ww]e) (?:have|own|adopted|got|bought|keep) (?:an?|two|three) (?:\w+ ){{0,3}}?(?P<what>{_KIN})s? "
        rf"(?:called|named) (?P<name>{_NAME})"
    ),
    re.compile(rf"\b(?:[Hh]e|[Ss]he|[Ii]t)(?:'s| is) (?:called|named) (?P<name>{_NAME})"),
    # Dana Cole from finance is the one who …
    re.compile(
        rf"^(?P<name>{_NAME}) (?:from|in|of|at) [\w ]{{2,30}} is (?:the (?:one|person|contact|lead|owner)|our|my) "
        r"(?P<what>\w[^.!?]*)"
    ),
    # Our project is called Apollo; we are building a service called Atlas.
    re.compile(
        rf"\b(?:[Oo]ur|[Mm]y) (?:\w+ ){{0,3}}?(?P<what>{_THING})(?:'s name is| is (?:called|named)) "
        rf"(?P<name>{_NAME})"
    ),
    re.compile(
        rf"\b(?:I|[Ww]e)(?:'m|'re| am| are| have|'ve)? (?:\w+ ){{0,3}}?(?:building|built|developing|maintain"
        rf"|maintaining|making|writing|running"
        rf"|run|started|founded|launched) (?:an?|the) (?:[\w-]+ ){{0,4}}?(?P<what>{_THING}) (?:called|named) "
        rf"(?P<name>{_NAME})"
    ),
    # Project Apollo is written in Go; the Atlas service runs on Kubernetes.
    re.compile(rf"^(?:The )?[Pp]roject (?P<name>{_NAME}) (?:is|uses|runs|was|has|aims|will) (?P<what>\w[^.!?]*)"),
    re.compile(
        rf"^(?:Our |The )(?P<name>{_NAME}) {_THING} (?:is (?:an?|our|written|built|hosted|deployed|based)|uses|runs"
        rf"|was (?:written|built|started))"
        rf" ?(?P<what>[^.!?]*)"
    ),
    # Apollo is a tool that we use for …; DPO is short for direct preference optimisation.
    re.compile(
        rf"^(?P<name>{_NAME}) is (?:an?|the) (?P<what>(?:[\w-]+ ){{0,4}}?{_THING} (?:that|which|where) (?:we|I|our"
        rf"|my)\b[^.!?]*)"
    ),
    re.compile(rf"^(?P<name>{_NAME}) (?:stands for|is short for) (?P<what>\w[^.!?]*)"),
)
_NOT_NAME_WORDS: Final = (
    "this that it he she they these those there here what which who everything nothing something"
    " everyone one i we you my our his her their its today tomorrow yesterday the a an and but so"
    " well yes no oh ok okay also monday tuesday wednesday thursday friday saturday sunday january"
    " february march april may june july august september october november december all both another"
    " some any each every being having doing working english chinese python sure thanks"
)
_NOT_NAMES: Final = frozenset(_NOT_NAME_WORDS.split())
_KIN_ZH: Final = (
    r"(?:妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|母亲|父亲|老婆|老公|妻子|丈夫|女朋友|男朋友|对象|未婚妻|未婚夫|儿子|女儿|孩子"
    r"|表[哥弟姐妹]|堂[哥弟姐妹]"
    r"|奶奶|爷爷|外婆|外公|阿姨|叔叔|舅舅|姑姑|朋友|好友|闺蜜|室友|邻居|老板|上司|领导|经理|同事|组长|导师|老师|同学"
    r"|医生|律师|教练|房东|客户"
    r"|猫|狗|小猫|小狗|兔子|鹦鹉|仓鼠|乌龟|宠物|车|乐队)"
)
_THING_ZH: Final = (
    r"(?:项目|产品|应用|服务|工具|库|框架|平台|公司|团队|系统|网站|仓库|模块|游戏|店|学校|数据库|集群|机器人)"
)
_NAME_ZH: Final = r"[A-Za-z][\w+#-]{0,40}(?: [A-Z][\w-]{0,40}){0,2}|[\u4e00-\u9fff]{1,6}?"
_END_ZH: Final = r"(?=[，,。.!！；;\s]|$)"
_ENTITIES_ZH: Final = (
    re.compile(
        rf"我(?:们)?家?的?(?P<what>{_KIN_ZH})(?:的名字)?(?:是叫|叫做|名叫|叫)(?!我|什么"
        rf"|你)(?P<name>{_NAME_ZH}){_END_ZH}"
    ),
    re.compile(
        rf"我(?:们)?家?(?:养|有|收养|买)了?[一两二三]?(?:只|条|个|位|头"
        rf"|辆)?(?P<what>[^，。？?]{{0,6}}{_KIN_ZH})[，,]?(?:名字)?(?:叫做|名叫|叫)(?P<name>{_NAME_ZH}){_END_ZH}"
    ),
    re.compile(rf"^(?P<name>{_NAME_ZH})\s?是我(?:们)?家?的?(?P<what>[^，。？?吗]{{0,8}}{_KIN_ZH}){_END_ZH}"),
    re.compile(
        rf"^(?P<name>{_NAME_ZH})\s?是(?:我们|我|咱们)(?:公司|团队|部门)?(?:的|做的|开发的|自研的"
        rf"|内部的)(?P<what>[^，。？?吗]{{0,16}}{_THING_ZH})"
    ),
    re.compile(
        rf"(?:我们|我|咱们|这个|该)(?:的|这个|公司的|团队的)?(?:新)?(?P<what>{_THING_ZH})(?:的名字)?(?:叫做|名叫"
        rf"|叫)(?!什么)\s?(?P<name>{_NAME_ZH}){_END_ZH}"
    ),
    re.compile(
        r"^(?:我们的?)?项目\s?(?P<name>[A-Za-z][\w+#-]*|[\u4e00-\u9fff]{2,6})\s?(?P<what>(?:用|是用|使用|基于|部署在"
        r"|跑在|采用|的目标是)[^，。？?]{1,}[^。？?]*)"
    ),
    re.compile(
        rf"^(?P<name>[A-Za-z][\w+#-]*)\s?(?:这个)?{_THING_ZH}\s?(?P<what>(?:用|是用|使用|基于|部署在|跑在|采用"
        rf"|是我们)[^，。？?]{{1,}}[^。？?]*)"
    ),
)
_NOT_NAMES_ZH: Final = re.compile(
    r"^(?:这|那|他|她|它|你|我|谁|什么|哪|今天|昨天|明天|现在|以后|如果|因为|所以|但|不|也|都|还|就|最|可能)"
)
_QUOTES: Final = "\"'“”‘’「」《》 "


def find_entities(telling: CandidateFactory, statements: Iterable[SpokenStatement]) -> list[CandidateMemory]:
    """Return who and what the users introduce, each by its name."""
    return [
        telling.candidate(MemoryCategory.ENTITIES, name, statement.text, (statement.number,), name=name)
        for statement in statements
        if statement.is_meant
        for name in find_introduced_names(statement)
    ]


def find_introduced_names(statement: SpokenStatement) -> Iterator[str]:
    """Yield the names that a statement introduces, each once."""
    forms = _ENTITIES_EN if statement.text.isascii() else (*_ENTITIES_ZH, *_ENTITIES_EN)
    met: set[str] = set()
    for form in forms:
        match = form.search(statement.text)
        name = match["name"].strip(_QUOTES) if match is not None else ""
        if name and name not in met and _is_name(name):
            met.add(name)
            yield name


def _is_name(name: str) -> bool:
    first = name.split(maxsplit=1)[0].casefold()
    return first not in _NOT_NAMES and not first.endswith("n't") and _NOT_NAMES_ZH.match(name) is None
