"""What a sentence wants and does not want, as sets of words, found without a model."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from knowhub.conversations.sentences import Fold
from knowhub.core.unicode_forms import normalize

# A longer record is a document, not a statement.
_READ_CHARS: Final = 4_096

_SAID: Final = re.compile(r"^(?:用户说：|The user said: )", re.MULTILINE)
# X over Y, X 而不是 Y: what follows is not wanted.
_BUT_NOT: Final = re.compile(
    r"而不是|而非|而不要|不要用|，?不用|，?不要|，?别用|\brather than\b|\bover\b|\binstead of\b|\bthan\b|\bnot\b"
    r"|\bnever\b|\bno\b",
    re.IGNORECASE,
)
# A bare 不 negates its clause, unless it is part of another word.
_BARE_NOT_ZH: Final = re.compile(
    r"(?<![得能])不(?!超过|得不|能不|仅|只|同|错|断|论|管|如|止|但|光|要紧|低于|高于|小于|大于|少于|多于|晚于|早于)"
)
_CLAUSE_ENDS: Final = re.compile(r"[，,；;。]")
_THAN_ZH: Final = re.compile(r"(?:比起|相比|相较于?|与其)([^，。,]{1,30})[，,]?(.+)")
_NOT_BUT_ZH: Final = re.compile(r"不是([^，。,]{1,30})[，,]\s*(?:而)?是(.+)")
_NEGATIVE: Final = re.compile(
    r"不要|别(?!人|的)|不再|不想|不太?喜欢|不怎么喜欢|讨厌|反感|受不了|厌恶|禁止|不得|不能(?!超过|不)|不用|不许"
    r"|不允许|看不惯"
    r"|\b(?:don't|do not|never|not|no longer|stop|avoid|hate|dislike|can't stand|must not|cannot|can't|without"
    r"|isn't|aren't|am not|detest|loathe)\b",
    re.IGNORECASE,
)
# Words without content of their own.
_CARRIERS: Final = re.compile(
    r"用户说|比起|我们|咱们|我|你|您|的|了|着|过|请|以后|今后|从现在起|从现在开始|现在|都|就|也|更|最|很|非常|特别"
    r"|比较|一律|一直|总是|始终|永远|每次|喜欢|偏好|偏爱|习惯|倾向于|倾向|希望|使用|采用|用"
    r"|不要|不再|不想|不太|不怎么|不得|不能|不用|讨厌|反感|受不了|禁止|必须|务必|应该|而不是|而非|还是|是|不|别|要"
    r"|把|在|给|写|再|和|与|啊|吧|呢|嘛|那种|这种|一个|一名|一位|个|直接|尽量|其实|改|不对|错了"
)
_STOP_WORDS: Final = (
    "the a an i m we you my our your me us to in on at of for with and or is are am be was were it its this"
    " that these those when do does don doesn t s ll d ve re user said please always never ever not no from now"
    " going forward future prefer prefers like likes love hate dislike use using used uses want rather really"
    " just also must should would could can cannot every time all any than over instead so very much more most"
    " as by into if stop avoid longer i'm i'd don't doesn't can't actually wrong"
)
_STOP: Final = frozenset(_STOP_WORDS.split())
_TOKEN: Final = re.compile(r"[a-z0-9][a-z0-9+#._/-]*[a-z0-9+#]|[a-z0-9]|[\u3400-\u9fff]+")
# One word for frequent synonyms in Chinese and English, so that both languages match.
_ONE_WORD: Final = {
    form: f" {row.partition('=')[0]} "
    for row in (
        "chinese=中文|汉语|mandarin",
        "english=英文|英语",
        "japanese=日文|日语",
        "dark=深色|暗色",
        "light=浅色|亮色",
        "theme=主题|mode",
        "concise=简短|简洁|short|brief|terse",
        "detailed=详细|详尽|verbose|long",
        "answer=回答|回复|答复|replies|reply|responses|response|respond|answers|answering",
        "comment=注释|comments",
        "code=代码",
        "test=测试|tests",
        "tab=制表符|tabs",
        "space=空格|spaces",
        "emoji=表情符号|表情|emojis",
        "budget=预算",
        "deadline=截止日期|截止时间|最后期限",
    )
    for form in row.partition("=")[2].split("|")
}
_FORMS: Final = re.compile("|".join(form if form[0] > "z" else rf"\b{form}\b" for form in _ONE_WORD))
# Values that exclude each other.
OPPOSITES: Final = tuple(frozenset(row.split()) for row in ("dark light", "tab space", "concise detailed"))
# An exclusive wish wants one of each group; a later one replaces it.
RIVALS: Final = tuple(
    frozenset(row.split())
    for row in (
        "chinese english japanese french german spanish korean",
        "npm pnpm yarn bun",
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april may june july august september october november december",
    )
)
_NUMBER: Final = re.compile(
    r"\d+(?:[.,:]\d+)*|(?<![零一二三四五六七八九十百千万亿两])[零一二三四五六七八九十百千万亿两]+(?=[万千百块元天周月年点号日秒毫分小次行个层人条倍份底]"
    r"|$)|周[一二三四五六日末]|星期[一二三四五六日天]"
)
_NO: Final = re.compile(
    r"^(?:no|nope|wrong|actually|that's (?:wrong|not right|incorrect)|不对|不是的|错了)[\s,，。.!！:：]+"
)


# Invisible characters, and typographic apostrophes.
_UNSEEN: Final = {
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff")),
    **dict.fromkeys(map(ord, "‘’ʼ"), "'"),
}
# A statement takes one side of each: before or after, more or fewer, mornings or evenings.
_SIDES: Final = (
    ("order:before", r"\bbefore\b|之前|(?<=[交线布并试码改])前(?!端)"),
    ("order:after", r"\bafter\b|之后|(?<=[交线布并试码改])后(?!端)"),
    ("amount:more", r"\bmore\b(?! than)|更多|多一?些|多一?点"),
    ("amount:less", r"\b(?:fewer|less)\b(?! than)|更少|少一?些|少一?点"),
    ("day:morning", r"\bmornings?\b|早上|早晨|上午"),
    ("day:afternoon", r"\bafternoons?\b|下午"),
    ("day:evening", r"\bevenings?\b|晚上|傍晚"),
    ("day:night", r"\bnights?\b|夜里|深夜|半夜"),
)
_ANY_SIDE: Final = re.compile("|".join(f"({form})" for _, form in _SIDES))
# These words put the text before them in an order with the text after them.
_BETWEEN: Final = re.compile(
    r"\b(?:first|then|before|after|must|shall)\b|然后|(?<!不)再(?!也|次)|之前|之后|必须|(?<=[交线布并试])[前后](?!端)"
)
_MOST_TURNS: Final = 8
_ATTRIBUTES: Final = (
    r"(?:full )?name|time ?zone|native language|first language|mother tongue|e-?mail(?: address)?|job(?: title)?|role"
    r"|title|birthday|company|employer|laptop|os|operating system|shell|locale|editor|ide|location|city|hometown|major"
    r"|profession|username|handle|pronouns|age|favou?rite [a-z]+(?: [a-z]+)?"
)
# Attributes with a single value, such as a name or a home. A new value replaces the old.
_SLOTS: Final = re.compile(
    rf"\bmy (?P<attribute>{_ATTRIBUTES})(?:'s| is| are) (?:now |currently )?(?P<attributed>[^,;!\n]+)"
    r"|\bi (?:now |currently )?(?P<work>work) as (?:an? |the )?"
    r"(?P<worked>[^,;!\n]+?)(?= (?:in|at|for|on|with)\b|[.,;!\n]|$)"
    r"|\bi(?:'m| am)? (?:now |currently )?(?P<home>live|living|based) in (?!an? |my |the )(?P<lived>[^,;!\n]+)"
    r"|\bcall me (?P<called>[^,;!\n]+)"
    r"|我的(?P<attribute_zh>名字|时区|母语|邮箱|生日|公司|职业|专业|职位|职务|操作系统|电脑|编辑器|城市|家乡|岗位)"
    r"(?:现在|就)*(?:是|叫|在)(?P<attributed_zh>[^，,。；;！!\n]+)"
    r"|(?<!叫)我(?:的名字)?叫(?!我)(?P<named_zh>[^，,。；;！!\n]+)|叫我(?P<called_zh>[^，,。；;！!\n]+)"
    r"|我(?:现在|目前)*(?:住在|搬到了?)(?P<lived_zh>[^，,。；;！!\n]+)"
)
_SLOT_NAMES: Final = {
    "worked": "work",
    "lived": "home",
    "lived_zh": "home",
    "called": "called",
    "called_zh": "called",
    "named_zh": "名字",
}
_NOT_VALUE: Final = re.compile(r"(?:\b(?:now|currently|any ?more|these days|not|no longer)\b|现在|了|吧|[\s.。])+")


@dataclass(frozen=True, slots=True)
class Statement:
    """The words that a text wants and does not want, and its figures.

    `sides` are its sides of opposites (before, more, morning); `order` holds the words around a word of order.
    `values` are single-valued attributes, such as a name.
    """

    wanted: frozenset[str]
    unwanted: frozenset[str]
    figures: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()
    order: tuple[frozenset[str], frozenset[str]] | None = None
    values: frozenset[tuple[str, str]] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """All its words."""
        return self.wanted | self.unwanted

    @property
    def parts(self) -> frozenset[str]:
        """Everything that a longer version of the statement says, too."""
        return self.words | self.figures | self.sides


Reader: TypeAlias = Callable[[str], Statement]
"""Parses a text as `parse_statement` does; it may cache."""


def parse_statement(text: str, fold: Fold = str) -> Statement:
    """Parse the first 4,096 characters of a text, line by line.

    Words after «rather than», «not» or 而不是 are unwanted. `fold` maps variants of a character to one.
    """
    lines = [_parse_line(line, fold) for line in text[:_READ_CHARS].splitlines() if line.strip()]
    if len(lines) == 1:
        return lines[0]
    wanted = frozenset[str]().union(*(item.wanted for item in lines))
    return Statement(
        wanted,
        frozenset[str]().union(*(item.unwanted for item in lines)) - wanted,
        frozenset[str]().union(*(item.figures for item in lines)),
        frozenset[str]().union(*(item.sides for item in lines)),
        next((item.order for item in lines if item.order is not None), None),
        frozenset[tuple[str, str]]().union(*(item.values for item in lines)),
    )


def list_keys(item: Statement) -> frozenset[str]:
    """Return keys: two statements that agree or conflict share at least one."""
    groups = (f"{number}:" for number, group in enumerate((*OPPOSITES, *RIVALS)) if item.wanted & group)
    return frozenset((*item.words, *groups, *(f"{slot}:" for slot, _ in item.values)))


def _parse_line(text: str, fold: Fold) -> Statement:
    said = normalize("NFKC", _SAID.sub("", text)).translate(_UNSEEN).casefold().strip()
    said = _NO.sub("", fold(said))
    values = find_values(said)
    figures = frozenset(_NUMBER.findall(said))
    said = _NUMBER.sub(" ", said)
    order = split_order(said, _words)
    sides, said = split_sides(said)
    wanted, unwanted = _parse_wanted(said)
    return Statement(wanted, unwanted, figures, sides, order, values)


def _parse_wanted(said: str) -> tuple[frozenset[str], frozenset[str]]:
    compared = _THAN_ZH.search(said) or _NOT_BUT_ZH.search(said)
    if compared is not None:
        return _words(compared[2]), _words(compared[1])
    parts = _BUT_NOT.split(said, maxsplit=1)
    head, tail = parts[0], parts[1] if len(parts) > 1 else ""
    wanted, unwanted = _words(head), _words(tail)
    if not wanted or (_NEGATIVE.search(head) and not tail):
        # A refusal as a whole: «never use tabs», 我不喜欢表情.
        return frozenset(), wanted | unwanted
    if not tail and _BARE_NOT_ZH.search(head):
        clauses = _CLAUSE_ENDS.split(head)
        refused = frozenset[str]().union(*(_words(clause) for clause in clauses if _BARE_NOT_ZH.search(clause)))
        return wanted - refused, refused
    return wanted - unwanted, unwanted


def _words(text: str) -> frozenset[str]:
    """Return the content words of a text: Latin words without a plural s, Chinese as pairs of characters."""
    found: set[str] = set()
    plain = _FORMS.sub(lambda form: _ONE_WORD[form[0]], text)
    for token in _TOKEN.findall(_CARRIERS.sub(" ", plain)):
        if "\u3400" <= token[0] <= "\u9fff":
            found.update(token[at : at + 2] for at in range(len(token) - 1)) if len(token) > 1 else found.add(token)
        elif token not in _STOP:
            found.add(token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token)  # noqa: PLR2004 -- "is", "js" and the like are words
    return frozenset(found)


def split_sides(said: str) -> tuple[frozenset[str], str]:
    """Return the sides that a text in lower case names, and the text without them."""
    found: set[str] = set()

    def add_side(match: re.Match[str]) -> str:
        found.add(_SIDES[(match.lastindex or 1) - 1][0])
        return " "

    rest = _ANY_SIDE.sub(add_side, said)
    return frozenset(found), rest


def split_order(said: str, words: Callable[[str], frozenset[str]]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words before and after a word of order (then, before, must); None if there is no such word.

    The first word of order with words on both sides counts, of at most eight.
    """
    for match in islice(_BETWEEN.finditer(said), _MOST_TURNS):
        front, back = words(said[: match.start()]), words(said[match.end() :])
        if front and back:
            return front, back - front
    return None


