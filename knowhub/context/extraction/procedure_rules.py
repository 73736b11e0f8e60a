"""How things are done, by rules: what failed and what then worked, and what is always done when."""

import re
from collections.abc import Iterable
from typing import Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.extraction.summaries import content_words
from knowhub.context.extraction.wording import is_chinese, one_line, shorten
from knowhub.context.extraction_model import Episode, SpokenStatement
from knowhub.context.model import MemoryCategory
from knowhub.conversations.recalled import normalize_words

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
# A condition says what to do then, and states no fact.
_NOT_PROCEDURE: Final = re.compile(
    r"[?？]\s*$|\bmaybe\b|\bmight\b|\bperhaps\b|\bfor example\b|可能|也许|吗[。？?]?$|怎么|\b(?:she|he|they) (?:said"
    r"|says|told)\b"
)
_LEAST_SHARED_WORDS: Final = 2
_MAX_LABEL: Final = 20
_PROBLEM: Final = {True: "问题：", False: "Problem: "}
_MAX_TITLE: Final = 60


def find_procedures(
    telling: CandidateFactory, statements: Iterable[SpokenStatement], episodes: Iterable[Episode]
) -> list[CandidateMemory]:
    """Return cases, patterns, and the procedures that were told."""
    patterns = [_pattern(telling, statement) for statement in statements if is_procedure(statement)]
    return [*patterns, *(_of_episode(telling, episode) for episode in episodes if _is_complete(episode))]


def is_procedure(statement: SpokenStatement) -> bool:
    """Return whether a statement says what is to be done whenever something is so."""
    return _PROCEDURE.search(statement.bare) is not None and _NOT_PROCEDURE.search(statement.bare) is None


def _pattern(telling: CandidateFactory, statement: SpokenStatement) -> CandidateMemory:
    match = _CONDITION.search(statement.bare)
    named = next((part for part in match.groups() if part), "") if match is not None else ""
    key = shorten(named.strip() or statement.bare, _MAX_TITLE)
    return telling.candidate(MemoryCategory.PATTERNS, key, statement.text, (statement.number,))


def _is_complete(episode: Episode) -> bool:
    return bool(episode.task.strip() and episode.content.strip())


def _of_episode(telling: CandidateFactory, episode: Episode) -> CandidateMemory:
    task = one_line(episode.task)
    if episode.kind == "plan":
        return telling.candidate(
            MemoryCategory.PATTERNS, shorten(task, _MAX_TITLE), task, episode.numbers, content=episode.content
        )
    told = _case(task, episode.content)
    if episode.kind == "outcome" and not _is_about(task, episode.content):
        # Without a word of the last question it is no outcome.
        task, told = one_line(episode.content), episode.content
    return telling.candidate(
        MemoryCategory.CASES,
        uri.stable_hash(normalize_words(task)),
        one_line(told),
        episode.numbers,
        content=told,
        kind=episode.kind,
        task=task,
    )


def _is_about(task: str, content: str) -> bool:
    """Return whether an outcome shares a word with the question; its first word does not count."""
    head, _, rest = content.replace("：", ":", 1).partition(":")
    said = rest if rest and len(head) <= _MAX_LABEL else content
    return len(content_words(task) & content_words(said)) >= _LEAST_SHARED_WORDS


def _case(task: str, content: str) -> str:
    """Return a problem with what was done about it; an episode may begin with the problem itself."""
    first, _, rest = content.partition("\n")
    named = first.partition(":")[2] or first.partition("：")[2]
    done = rest if rest and named.strip() and named.strip() in task else content
    return f"{_PROBLEM[is_chinese(content)]}{task}\n{done}"
