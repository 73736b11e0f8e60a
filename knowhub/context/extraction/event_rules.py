"""What took place, told by who was there, with its date."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction import procedure_rules, wording
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.extraction.wording import SpokenTime
from knowhub.context.extraction_model import SpokenStatement
from knowhub.context.model import MemoryCategory
from knowhub.conversations.recalled import normalize_words

_WHO: Final = (
    r"(?:i|we|my (?:\w+ ){0,2}?(?:sister|brother|mom|mum|mother|dad|father|wife|husband|partner|girlfriend|boyfriend"
    r"|fianc[eé]e?|son"
    r"|daughter|kids?|children|family|friends?|boss|manager|team|company|cat|dog|cousin|aunt|uncle|grandma|grandpa"
    r"|parents|colleagues?"
    r"|flight|car|mentor|teacher|neighbou?r)(?: \w+)?|our (?:\w+ )?(?:team|company|project|release|server|site|app"
    r"|product|family|kids?)"
    r"|(?:\w+ )?and i)"
)
_IRREGULAR: Final = (
    r"went|got|had|took|made|met|saw|came|left|began|bought|brought|built|broke|caught|chose|drove|ate|fell|felt"
    r"|found|flew|gave|grew"
    r"|heard|held|hit|hurt|kept|knew|led|lent|lost|paid|ran|read|rode|said yes|sold|sent|set|shot|slept|spent|spoke"
    r"|stood|swam|taught"
    r"|told|threw|understood|woke|won|wrote|quit|put|cut|did|gave birth|became|drew|sang|signed|was (?:promoted"
    r"|hired|fired|accepted"
    r"|born|diagnosed|admitted|awarded|in|at|invited)|were (?:in|at|married)|just \w+ed"
)
_ADVERBS: Final = (
    r"(?:just|finally|also|recently|actually|already|really|both|all|even|then|only|first|last week|yesterday|today"
    r"|officially)"
)
_PAST: Final = re.compile(
    rf"(?:^|[,;:—-] ?|\b(?:and|but|so|because|that|when|hey|well|oh|btw|by the way|guess what)\b,? ?){_WHO},? "
    rf"(?:{_ADVERBS} ){{0,2}}"
    rf"(?:(?:{_IRREGULAR})\b|\w+ed\b)"
    rf"|^(?:yesterday|last \w+|this morning|today|on [^,]{{3,20}}|in [^,]{{3,20}}|\w+ (?:days?|weeks?|months?"
    rf"|years?) ago),? {_WHO} (?:{_ADVERBS} )?(?:(?:{_IRREGULAR})\b|\w+ed\b)"
)
# A habit of earlier times, a state, and what did not take place.
_NOT_EVENT: Final = re.compile(
    r"\b(?:used to|supposed to|wanted to|hoped to|planned to|needed to|tried to call|would have|could have|almost"
    r"|nearly)\b"
    r"|\b(?:i|we) (?:\w+ )?(?:thought|wanted|needed|liked|loved|wished|hoped|wondered|guessed|assumed|noticed|forgot"
    r"|asked|mentioned|said)\b"
    r"|\b(?:since|for) (?:19|20)\d\d|\bevery\b|\busually\b"
    r"|每天|每周|经常|总是|通常|打算|想要|准备|计划|将要|要去|会去|没有?(?:去|来|做|买|参加)|差点|本来|以为|一直"
)
_PAST_ZH: Final = re.compile(
    r"(?:^|[，,。；;：:\s]|我|我们|咱们)"
    r"[^，,。？?]{0,14}?(?:了|过(?!敏|程|期|度|滤)|去(?:了|的)|到了|完成|上线|搬到|搬家|入职|离职|毕业|结婚|出生"
    r"|参加|发布|开始|出差|住院|手术|见到|买了|拿到|通过|收到|获得)"
)
_OWN_ZH: Final = re.compile(
    r"我|咱|^(?:昨|前天|大前天|今天|今早|上个?(?:周|月|星期)|上上|去年|前年|\d{1,2}月|\d{4}年"
    r"|[\d一二两三四五六七八九十]{1,2}(?:天|周|个月|年|个星期)(?:以|之)?前)"
)
_OTHERS_ZH: Final = re.compile(r"^(?:你|他|她|它|他们|她们)")


def find_events(telling: CandidateFactory, statements: Iterable[SpokenStatement]) -> list[CandidateMemory]:
    """Return what the users tell that took place at a time that they name."""
    candidates = []
    for statement in statements:
        # Few sentences tell of an event, and fewer yet are worth looking through for every form of a time.
        if not is_event(statement):
            continue
        time = wording.find_time(statement.bare, wording.day_of(telling.messages[statement.number].timestamp))
        if time is not None:
            candidates.append(_candidate(telling, statement, time))
    return candidates


def is_event(statement: SpokenStatement) -> bool:
    """Return whether a statement, where it names a time, tells what took place then."""
    if not statement.is_meant or _NOT_EVENT.search(statement.bare) or procedure_rules.is_procedure(statement):
        return False
    if statement.bare.isascii() or _PAST.search(statement.bare):
        return _PAST.search(statement.bare) is not None
    return (
        _OWN_ZH.search(statement.bare) is not None
        and _OTHERS_ZH.match(statement.bare) is None
        and _PAST_ZH.search(statement.bare) is not None
    )


def _candidate(telling: CandidateFactory, statement: SpokenStatement, time: SpokenTime) -> CandidateMemory:
    said_at = wording.moment_of(telling.messages[statement.number].timestamp)
    key = telling.key(statement.number, normalize_words(statement.bare))
    candidate = telling.candidate(
        MemoryCategory.EVENTS,
        key,
        statement.text,
        (statement.number,),
        when=time.words,
        date=time.iso,
        grain=time.grain,
        told_at=said_at,
    )
    # An event is of the day that it names, not of that on which it was told.
    facts = {**candidate.facts, "said_at": f"{time.iso}T00:00:00Z" if time.iso else said_at}
    content = candidate.content if time.iso is None else f"{candidate.content}\n({time.words}: {time.iso})"
    return replace(candidate, facts=facts, content=content)
