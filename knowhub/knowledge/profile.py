"""How a profile grows: when two statements say the same, when they contradict each other, what then is written.

Statements are compared by their words, with no model (KS-051, KS-053): what each wants and what it does not want.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from knowhub.core.operation import Row
from knowhub.knowledge import decisions, profile_turns
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Category, Fold
from knowhub.knowledge.model import Feedback

SAME: Final = 0.5
OPPOSITE: Final = 0.5
_OPPOSITE_COVER: Final = 0.6
# Where each says something that the other does not, more of it has to be shared: «a nurse in Porto», «a teacher in
# Porto» are two statements.
_SAME_OF_TWO: Final = 0.65
_MAX_CONTENT_CHARS: Final = 2_000
# A record that is longer is a document, and no statement.
_READ_CHARS: Final = 4_096

_SAID: Final = re.compile(r"^(?:用户说：|The user said: )", re.MULTILINE)
# A record that was said again as it was shown.
_SAID_TWICE: Final = re.compile(r"^(用户说：|The user said: )(?:\s*(?:content:\s*)?(?:用户说：|The user said: ))+")
# X over Y, X 而不是 Y: what comes behind is not wanted.
_BUT_NOT: Final = re.compile(
    r"而不是|而非|而不要|不要用|，?不用|，?不要|，?别用|\brather than\b|\bover\b|\binstead of\b|\bthan\b|\bnot\b"
    r"|\bnever\b|\bno\b",
    re.IGNORECASE,
)
# A bare 不 refuses what its clause says, but for words that it is a part of.
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
# What only carries a statement, and is in none of them the matter.
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
# One word for each of what is said most of how to work, so that Chinese and English evidence meets.
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
# Nobody wants both of these.
_OPPOSITES: Final = tuple(frozenset(row.split()) for row in ("dark light", "tab space", "concise detailed"))
# Of each of these a wish that is exclusive wants one: who now wants another no longer wants the first.
_RIVALS: Final = tuple(
    frozenset(row.split())
    for row in (
        "chinese english japanese french german spanish korean",
        "npm pnpm yarn bun",
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april may june july august september october november december",
    )
)
# What says that from now on one thing holds in the place of another; and in what is answered there is one language.
_EXCLUSIVE: Final = re.compile(
    r"以后|今后|从现在|从今|改|换成|不再|其实|一律|统一|回答|回复|答复"
    r"|\b(?:from now on|now|going forward|instead|no longer|any ?more|switch(?:ed)?|moved?|changed?|actually|only"
    r"|answers?|answering|repl(?:y|ies)|respon[ds]\w*)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\d+(?:[.,:]\d+)*|[零一二三四五六七八九十百千万亿两]+(?=[万千百块元天周月年点号日秒毫分小次行个层人条倍份底]"
    r"|$)|周[一二三四五六日末]|星期[一二三四五六日天]"
)
_NO: Final = re.compile(
    r"^(?:no|nope|wrong|actually|that's (?:wrong|not right|incorrect)|不对|不是的|错了)[\s,，。.!！:：]+"
)


# Width, no-break and joiners that nobody sees; and the apostrophes that editors set.
_UNSEEN: Final = {
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff")),
    **dict.fromkeys(map(ord, "‘’ʼ"), "'"),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text wants and what it does not want, as sets of words, and the figures that it names.

    `sides` are what it says of opposites (before, more, morning), `halves` its words in front of and behind what puts
    them in order, `values` what it names of which there is but one.
    """

    wanted: frozenset[str]
    unwanted: frozenset[str]
    figures: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()
    halves: tuple[frozenset[str], frozenset[str]] | None = None
    values: frozenset[tuple[str, str]] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """All its words."""
        return self.wanted | self.unwanted

    @property
    def parts(self) -> frozenset[str]:
        """Everything that a fuller statement says too."""
        return self.words | self.figures | self.sides


Reader: TypeAlias = Callable[[str], Statement]
"""Reads a text as `statement` does; who reads many keeps what was read."""