def find_values(said: str) -> frozenset[tuple[str, str]]:
    """Return the single-valued attributes in a lower-case text: (name, ana costa), (home, berlin)."""
    found: set[tuple[str, str]] = set()
    for match in _SLOTS.finditer(said):
        named = {name: value for name, value in match.groupdict().items() if value}
        slot = named.pop("attribute", "") or named.pop("attribute_zh", "")
        named.pop("work", None)
        named.pop("home", None)
        name, value = next(iter(named.items()))
        plain = _NOT_VALUE.sub(" ", value).strip()
        if plain:
            found.add((slot or _SLOT_NAMES[name], plain))
    return frozenset(found)


def has_changed_value(new: frozenset[tuple[str, str]], old: frozenset[tuple[str, str]]) -> bool:
    """Return whether two texts give different values to one attribute. A longer form of a value is the same value."""
    earlier = dict(old)
    return any(slot in earlier and not (earlier[slot] in value or value in earlier[slot]) for slot, value in new)


def has_changed_side(new: frozenset[str], old: frozenset[str], *, of_order: bool) -> bool:
    """Return whether two texts take different sides, either of order or of anything else."""
    for kind in {item.partition(":")[0] for item in new} & {item.partition(":")[0] for item in old}:
        if (kind == "order") is of_order:
            ours, theirs = ({item for item in found if item.startswith(f"{kind}:")} for found in (new, old))
            if ours.isdisjoint(theirs):
                return True
    return False
