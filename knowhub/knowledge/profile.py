"""How a profile grows: when two statements say the same, when they contradict each other, what then is written.

Statements are compared by their words, with no model (KS-051, KS-053): what each wants and what it does not want.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from knowhub.core.operation import Row
from knowhub.knowledge import decisions
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Category
from knowhub.knowledge.model import Feedback

SAME: Final = 0.5
OPPOSITE: Final = 0.5
_OPPOSITE_COVER: Final = 0.6
_MAX_CONTENT_CHARS: Final = 2_000

_SAID: Final = re.compile(r"^(?:用户说：|The user said: )", re.MULTILINE)
# A record that was said again as it was shown.
_SAID_TWICE: Final = re.compile(r"^(用户说：|The user said: )(?:\s*(?:content:\s*)?(?:用户说：|The user said: ))+")
# X over Y, X 而不是 Y: what comes behind is not wanted.
_BUT_NOT: Final = re.compile(
    r"而不是|而非|而不要|不要用|，?不用|，?不要|，?别用|\brather than\b|\bover\b|\binstead of\b|\bthan\b|\bnot\b"
    r"|\bnever\b|\bno\b",
    re.IGNORECASE,
)
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
_STOP: Final = frozenset(
    [
        "the",
        "a",
        "an",
        "i",
        "m",
        "we",
        "you",
        "my",
        "our",
        "your",
        "me",
        "us",
        "to",
        "in",
        "on",
        "at",
        "of",
        "for",
        "with",
        "and",
        "or",
        "is",
        "are",
        "am",
        "be",
        "was",
        "were",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "when",
        "do",
        "does",
        "don",
        "doesn",
        "t",
        "s",
        "ll",
        "d",
        "ve",
        "re",
        "user",
        "said",
        "please",
        "always",
        "never",
        "ever",
        "not",
        "no",
        "from",
        "now",
        "going",
        "forward",
        "future",
        "prefer",
        "prefers",
        "like",
        "likes",
        "love",
        "hate",
        "dislike",
        "use",
        "using",
        "used",
        "uses",
        "want",
        "rather",
        "really",
        "just",
        "also",
        "must",
        "should",
        "would",
        "could",
        "can",
        "cannot",
        "every",
        "time",
        "all",
        "any",
        "than",
        "over",
        "instead",
        "so",
        "very",
        "much",
        "more",
        "most",
        "as",
        "by",
        "into",
        "if",
        "stop",
        "avoid",
        "longer",
        "i'm",
        "i'd",
        "don't",
        "doesn't",
        "can't",
        "actually",
        "wrong",
    ]
)
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


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text wants and what it does not want, as sets of words, and the figures that it names."""

    wanted: frozenset[str]
    unwanted: frozenset[str]
    figures: frozenset[str] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """All its words."""
        return self.wanted | self.unwanted


def statement(text: str) -> Statement:
    """Read a text as wishes, line by line: its words, and on which side of «rather than», «not», 而不是 they stand."""
    lines = [_of_line(line) for line in text.splitlines() if line.strip()]
    wanted = frozenset[str]().union(*(one.wanted for one in lines))
    unwanted = frozenset[str]().union(*(one.unwanted for one in lines))
    return Statement(wanted, unwanted - wanted, frozenset[str]().union(*(one.figures for one in lines)))


def likeness(one: Statement, other: Statement) -> float:
    """Return from 0 to 1 how far two statements say the same; 0 where one wants what the other refuses."""
    if is_against(one, other):
        return 0.0
    if one.wanted and other.wanted:
        return _jaccard(one.wanted, other.wanted)
    if one.unwanted and other.unwanted and not (one.wanted or other.wanted):
        return _jaccard(one.unwanted, other.unwanted)
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
    return taken_back or _meet(new.unwanted, old.wanted) or _are_rivals(new, old, is_exclusive)


def can_meet(new: Category, stored: str) -> bool:
    """Tell whether a candidate may be evidence for or against a stored record, by their categories."""
    if new is Category.CORRECTION or stored == Category.CORRECTION:
        return stored in {*PROFILE_CATEGORIES, Category.CORRECTION}
    if new in PROFILE_CATEGORIES:
        # How somebody works is said as a wish, a habit or a rule, now so and now so; who they are is another matter.
        return stored in PROFILE_CATEGORIES and (new is Category.BACKGROUND) == (stored == Category.BACKGROUND)
    return stored == new


def supported(row: Row, said: str, case: Mapping[str, Any], now: float) -> Row:
    """Return a record with one more piece of evidence, and completed where what was said adds to it (渐进式)."""
    after = decisions.with_feedback(row, Feedback(helpful_case=case), now)
    content = completed(row["content"], said)
    return after if content == row["content"] else {**after, "content": content}


def contradicted(row: Row, case: Mapping[str, Any], now: float) -> Row:
    """Return a record with the evidence that it no longer holds: its confidence falls."""
    return decisions.with_feedback(row, Feedback(harmful_case=case), now)


def completed(stored: str, said: str) -> str:
    """Return what is stored with what was said, where that says more; the fuller one where one holds the other."""
    said = _SAID_TWICE.sub(r"\1", said)
    stored_as, said_as = statement(stored), statement(said)
    known, new = stored_as.words | stored_as.figures, said_as.words | said_as.figures
    if new <= known:
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


def _of_line(text: str) -> Statement:
    said = unicodedata.normalize("NFKC", _SAID.sub("", text)).casefold().replace("’", "'").strip()
    said = _NO.sub("", said)
    figures = frozenset(_NUMBER.findall(said))
    said = _NUMBER.sub(" ", said)
    compared = _THAN_ZH.search(said) or _NOT_BUT_ZH.search(said)
    if compared is not None:
        return Statement(_words(compared[2]), _words(compared[1]), figures)
    parts = _BUT_NOT.split(said, maxsplit=1)
    head, tail = parts[0], parts[1] if len(parts) > 1 else ""
    wanted, unwanted = _words(head), _words(tail)
    if not wanted or (_NEGATIVE.search(head) and not tail):
        # A refusal as a whole: «never use tabs», 我不喜欢表情.
        return Statement(frozenset(), wanted | unwanted, figures)
    return Statement(wanted - unwanted, unwanted, figures)


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