def statement(text: str, fold: Fold = str) -> Statement:
    """Read a text as wishes, line by line: its words, and on which side of «rather than», «not», 而不是 they stand.

    Of a longer text the first 4,096 characters are read. `fold` brings variants of characters to one.
    """
    lines = [_of_line(line, fold) for line in text[:_READ_CHARS].splitlines() if line.strip()]
    if len(lines) == 1:
        return lines[0]
    wanted = frozenset[str]().union(*(one.wanted for one in lines))
    return Statement(
        wanted,
        frozenset[str]().union(*(one.unwanted for one in lines)) - wanted,
        frozenset[str]().union(*(one.figures for one in lines)),
        frozenset[str]().union(*(one.sides for one in lines)),
        next((one.halves for one in lines if one.halves is not None), None),
        frozenset[tuple[str, str]]().union(*(one.values for one in lines)),
    )


def keys(one: Statement) -> frozenset[str]:
    """Return what a statement is found by: two that say the same, or contradict each other, share one of these."""
    groups = (f"{number}:" for number, group in enumerate((*_OPPOSITES, *_RIVALS)) if one.wanted & group)
    return frozenset((*one.words, *groups, *(f"{slot}:" for slot, _ in one.values)))


def likeness(one: Statement, other: Statement) -> float:
    """Return from 0 to 1 how far two statements say the same; 0 where one wants what the other refuses."""
    if is_against(one, other) or one.wanted & other.unwanted or one.unwanted & other.wanted:
        return 0.0
    if one.wanted and other.wanted:
        return _agreement(one.wanted, other.wanted)
    if one.unwanted and other.unwanted and not (one.wanted or other.wanted):
        return _agreement(one.unwanted, other.unwanted)
    return 0.0


def is_exclusive(category: Category, said: str) -> bool:
    """Tell whether what was said leaves room for one language, tool, day or figure only.

    Who speaks English may speak Chinese too, and who meets on Mondays also on Fridays; a limit is one, a correction
    means the other away, and a wish may say that things have changed.
    """
    if category in (Category.CORRECTION, Category.CONSTRAINT):
        return True
    return category is Category.PREFERENCE and _EXCLUSIVE.search(said) is not None


def is_against(new: Statement, old: Statement, *, is_exclusive: bool = True) -> bool:
    """Tell whether a statement contradicts an earlier one: it refuses what that wants, or the other way round.

    Where it is not exclusive, another thing of the same kind is no contradiction.
    """
    # Who wants one thing rather than another need not refuse the other: only a bare refusal is taken back by a wish.
    taken_back = not old.wanted and _meet(new.wanted, old.unwanted)
    turned = profile_turns.differ_in_value(new.values, old.values) or _is_turned(new, old)
    return turned or taken_back or _meet(new.unwanted, old.wanted) or _are_rivals(new, old, is_exclusive)


def can_meet(new: Category, stored: str) -> bool:
    """Tell whether a candidate may be evidence for or against a stored record, by their categories."""
    if new is Category.CORRECTION or stored == Category.CORRECTION:
        return stored in (*PROFILE_CATEGORIES, Category.CORRECTION)
    if new in PROFILE_CATEGORIES:
        # How somebody works is said as a wish, a habit or a rule, now so and now so; who they are is another matter.
        return stored in PROFILE_CATEGORIES and (new is Category.BACKGROUND) == (stored == Category.BACKGROUND)
    return stored == new


def supported(row: Row, said: str, case: Mapping[str, Any], now: float, read: Reader = statement) -> Row:
    """Return a record with one more piece of evidence, and completed where what was said adds to it (渐进式)."""
    after = decisions.with_feedback(row, Feedback(helpful_case=case), now)
    content = completed(row["content"], said, read)
    return after if content == row["content"] else {**after, "content": content}


def contradicted(row: Row, case: Mapping[str, Any], now: float) -> Row:
    """Return a record with the evidence that it no longer holds: its confidence falls."""
    return decisions.with_feedback(row, Feedback(harmful_case=case), now)


def completed(stored: str, said: str, read: Reader = statement) -> str:
    """Return what is stored with what was said, where that says more; the fuller one where one holds the other."""
    said = _SAID_TWICE.sub(r"\1", said)
    known, new = read(stored).parts, read(said).parts
    if new <= known or len(stored) > _MAX_CONTENT_CHARS:
        return stored
    if known <= new:
        return said
    together = f"{stored}\n{said}"
    return together if len(together) <= _MAX_CONTENT_CHARS else stored


