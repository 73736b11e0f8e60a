"""What users state of themselves and ask for, and what their tools taught, found without a model.

Few forms are read, and they are nearly always right; see `statement_forms`. Session commits, knowledge extraction and
the profile all use these statements.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Final, TypeAlias

from knowhub.conversations import dates, lessons, statement_forms
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import MAX_SENTENCE_CHARS, Fold, Sentence, is_chinese, split_sentences
from knowhub.conversations.third_person import speak_as_user

Values: TypeAlias = tuple[tuple[str, str], ...]
"""Single-valued facts, each a slot and its value."""
_LEAST_COMPLETE_CHARS: Final = {True: 34, False: 8}


class StatementKind(StrEnum):
    """What a statement is: an explicit request to remember, a self-introduction, and so on."""

    REQUEST = "request"
    INTRODUCTION = "introduction"
    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    PLAN = "plan"
    LESSON = "lesson"


_FORMS: Final = {
    StatementKind.REQUEST: statement_forms.REQUEST,
    StatementKind.INSTRUCTION: statement_forms.INSTRUCTION,
    StatementKind.PREFERENCE: statement_forms.PREFERENCE,
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it was said, and the numbers of its messages, the decisive one last.

    `values` are its single-valued facts: ("home", "berlin"); `ended` are those that are said not to be so any more.
    `day` is the day of a plan, which takes the place of an earlier one if it `is_change`. `task` is the problem of a
    lesson. `speaker` is named where several people speak as users.
    """

    kind: StatementKind
    text: str
    numbers: tuple[int, ...]
    values: Values = ()
    ended: Values = ()
    day: date | None = None
    task: str = ""
    speaker: str = ""
    is_change: bool = False


def read_statements(messages: Sequence[Message], fold: Fold = str) -> list[Statement]:
    """Return what the users state in these messages, and the lessons of their tools, in their order."""
    spoken = [
        (number, message, split_sentences(strip_label(message), fold))
        for number, message in enumerate(messages)
        if message.is_user
    ]
    labels = Counter(
        label
        for _, message, said in spoken
        for label in {message.name or item.speaker for item in said} or {message.name}
    )
    found = [
        _attribute(statement, message.name, labels)
        for number, message, said in spoken
        for statement in _read_message(number, message, said)
    ]
    taught = [
        Statement(StatementKind.LESSON, lesson.text, lesson.numbers, task=lesson.task)
        for lesson in lessons.find_lessons(messages, fold)
    ]
    unique = {(statement.kind, statement.speaker, statement.text): statement for statement in (*found, *taught)}
    return sorted(unique.values(), key=lambda statement: statement.numbers[-1])


def read_values(text: str, fold: Fold = str) -> tuple[Values, Values]:
    """Return the single-valued facts of a text, by or about «the user», and those that are not so any more."""
    return _split_values([fact for s in split_sentences(speak_as_user(text), fold) for fact in _find_facts(s.bare)])


def strip_label(message: Message) -> str:
    """Return the text of a message without the name of its speaker before it."""
    for end in (": ", "：", ":"):
        if message.name and message.content.startswith(message.name + end):
            return message.content[len(message.name + end) :].lstrip()
    return message.content


def _attribute(statement: Statement, name: str, labels: Counter[str]) -> Statement:
    """Say whose statement it is, where several people speak. A label that comes once, beside no other, is a topic."""
    label = name or statement.speaker
    named = [other for other in labels if other]
    if not name and label and named == [label] and labels[label] == 1:
        return replace(statement, speaker="", text=f"{label}{'：' if is_chinese(label) else ': '}{statement.text}")
    return replace(statement, speaker=label if len(labels) > 1 else "")


def _read_message(number: int, message: Message, said: Sequence[Sentence]) -> Iterator[Statement]:
    day = dates.day_of(message.timestamp)
    for at, sentence in enumerate(said):
        if statement_forms.POINTING.search(sentence.bare):
            # «Remember this.» points at what follows, else at what was said before it.
            meant = said[at + 1 :] or said[:at]
            if meant:
                text = " ".join(item.text for item in meant)
                due = day and dates.find_coming_day(text, day)
                yield Statement(StatementKind.REQUEST, text, (number,), day=due, speaker=sentence.speaker)
                return
        else:
            for statement in _read_sentence(number, said, at, day):
                yield replace(statement, speaker=sentence.speaker)


def _read_sentence(number: int, sentences: Sequence[Sentence], at: int, said: date | None) -> Iterator[Statement]:
    text, bare = _without_question(sentences[at])
    if not bare or statement_forms.NOT_MEANT.search(bare):
        return
    is_meant = not (statement_forms.ONCE.search(bare) or statement_forms.TASK.search(bare))
    facts = [fact for fact in _find_facts(bare) if is_meant and _is_own(bare, fact.start)]
    kind = _find_kind(bare)
    if kind in (StatementKind.REQUEST, StatementKind.INSTRUCTION):
        whole, due = _complete(text, bare, sentences, at), said and dates.find_coming_day(text, said)
        yield Statement(kind, whole, (number,), *_split_values(facts), due)
    elif facts:
        # Without invisible characters the positions are others; then nothing is cut.
        pieces = _split_facts(text, facts) if len(text) == len(bare) else [(text, facts)]
        for piece, own in pieces:
            yield Statement(StatementKind.INTRODUCTION, piece, (number,), *_split_values(own))
    elif kind is not None:
        yield Statement(kind, text, (number,))
    elif said is not None and not statement_forms.TASK.search(bare) and (day := dates.find_coming_day(text, said)):
        is_change = statement_forms.CHANGE.search(bare) is not None
        if statement_forms.PRONOUN.search(bare):
            text = _complete(text, bare, sentences, at)
        yield Statement(StatementKind.PLAN, text, (number,), day=day, is_change=is_change)


