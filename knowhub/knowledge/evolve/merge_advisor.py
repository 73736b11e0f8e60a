"""Asks a model which records say the same in other words, and checks its merged text for lost facts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from knowhub.core.language_models import ChatFailed, ChatModel, ModelUnavailable
from knowhub.core.model_calls import ModelConversation, NumberedChoices, list_pointers
from knowhub.core.near_duplicates import normalize_text, words
from knowhub.core.operation import Row
from knowhub.knowledge.evolve import prompts
from knowhub.knowledge.evolve.slim_plan import Merge, MergeReason, RecordRef, join_text

MAX_GROUPS = 100
_MAX_CHARS = 20_000
_FACTS_NAMED = 5


class MergeAdvisor:
    """Asks about one group of records after another. Each question has its own budget; a failure never raises."""

    def __init__(self, chat: ChatModel, budget_s: float) -> None:
        self._chat = chat
        self._budget_s = budget_s
        self.groups = 0
        self.merges: list[Merge] = []
        self.skipped: list[dict[str, Any]] = []
        self.calls: list[Row] = []
        self.has_failed = False
        self.is_done = False

    async def ask(self, group: Sequence[tuple[RecordRef, Row]]) -> None:
        """Ask whether the records of a group can be merged; add the merge, or the reason against it."""
        self.groups += 1
        self.is_done = self.groups >= MAX_GROUPS
        choices = NumberedChoices([ref.id for ref, _ in group])
        question = prompts.merge([(row["task"], row["content"]) for _, row in group])
        conversation = ModelConversation(self._chat, self._budget_s)
        try:
            same, text = await conversation.ask(question, choices.by_idx, lambda answer: read(answer, choices))
        except ChatFailed as failed:
            self.has_failed = True
            # An unavailable model is not asked about the other groups.
            self.is_done |= isinstance(failed, ModelUnavailable)
            self.skipped.append(make_skipped([ref.id for ref, _ in group], f"the language model failed: {failed}"))
        else:
            self._note([(ref, row) for ref, row in group if ref.id in same], text, conversation.calls)
        self.calls += conversation.calls

    def _note(self, chosen: Sequence[tuple[RecordRef, Row]], text: tuple[str, str], calls: Sequence[Row]) -> None:
        if len(chosen) < 2:  # noqa: PLR2004 -- one record alone is not merged
            return
        lost = find_missing_facts([join_text(row) for _, row in chosen], "\n".join(text))
        if lost:
            reason = f"the model's text leaves out {', '.join(lost[:_FACTS_NAMED])}"
            self.skipped.append(make_skipped([ref.id for ref, _ in chosen], reason))
            return
        into, *sources = [ref for ref, _ in chosen]
        self.merges.append(Merge(into, sources, MergeReason.MODEL, None, text, calls))


def make_skipped(ids: Sequence[str], reason: str) -> dict[str, Any]:
    """Return the report on records that are not merged."""
    return {"ids": list(ids), "reason": reason}


def read(answer: Mapping[str, Any], choices: NumberedChoices) -> tuple[tuple[str, ...], tuple[str, str]] | None:
    """Return the records to merge, and their task and content; None for an answer that no record can hold."""
    if not isinstance(answer.get("same"), list):
        return None
    same = choices.pick_all(list_pointers(answer["same"]))
    if len(same) < 2:  # noqa: PLR2004 -- one record alone is not merged
        return (), ("", "")
    task, content = answer.get("task"), answer.get("content")
    if not isinstance(task, str) or not isinstance(content, str) or not content.strip():
        return None
    if len(task) + len(content) > _MAX_CHARS or "\0" in task + content:
        return None
    # Raises for a lone surrogate, which no file can hold.
    (task + content).encode()
    return same, (task, content)


# Numbers with attached characters, addresses, code, and text in double quotation marks.
_FACT = re.compile(
    r"https?://[a-z0-9_.:/%@+~?&=#-]+|(?<![a-z0-9_.:/%@+-])[a-z_.:/%@+-]*\d[a-z0-9_.:/%@+-]*|`[^`\n]{1,200}`"
    r'|"[^"\n]{1,100}"|“[^”\n]{1,100}”|「[^」\n]{1,100}」|『[^』\n]{1,100}』'
)
_EDGES = '.:/-+%@`"“”「」『』'
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u04ff"
_NAME = re.compile(rf"[{_LETTERS}][{_LETTERS}0-9_]+")
# A name is a whole word, or a part of a word that is joined by underscores.
_NAME_RUN = re.compile(rf"[{_LETTERS}0-9_]+")
_NAME_OR_PART = re.compile(rf"[{_LETTERS}0-9]+")
_LOOKED_BACK = 20
_SENTENCE_BEFORE = re.compile(rf"(?:^|[.!?。！？\n])[\s\"“「『(*#>-]{{0,{_LOOKED_BACK}}}$")

_CLAUSE_END = re.compile(r"\n+|[.!?,;:](?=\s|$)|[。！？，；：、]")
_NOT = re.compile(
    r"\b(?:never|not|no|none|nobody|nothing|nor|neither|cannot|without|avoid|forbidden|prohibited|unless)\b|n['’]t\b"
    r"|不|禁止|严禁|切勿|勿|没有|无法|无需|别再|别用"
)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|except)\b|只能|只有|只用|只许|只准|仅|除非|除了")
_LEAST_KEPT = 0.5
_SHORT = 3
_MOST_LOST = 10
# At most this many clauses of the new text are compared. Records with more rather stay separate.
_MOST_CLAUSES = 200


def find_missing_facts(before: Sequence[str], after: str) -> list[str]:
    """Return the first ten facts, names and prohibitions of the texts `before` that are not in the text `after`.

    Facts are figures, addresses, code and quotations. Names are words with a capital letter; at the beginning of a
    sentence, only those with another one. A prohibition or restriction is a clause with a word like *never* or *only*;
    the new text must have such a clause with half of its longer words. In doubt a fact counts as missing: records that
    stay separate lose nothing.
    """
    return list(islice(_find_missing(before, after), _MOST_LOST))


def _find_missing(before: Sequence[str], after: str) -> Iterator[str]:
    new = normalize_text(after)
    facts = (fact.strip(_EDGES) for text in before for fact in _FACT.findall(normalize_text(text)))
    yield from (fact for fact in dict.fromkeys(facts) if fact and fact not in new)
    new_names = {*_NAME_RUN.findall(new), *_NAME_OR_PART.findall(new)}
    names = dict.fromkeys(name for text in before for name in _names(text))
    yield from (name for name in names if normalize_text(name) not in new_names)
    yield from _find_missing_clauses(before, after)


def _names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        name = found[0]
        begins = _SENTENCE_BEFORE.search(text[max(0, found.start() - _LOOKED_BACK) : found.start()])
        if any(map(str.isupper, name[1:] if begins else name)):
            yield name


def _find_missing_clauses(before: Sequence[str], after: str) -> Iterator[str]:
    for pattern in (_NOT, _ONLY):
        new = [_key_words(clause, pattern) for clause in _clauses(after, pattern)[:_MOST_CLAUSES]]
        for clause in dict.fromkeys(clause for text in before for clause in _clauses(text, pattern)):
            own = _key_words(clause, pattern)
            if not any(len(own & other) >= _LEAST_KEPT * len(own) for other in new):
                yield f"“{clause}”"


def _clauses(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the different clauses of a text that match a pattern."""
    clauses = dict.fromkeys(map(normalize_text, _CLAUSE_END.split(text)))
    return [clause for clause in clauses if pattern.search(clause)]


def _key_words(clause: str, pattern: re.Pattern[str]) -> frozenset[str]:
    """Return the words of a clause without the pattern: the longer words, or all if there are only short ones."""
    found = words(pattern.sub(" ", clause))
    return frozenset(word for word in found if len(word) > _SHORT or not word.isascii()) or found