def cites(row: Row, message_id: str) -> bool:
    """Tell whether a record has its evidence from this message already, so that it is not counted twice."""
    if row["source"]["message_id"] == message_id or message_id in _listed(row["tags"].get("message_ids", ())):
        return True
    evaluation = row["eval"]
    cases = (*evaluation["helpful_history"], *evaluation["harmful_history"])
    return any(case.get("message_id") == message_id for case in cases)


def _of_line(text: str, fold: Fold) -> Statement:
    said = unicodedata.normalize("NFKC", _SAID.sub("", text)).translate(_UNSEEN).casefold().strip()
    said = _NO.sub("", fold(said))
    values = profile_turns.values(said)
    figures = frozenset(_NUMBER.findall(said))
    said = _NUMBER.sub(" ", said)
    halves = profile_turns.halves(said, _words)
    sides, said = profile_turns.sides(said)
    wanted, unwanted = _wishes(said)
    return Statement(wanted, unwanted, figures, sides, halves, values)


def _wishes(said: str) -> tuple[frozenset[str], frozenset[str]]:
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
        refused = frozenset[str]().union(*(_words(one) for one in clauses if _BARE_NOT_ZH.search(one)))
        return wanted - refused, refused
    return wanted - unwanted, unwanted


def _listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text that are its matter: Latin ones without a plural s, Chinese as pairs of characters."""
    found: set[str] = set()
    plain = _FORMS.sub(lambda form: _ONE_WORD[form[0]], text)
    for token in _TOKEN.findall(_CARRIERS.sub(" ", plain)):
        if "\u3400" <= token[0] <= "\u9fff":
            found.update(token[at : at + 2] for at in range(len(token) - 1)) if len(token) > 1 else found.add(token)
        elif token not in _STOP:
            found.add(token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token)  # noqa: PLR2004 -- "is", "js" and the like are words
    return frozenset(found)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    either = len(one | other)
    return len(one & other) / either if either else 0.0


def _agreement(one: frozenset[str], other: frozenset[str]) -> float:
    share = _jaccard(one, other)
    return share if share >= _SAME_OF_TWO or one <= other or other <= one else 0.0


def _is_turned(new: Statement, old: Statement) -> bool:
    """Tell whether two statements say the same of the same, but for its side or the other way round."""
    if not (new.sides or new.halves) or _jaccard(new.words, old.words) < SAME:
        return False
    if profile_turns.differ_in_side(new.sides, old.sides, of_order=False):
        return True
    swapped = False
    if new.halves is not None and old.halves is not None:
        (front, back), (earlier, later) = new.halves, old.halves
        swapped = not (front.isdisjoint(later) or back.isdisjoint(earlier))
    # Tests before the commit are the commit after the tests.
    return swapped != profile_turns.differ_in_side(new.sides, old.sides, of_order=True)


def _meet(refused: frozenset[str], wanted: frozenset[str]) -> bool:
    """Tell whether what one refuses is what the other wants, and not only a word of it."""
    shared = len(refused & wanted)
    return (
        bool(shared)
        and shared >= _OPPOSITE_COVER * min(len(refused), len(wanted))
        and _jaccard(refused, wanted) >= OPPOSITE
    )


def _are_rivals(new: Statement, old: Statement, is_exclusive: bool) -> bool:  # noqa: FBT001 -- of one caller
    """Tell whether two statements are one wish but for a word or a figure of which there can be but one."""
    for group in (*_OPPOSITES, *_RIVALS) if is_exclusive else _OPPOSITES:
        ours, theirs = new.wanted & group, old.wanted & group
        if len(ours) == len(theirs) == 1 and ours != theirs:
            rest, others = new.wanted - group, old.wanted - group
            return _jaccard(rest, others) >= SAME or not (rest or others)
    differ = is_exclusive and bool(new.figures and old.figures) and new.figures.isdisjoint(old.figures)
    return differ and _jaccard(new.words, old.words) >= SAME