def _complete(text: str, bare: str, sentences: Sequence[Sentence], at: int) -> str:
    """Return a statement with its neighbours where it says nothing alone: «Always like that.», «it's on 3 June»."""
    is_short = len(text) <= _LEAST_COMPLETE_CHARS[text.isascii()]
    if at and (is_short or statement_forms.PRONOUN.search(bare)):
        return " ".join((*(item.text for item in sentences[:at]), text))[-MAX_SENTENCE_CHARS:]
    if is_short and statement_forms.REPLY.search(bare):
        return " ".join((text, *(item.text for item in sentences[1:2])))
    return text


def _find_kind(bare: str) -> StatementKind | None:
    for kind, form in _FORMS.items():
        match = form.search(bare)
        is_passing = kind is not StatementKind.REQUEST and statement_forms.ONCE.search(bare) is not None
        if match is not None and not is_passing and _is_own(bare, match.start()):
            return kind
    return None


def _is_own(bare: str, start: int) -> bool:
    """Return whether what begins at `start` is the speaker's own, and of today: neither reported nor of the past."""
    before = bare[: start + 1]
    return not (statement_forms.REPORTED.search(before) or statement_forms.PAST.search(before))


# Where a question may follow a statement: «I prefer tabs, can you fix this?»
_ASKS: Final = re.compile(
    r"[,;，；]\s*(?:and |so |but )?(?:(?:can|could|would|will|should) (?:you|i|we)\b"
    r"|i(?:'m| am| was) wondering\b|i (?:want|need|would like) to know\b).*$"
    r"|[,;，；]\s*(?:and |so |but )?(?:can|could|would|will|what|how|where|which|is|are|do|does|any|should)\b[^,;]*$"
    r"|[，；](?:能|可以|有|怎么|什么|哪|要不要|帮)[^，；]*$"
)

_DOUBTS: Final = re.compile(r"[,;，；]\s*(?:(?:and|but|但|不过) ?)?(?:(?:i'm |i am )?not sure|maybe|也许|可能|不确定)")


def _without_question(sentence: Sentence) -> tuple[str, str]:
    """Return a sentence without the question at its end, or the doubt behind a preference; else two empty texts."""
    text, bare = sentence.text, sentence.bare
    doubt = _DOUBTS.search(bare) if len(text) == len(bare) else None
    if doubt is not None and statement_forms.PREFERENCE.search(bare, 0, doubt.start()):
        text, bare = text[: doubt.start()], bare[: doubt.start()]
    if not statement_forms.QUESTION.search(bare) or statement_forms.POLITE.search(bare):
        return text, bare
    asks = _ASKS.search(bare) if len(text) == len(bare) else None
    return ("", "") if asks is None else (text[: asks.start()], bare[: asks.start()])


@dataclass(frozen=True, slots=True)
class _Fact:
    slot: str
    value: str
    start: int
    is_ended: bool


_TRAILING: Final = re.compile(
    r"(?:\s{0,4}(?:now|currently|these days|anymore|any more|any longer|at all|了|吧|啦|呢)){1,4}$"
)


def _find_facts(bare: str) -> list[_Fact]:
    found = [(slot, match) for slot, form in statement_forms.SLOTS for match in form.finditer(bare)]
    named = ((str(match["slot"] or match["slot_zh"]), match) for match in statement_forms.NAMED.finditer(bare))
    found += [(statement_forms.SAME_SLOT.get(slot, slot), match) for slot, match in named]
    facts: dict[str, _Fact] = {}
    for slot, match in found:
        groups = match.groupdict()
        said = next((groups[name] for name in ("value", "years", "tongue", "value_zh") if groups.get(name)), "")
        value = _TRAILING.sub("", said.strip(" .。▪")).strip()
        if value:
            facts.setdefault(slot, _Fact(slot, value, match.start(), bool(groups.get("no"))))
    return sorted(facts.values(), key=lambda fact: fact.start)


def _split_values(facts: Sequence[_Fact]) -> tuple[Values, Values]:
    held, ended = ([(fact.slot, fact.value) for fact in facts if fact.is_ended is over] for over in (False, True))
    return tuple(held), tuple(ended)


_BETWEEN: Final = re.compile(r"\s?(?:[,;]\s?)?\band |[，；,;]\s?")


def _split_facts(text: str, facts: Sequence[_Fact]) -> Iterator[tuple[str, list[_Fact]]]:
    """Yield a sentence in as many pieces as it has single-valued facts: each is replaced by itself later.

    It is cut between clauses. Facts of one clause stay together, with what is said behind them.
    """
    cuts: list[tuple[int, int, list[_Fact]]] = [(0, 0, [facts[0]])]
    for fact in facts[1:]:
        clause = [
            match for match in _BETWEEN.finditer(text, cuts[-1][2][-1].start + 1) if match.start() <= fact.start + 1
        ]
        if clause:
            cuts.append((clause[-1].start(), clause[-1].end(), [fact]))
        else:
            cuts[-1][2].append(fact)
    ends = [*(end for end, _, _ in cuts[1:]), len(text)]
    for (_, start, own), end in zip(cuts, ends, strict=True):
        yield text[start:end].strip(), own
