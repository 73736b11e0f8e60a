"""How things are done, by rules: what failed and what then worked, and what is always done when (CE-073)."""

import re
from collections.abc import Iterable
from typing import Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.summaries import content_words
from knowhub.context.extraction.telling import Telling
from knowhub.context.extraction.wording import is_chinese, one_line, plain, shortened
from knowhub.context.heard import Episode, Statement
from knowhub.context.model import Category

_VERB: Final = (
    r"(?:add|answer|ask|avoid|back up|begin|build|call|change|check|clean|close|commit|confirm|convert|copy|create"
    r"|cut|deploy|do"
    r"|document|drain|enable|ensure|export|fetch|first|format|include|inform|install|keep|lint|list|log|make|merge"
    r"|migrate|notify"
    r"|open|pin|post|pull|push|quote|read|rebase|rebuild|record|reload|remove|rename|reset|restart|restore|retry"
    r"|review|rotate"
    r"|roll|run|save|send|set|show|sort|start|stop|store|sync|tag|tell|test|turn|update|upgrade|use|validate|verify"
    r"|wait|warn|write)"
)
_PROCEDURE: Final = re.compile(
    rf"^(?:please,? |and |so |also,? )?(?:when(?:ever)?|every time|each time|before|after|once|if) [^,?]{{4,120}}, "
    rf"(?:then |please |always |never |first |you should |you must |we |i |we always |i always |do not |don't |just "
    rf"){{0,3}}"
    rf"(?:{_VERB})\b"
    rf"|(?:^|: )(?:please,? |so |and )?(?:always|never) (?:ever )?{_VERB}\b[^?]{{2,120}}\b(?:before|after|when|whenever"
    rf"|until|unless)\b [^?]{{3,}}"
    r"|^(?:请|那|以后|今后|我们|我)?(?:，)?每次[^？?，,]{1,30}(?:之前|以前|之后|以后|时候|时|前"
    r"|后)?[，,]?[^？?]{0,4}(?:都要?(?!报|失败|出错|会|是|很|有|不行|没|崩|超时|卡)|先|必须|一定要|务必|要先"
    r"|记得)[^？?]{2,}"
    r"|^(?:请|那|以后|今后)?(?:当|在)?[^？?，,。]{2,30}(?:的时候|之前|之后|以前|以后)[，,](?:请|你|我们|我)?(?:都|先"
    r"|要先|必须|一定要|务必|记得|总是|永远|不要)[^？?]{2,}"
    r"|^(?:如果|要是|一旦|遇到)[^？?，,。]{2,30}[，,](?:就|请|先|必须|要先|一律|务必)[^？?]{2,}"
)
_CONDITION: Final = re.compile(
    r"^(?:please,? |and |so |also,? )?(?:when(?:ever)?|every time|each time|before|after|once|if) (?P<en>[^,?]{4,120}),"
    r"|\b(?P<en2>(?:before|after|when|whenever|until|unless) [^?.:,]{3,80})"
    r"|(?:每次|当|在|如果|要是|一旦|遇到)?(?P<zh>[^？?，,。]{1,30}?)(?:的时候|之前|之后|以前|以后|时|前|后|[，,]|都"
    r"|先|必须|一定)"
)
# What is supposed says what shall be done then, and nothing of what is.
_NOT_PROCEDURE: Final = re.compile(
    r"[?？]\s*$|\bmaybe\b|\bmight\b|\bperhaps\b|\bfor example\b|可能|也许|吗[。？?]?$|怎么|\b(?:she|he|they) (?:said"
    r"|says|told)\b"
)
_LEAST_SHARED_WORDS: Final = 2
_MAX_LABEL: Final = 20
_PROBLEM: Final = {True: "问题：", False: "Problem: "}
_MAX_TITLE: Final = 60


def found(telling: Telling, statements: Iterable[Statement], episodes: Iterable[Episode]) -> list[CandidateMemory]:
    """Return cases, patterns, and the procedures that were told."""
    patterns = [_pattern(telling, one) for one in statements if is_procedure(one)]
    return [*patterns, *(_of_episode(telling, one) for one in episodes if _says_enough(one))]


def is_procedure(one: Statement) -> bool:
    """Tell whether a statement says what is to be done whenever something is so."""
    return _PROCEDURE.search(one.bare) is not None and _NOT_PROCEDURE.search(one.bare) is None


def _pattern(telling: Telling, one: Statement) -> CandidateMemory:
    match = _CONDITION.search(one.bare)
    named = next((part for part in match.groups() if part), "") if match is not None else ""
    key = shortened(named.strip() or one.bare, _MAX_TITLE)
    return telling.candidate(Category.PATTERNS, key, one.text, (one.number,))


def _says_enough(one: Episode) -> bool:
    return bool(one.task.strip() and one.content.strip())


def _of_episode(telling: Telling, one: Episode) -> CandidateMemory:
    task = one_line(one.task)
    if one.kind == "plan":
        return telling.candidate(Category.PATTERNS, shortened(task, _MAX_TITLE), task, one.numbers, content=one.content)
    told = _case(task, one.content)
    if one.kind == "outcome" and not _is_about(task, one.content):
        # Of what was asked last, and in other words, it is no outcome.
        task, told = one_line(one.content), one.content
    return telling.candidate(
        Category.CASES,
        uri.stable_hash(plain(task)),
        one_line(told),
        one.numbers,
        content=told,
        kind=one.kind,
        task=task,
    )


def _is_about(task: str, content: str) -> bool:
    """Tell whether an outcome speaks of what was asked; the word that heads it does not count."""
    head, _, rest = content.replace("：", ":", 1).partition(":")
    said = rest if rest and len(head) <= _MAX_LABEL else content
    return len(content_words(task) & content_words(said)) >= _LEAST_SHARED_WORDS


def _case(task: str, content: str) -> str:
    """Return a problem with what was done about it; an episode may begin with the problem itself."""
    first, _, rest = content.partition("\n")
    named = first.partition(":")[2] or first.partition("：")[2]
    done = rest if rest and named.strip() and named.strip() in task else content
    return f"{_PROBLEM[is_chinese(content)]}{task}\n{done}"
