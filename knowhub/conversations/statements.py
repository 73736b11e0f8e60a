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

from knowhub.conversations import clauses, dates, lessons, slot_values, statement_forms, tenses
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

_COMPLETED: Final = (StatementKind.REQUEST, StatementKind.INSTRUCTION)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it was said, and the numbers of its messages, the decisive one last.

    `values` are its single-valued facts: ("home", "berlin"); `ended` are those that are said not to be so any more.
    `day` is the day of a plan, which takes the place of an earlier one if it `is_change`. `task` is the problem of a
    lesson. A plan or instruction that `is_over` is only ended. `speaker` is named where several people speak as users.
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
    is_over: bool = False


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
    """Return the single-valued facts of a text, by or about «the user», and those that it says are not so any more."""
    spoken = speak_as_user(text)
    found = [
        # A model writes values plainly: what follows is one.
        fact if spoken == text else replace(fact, is_sure=True)
        for said in split_sentences(spoken, fold)
        for fact in _find_facts(said.text, said.bare)
        if _is_own(said.bare, fact.start)
    ]
    return _split_values(found)


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
                due = day and tenses.find_due(text, day)
                yield Statement(StatementKind.REQUEST, text, (number,), day=due, speaker=sentence.speaker)
                return
        else:
            for statement in _read_sentence(number, said, at, day):
                yield replace(statement, speaker=sentence.speaker)


def _read_sentence(number: int, sentences: Sequence[Sentence], at: int, said: date | None) -> Iterator[Statement]:
    text, bare = clauses.without_question(sentences[at])
    if not bare or statement_forms.NOT_MEANT.search(bare):
        return
    is_meant = not (statement_forms.ONCE.search(bare) or statement_forms.TASK.search(bare))
    facts = [fact for fact in _find_facts(text, bare) if is_meant and _is_own(bare, fact.start)]
    # Without invisible characters the positions are others; then nothing is cut.
    places = [fact.value_start for fact in facts if len(text) == len(bare)]
    pieces = clauses.split_clauses(bare, places, _says_something) if places else [(0, len(bare))]
    for start, end in pieces:
        own = [fact for fact in facts if len(pieces) == 1 or start <= fact.value_start < end]
        part, words = (text, bare) if len(pieces) == 1 else (text[start:end], bare[start:end])
        kind, due = _find_kind(bare, start, end), said and tenses.find_due(part, said)
        if len(pieces) == 1 and (kind in _COMPLETED or (kind is None and due and statement_forms.PRONOUN.search(bare))):
            part = _complete(text, bare, sentences, at)
        is_change = (statement_forms.WITHDRAWN if kind else statement_forms.CHANGE).search(words) is not None
        if kind in _COMPLETED:
            yield Statement(kind, part, (number,), *_split_values(own), due, is_change=is_change)
        elif own:
            yield Statement(StatementKind.INTRODUCTION, part, (number,), *_split_values(own))
        elif kind is not None:
            yield Statement(kind, part, (number,))
        elif due and not statement_forms.TASK.search(bare):
            is_over = statement_forms.CANCELLED.search(words) is not None
            yield Statement(StatementKind.PLAN, part, (number,), day=due, is_change=is_change, is_over=is_over)
        elif facts and not statement_forms.REPORTED.search(words):
            yield Statement(StatementKind.INTRODUCTION, part, (number,))
        elif statement_forms.WITHDRAWN.search(words) and is_meant and _is_own(bare, 0):
            yield Statement(StatementKind.INSTRUCTION, part, (number,), is_over=True)


def _complete(text: str, bare: str, sentences: Sequence[Sentence], at: int) -> str:
    """Return a statement with its neighbours where it says nothing alone: «Always like that.», «it's on 3 June»."""
    is_short = len(text) <= _LEAST_COMPLETE_CHARS[text.isascii()]
    if at and (is_short or statement_forms.PRONOUN.search(bare)):
        # A fact of its own ends by itself.
        before = [item.text for item in sentences[max(at - 8, 0) : at] if not _find_facts(item.text, item.bare)]
        return " ".join((*before, text))[-MAX_SENTENCE_CHARS:]
    if is_short and statement_forms.REPLY.search(bare):
        return " ".join((text, *(item.text for item in sentences[1:2])))
    return text


def _find_kind(bare: str, start: int, end: int) -> StatementKind | None:
    for kind, form in _FORMS.items():
        match = form.search(bare[start:end])
        is_passing = kind is not StatementKind.REQUEST and statement_forms.ONCE.search(bare) is not None
        if match is not None and not is_passing and _is_own(bare, start + match.start()):
            return kind
    return None


def _is_own(bare: str, start: int) -> bool:
    """Return whether what begins at `start` is the speaker's own, and of today: neither reported nor of the past."""
    before = bare[: start + 1]
    if statement_forms.REPORTED.search(before) or statement_forms.PAST.search(before):
        return False
    # What a colon announces is somebody else's, but for a request and a short label: «Remember: …», «Note: …».
    label = statement_forms.LABEL.match(before)
    return label is None or statement_forms.ADDRESSED.search(label[0]) is not None


@dataclass(frozen=True, slots=True)
class _Fact:
    """A single-valued fact; if it is not `is_sure`, its value may be something else and replaces none."""

    slot: str
    value: str
    start: int
    value_start: int
    is_ended: bool
    is_sure: bool


_TRAILING: Final = re.compile(r"(?:\s{0,4}(?:now|currently|these days|any ?more|any longer|at all|[了吧啦呢])){1,4}$")


def _find_facts(text: str, bare: str) -> list[_Fact]:
    found = [(slot, match) for slot, form in statement_forms.SLOTS for match in form.finditer(bare)]
    named = ((str(match["slot"] or match["slot_zh"]), match) for match in statement_forms.NAMED.finditer(bare))
    found += [(statement_forms.SAME_SLOT.get(slot, slot), match) for slot, match in named]
    facts: dict[str, _Fact] = {}
    for slot, match in found:
        groups = match.groupdict()
        name = next(name for name in ("value", "years", "tongue", "value_zh") if groups.get(name))
        value = _TRAILING.sub("", groups[name].strip(" .。▪")).strip()
        # Invisible characters shift the positions.
        start = match.start(name) if len(text) == len(bare) else max(text.lower().find(value), 0)
        is_ended, is_sure = bool(groups.get("no")), slot_values.is_value(slot, value, text, start)
        if is_sure is not None:
            facts.setdefault(slot, _Fact(slot, value, match.start(), match.start(name), is_ended, bool(is_sure)))
    return sorted(facts.values(), key=lambda fact: fact.start)


def _split_values(facts: Sequence[_Fact]) -> tuple[Values, Values]:
    known = [fact for fact in facts if fact.is_sure or fact.is_ended]
    held, ended = ([(fact.slot, fact.value) for fact in known if fact.is_ended is over] for over in (False, True))
    return tuple(held), tuple(ended)


def _says_something(clause: str) -> bool:
    """Return whether a clause says something alone, with «I» before it if need be."""
    told = (clause, f"我{clause}" if is_chinese(clause) else f"i {clause}")
    # «From now on» says how long, and nothing else.
    forms = _FORMS.values() if statement_forms.STANDING.sub("", clause).strip() else ()
    return clauses.has_verb(clause) or any(form.search(words) for form in forms for words in told)
