"""The flaws of clauses as evidence: what is supposed, denied, asked or said of somebody else asserts nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from knowhub.conversations.language.doubt_words import (
    FICTION,
    FICTION_ZH,
    IF_ZH,
    JEST_ZH,
    MAYBE,
    MAYBE_ZH,
    PAST_ZH,
    SUPPOSE,
    UNREAL_ZH,
)
from knowhub.conversations.language.sentence_ends import find_clauses, iter_sentences
from knowhub.conversations.messages import Message
from knowhub.conversations.statements.forms import CANCELLED
from knowhub.conversations.statements.orders import is_ordered_by_tool

# Words for people other than the user.
_PEOPLE: Final = (
    r"mother|mum|mom|mummy|father|dad|daddy|parents?|brothers?|sisters?|siblings?|sons?|daughters?|kids?|child|children"
    r"|baby|wife|husband|partner|spouse|girlfriend|boyfriend|fianc[eé]e?|ex|cousins?|uncle|aunt|auntie|nephew|niece"
    r"|grand\w{1,12}|granny|gran|nan|nana|stepmother|stepfather|stepson|stepdaughter|friends?|mate|buddy|roommates?"
    r"|flatmates?|neighbou?rs?|colleagues?|co-?workers?|boss|manager|supervisor|teacher|landlord|landlady|cats?|dogs?"
)
_PEOPLE_ZH: Final = (
    r"[爸妈爹娘哥弟姐妹]{1,2}|父亲|母亲|爸爸|妈妈|儿子|女儿|孩子|老公|老婆|丈夫|妻子|先生|太太|男友|女友|男朋友|女朋友|对象"
    r"|爷爷|奶奶|外公|外婆|姥姥|姥爷|[叔伯舅姑姨婶]{1,2}[父母妈]?|[表堂][哥弟姐妹]|同事|同学|朋友|闺蜜|室友|邻居|老板|领导"
    r"|师[兄弟姐妹]|老师|搭档|[猫狗]"
)
_LEAD: Final = r"(?:(?:and|but|so|also|because|oh|well|btw|while|though|since|yes|no|hi|hey),? ){0,2}"
_OTHER_SUBJECT: Final = re.compile(
    rf"^\W{{0,3}}{_LEAD}(?:(?:my|our|his|her|their|a) (?:[\w-]{{1,20}} ){{0,2}}?(?:{_PEOPLE})\b(?! and (?:i|me)\b)"
    r"|(?:he|she)(?:'\w{1,2})?\b)"
    rf"|^(?:而且|但是?|不过|因为|所以|对了|另外|其实|还有|那个?)?(?:(?:我们?|俺|咱)?的?(?:{_PEOPLE_ZH})(?![和跟])|[他她](?!俩|们))",
)
_FIRST_PERSON: Final = re.compile(r"\b(?:i|me|myself|mine|we|us|our|i'\w{1,2}|we'\w{1,2}|im|ive)\b|[我咱俺]")
_PERSON: Final = re.compile(rf"\b(?:{_PEOPLE})\b|(?:{_PEOPLE_ZH})|[他她]")

# A supposition is no statement. A condition for the agent, «if you write mails», belongs to an instruction.
_IF: Final = re.compile(
    rf"(?:(?<!even )(?<!as )\bif\b|(?<!n't )(?<!cannot )\b(?:{SUPPOSE})\b|^\W{{0,3}}(?:just )?say\b)"
    r"(?! (?:you|your|i'm not mistaken|i (?:remember|recall|am not mistaken)|possible|needed|necessary|any|not|so)\b)"
    r"(?P<mine> (?:that )?(?:i|we|i'\w{1,2}|we'\w{1,2})\b)?"
    r"|\b(?:i|we) wish(?:ed)?\b(?! (?:to|for|you)\b)|\bif only\b|^\W{0,3}had (?:i|we)\b|\bhypothetically\b|\bwhat if\b"
    rf"|(?:{IF_ZH}|比方说|想象|但愿|希望)(?!你|您|没记错|可以|方便|需要|不行|没问题)(?P<mine_zh>[^，。]{{0,4}}[我咱])?"
)
# Words of doubt: what follows them is no statement («my parrot might be ill»).
_HEDGE: Final = re.compile(
    rf"\b(?:{MAYBE})\b(?! (?:you|it's|that's|because|this|that)\b)|\b(?:i|we|he|she|it|they) may\b"
    r"|\b(?:thinking (?:of|about)|considering) \w{1,20}ing\b"
    r"|\b(?:un|not )(?:sure|certain|decided) (?:if|whether|about)\b"
    r"|\bpossible that\b|\bcould (?:see|imagine|picture) (?:my|our)sel(?:f|ves)\b"
    rf"|{MAYBE_ZH}|可能(?![性的])|考虑(?!到)|犹豫|没决定"
    # What almost happened, what was said in jest, and what happens in a work did not happen: «in my novel …».
    r"|\b(?:nearly|almost) (?:took|bought|got|moved|joined|adopted|called|named|accepted|became|chose|went|signed)\b"
    r"|\bas a joke\b|\b(?:joked|pretended|lied)\b|\bin (?:my|the|this|a|his|her) (?:\w{1,12} )?"
    rf"(?:{FICTION})\b|差一?点儿?就|开玩笑|(?:{FICTION_ZH})里"
)
_UNREAL: Final = re.compile(
    rf"\b(?:were|wasn't|wasnt|weren't|had|ever|wish|{SUPPOSE})\b|\bif only\b|hypothetically|what if"
)
_WOULD: Final = re.compile(r"(?:\b(?:would|could|might)|\b\w{1,4}'d|\bid)\b(?! (?:like|love|prefer|rather)\b)")
_UNREAL_ZH: Final = re.compile(rf"{UNREAL_ZH}|{JEST_ZH}|就好了|早就|早做|哪天|但愿|想象")
# A question to the agent states nothing: «should I become a vegetarian?». A request may: «can you book my table?».
_QUESTION: Final = re.compile(
    r"^\W{0,3}(?:(?:and|but|so|also|ok|okay|then|well|oh) )?(?:should|shall|do|does|did|is|are|was|were|am|will|would"
    r"|could|can|may|might|what|which|who|where|when|why|how)\b(?! (?:you|u)\b)"
    r"|^.*(?:[要该能是会]不[要该能是会]|有没有|为什么|怎么|什么时候|[吗呢呀][\s!！~]*$)"
)
NEGATIVE: Final = re.compile(
    r"\b(?:no|non\w{0,12}|not|never|nor|neither|without|cannot|nobody|none|nothing|avoid\w{0,3}|stop\w{0,4}|quit\w{0,4}"
    r"|g[ia]ve[ns]? up|dislik\w{0,3}|hat(?:e|es|ed)|refus\w{0,3}|declin\w{0,3}|reject\w{0,3}|allerg\w{0,3}"
    r"|intoleran\w{0,3}|except\w{0,3}|instead|rather|only|lack\w{0,3}|free|former\w{0,2}|previous\w{0,2}|end(?:s|ed)"
    r"|cancel\w{0,4}|against|unable|unlike\w{0,2}|fail\w{0,3}|broken?|used to|over|done with|hardly|dont|cant|wont"
    r"|doesnt|didnt|isnt|arent|wasnt)\b|n['’]t\b|[不没无别未非勿戒停禁忌免拒除只仅才]|讨厌|反[感对]|过敏|取消|以前|曾"
)
# Words of refusal: «I turned down Bosch» is no job at Bosch.
_REJECTS: Final = re.compile(
    r"\b(?:hate|dislike|detest|loathe|can't stand|cannot stand|can't bear|(?:gave|given|giving) up|quit|turned down"
    r"|declined?|rejected|refused?|no way|(?:decid|vot|advis|argu|recommend|rul|opt|sp[eo]a?k)\w{0,3} against)\b"
    r"|讨厌|反[感对]|受不了|拒绝|否决|戒[了掉]?|辞[了掉]"
)
# What is over is no evidence for a statement in the present.
_OVER: Final = re.compile(
    r"\b(?:i|we|he|she|they|who) used to\b|\bsold (?:the|my|our|it|his|her|that)\b"
    r"|\bg[ia]ve[ns]? (?:(?!old\b)\w{1,20} ){1,3}?away\b"
    rf"|(?:^|我)(?:{PAST_ZH})|曾经|转[让手卖]|卖[掉了]|送人了"
)
_PAST_TENSE: Final = re.compile(r"\b(?:had|was|were|did|until|before|\w{2,20}[^e\W]ed)\b|[了过曾]")
ENDED: Final = re.compile(
    r"\b(?:left|leav\w{0,3}|resign\w{0,3}|no longer|any ?more|ex|sold|died|dead|passed away|gone|stolen|lost|expired"
    r"|finished|over|ended|wrong|mistaken?|untrue|quit|stopped|cancel\w{0,4}|called off|(?:broke|split|gave|given) up"
    r"|divorced|retired|gave away|moved|switched|changed|replaced|used to)\b"
    r"|离[开职婚]|[辞卖死丢退换改搬戒停错]|去世|取消|结束|[过到]期|分手|不再|再也|[不没][^，,。]{0,6}了",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause in lower case. `flaw` is why it is no evidence, or empty; `doubted` is what follows «maybe»."""

    text: str
    flaw: str
    doubted: str = ""


def flag_clauses(plain: str, message: Message, statement: str, category: str = "") -> Iterator[Clause]:
    """Yield the clauses of a text of a message, each with its flaw as evidence for a statement."""
    is_affirmed = not (NEGATIVE.search(statement.lower()) or ENDED.search(statement))
    is_present = is_affirmed and not _PAST_TENSE.search(statement)
    rejects = (_REJECTS,) * is_affirmed + (_OVER, CANCELLED) * is_present
    for sentence, is_question in iter_sentences(plain.lower().replace("’", "'")):
        if message.is_tool and is_ordered_by_tool(sentence, category):
            yield Clause(sentence, "ordered_by_tool")
        else:
            yield from _flag_sentence(sentence, statement, is_asked=message.is_user and is_question, rejects=rejects)


def _flag_sentence(
    sentence: str, statement: str, *, is_asked: bool, rejects: tuple[re.Pattern[str], ...]
) -> Iterator[Clause]:
    is_condition = _IF.search(sentence) is not None
    is_joke = is_condition and _UNREAL_ZH.search(sentence) is not None
    is_of_others = False
    for start, end in find_clauses(sentence):
        text = sentence[start:end]
        # «… and works at Airbus» goes on about the same subject.
        is_joined = start > 0 and sentence[:start].rstrip().endswith(" and")
        is_of_others = _is_of_others(text, statement) or (is_joined and is_of_others and not _FIRST_PERSON.search(text))
        is_supposed = is_joke or _is_supposed(text) or (is_condition and _WOULD.search(text) is not None)
        if text.strip():
            is_question = is_asked and end == len(sentence) and _QUESTION.match(text) is not None
            flaws = {
                "supposed": is_supposed,
                "contradicted": any(form.search(text) for form in rejects),
                "of_somebody_else": is_of_others,
                "only_asked": is_question,
            }
            doubted = "".join(_HEDGE.split(text, 1)[1:])
            yield Clause(text, next((flaw for flaw, has_it in flaws.items() if has_it), ""), doubted)


def _is_supposed(clause: str) -> bool:
    condition = _IF.search(clause)
    if condition is None:
        return False
    return bool(condition["mine"] or condition["mine_zh"]) or _UNREAL.search(clause) is not None


def _is_of_others(clause: str, statement: str) -> bool:
    """Return whether the subject of a clause is somebody whom the statement does not name."""
    subject = _OTHER_SUBJECT.match(clause)
    if subject is None or _FIRST_PERSON.search(clause, subject.end()):
        return False
    who = _PERSON.search(subject[0])
    return not (who[0] in statement.lower() if who else _PERSON.search(statement.lower()))
