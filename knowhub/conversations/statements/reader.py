"""What users state of themselves and ask for, and what their tools taught, found without a model.

Few forms are read, and they are nearly always right; see `forms`. Commits and knowledge extraction use them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import rjieba

from knowhub.conversations.language import dates, plan_days
from knowhub.conversations.language.first_person import speak_as_user
from knowhub.conversations.language.sentence_ends import find_clauses
from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import Fold, Sentence, is_chinese, split_sentences
from knowhub.conversations.statements import clauses, forms, lessons, neighbours
from knowhub.conversations.statements.model import Statement, StatementKind, Values

_FORMS: Final = {
    StatementKind.REQUEST: forms.REQUEST,
    StatementKind.INSTRUCTION: forms.INSTRUCTION,
    StatementKind.PREFERENCE: forms.PREFERENCE,
}
_ASKED: Final = (StatementKind.REQUEST, StatementKind.INSTRUCTION)


def read_statements(messages: Sequence[Message], fold: Fold = str) -> list[Statement]:
    """Return what the users state in these messages, and the lessons of their tools, in their order."""
    spoken = [
        (number, message, split_sentences(message.strip_label(message.content), fold))
        for number, message in enumerate(messages)
        if message.is_user
    ]
    labels = Counter(
        label
        for _, message, said in spoken
        for label in {message.name or item.speaker for item in said} or {message.name}
    )
    found = [
        _attribute(replace(statement, speaker=said[at].speaker), message.name, labels)
        for number, message, said in spoken
        for at in range(len(said))
        for statement in _read_sentence(number, said, at, dates.read_day(message.timestamp))
    ]
    taught = [
        Statement(StatementKind.LESSON, text, numbers, task=task)
        for task, text, numbers in lessons.find_lessons(messages, fold)
    ]
    unique = {(statement.kind, statement.speaker, statement.text): statement for statement in (*found, *taught)}
    return sorted(unique.values(), key=lambda statement: statement.numbers[-1])


def read_values(text: str, fold: Fold = str) -> tuple[Values, Values]:
    """Return the single-valued facts of a text, by or about «the user», and those that it says are not so any more."""
    spoken = speak_as_user(text)
    found = [
        fact
        for said in split_sentences(spoken, fold)
        for fact in _find_facts(said.text, said.folded, is_plain=spoken != text)  # As models write values.
        if _is_own(said.folded, fact.start, fact.value_start)
    ]
    return _split_values(found)


def _attribute(statement: Statement, name: str, labels: Counter[str]) -> Statement:
    """Say whose statement it is, where several people speak. A label that comes once, beside no other, is a topic."""
    label = name or statement.speaker
    if not name and label and labels[label] == 1 and labels.keys() <= {"", label}:
        return replace(statement, speaker="", text=f"{label}{'：' if is_chinese(label) else ': '}{statement.text}")
    return replace(statement, speaker=label if len(labels) > 1 else "")


def _read_sentence(number: int, sentences: Sequence[Sentence], at: int, said: date | None) -> Iterator[Statement]:
    text, folded = clauses.cut_question(sentences[at])
    is_story = any(forms.STORY.search(item.folded) for item in sentences[: at + 1])
    if not folded or is_story or forms.NOT_MEANT.search(folded):
        return
    is_meant = not (forms.ONCE.search(folded) or forms.TASK.search(folded))
    facts = [fact for fact in _find_facts(text, folded) if is_meant and _is_own(folded, fact.start, fact.value_start)]
    # Without invisible characters the positions are others; then nothing is cut.
    pieces = [(0, max(len(text), len(folded)))]
    if facts and len(text) == len(folded):
        pieces = clauses.split_clauses(folded, [fact.value_start for fact in facts])
    elif said and len(text) == len(folded) and _find_kind(folded, *pieces[0]) is None:
        pieces = plan_days.split_plans(folded, said)
    for span in pieces:
        own = [fact for fact in facts if span[0] <= fact.value_start < span[1]]
        piece = Statement(StatementKind.PLAN, text[slice(*span)], (number,))
        found = _read_piece(piece, folded, span, own, said)
        if (
            found is None
            and facts
            and not (forms.REPORTED.search(folded[slice(*span)]) or forms.PAST.search(folded[slice(*span)]))
        ):
            found = replace(piece, kind=StatementKind.INTRODUCTION)
        if found is not None and len(pieces) == 1 and not own and found.kind in (*_ASKED, StatementKind.PLAN):
            found = replace(found, text=_complete(found, folded, sentences, at))
        if found is not None and found.text:
            yield found


def _read_piece(
    piece: Statement, folded: str, span: tuple[int, int], own: Sequence["_Fact"], said: date | None
) -> Statement | None:
    words, kind, (values, ended) = folded[slice(*span)], _find_kind(folded, *span), _split_values(own)
    due = plan_days.find_due(piece.text, said) if said else None
    if kind in _ASKED:
        return replace(piece, kind=kind, values=values, ended=ended, day=due)
    if own and all(fact.slot in {"called", "reply language"} for fact in own):
        kind = StatementKind.INSTRUCTION
    if kind or own:
        return replace(piece, kind=kind or StatementKind.INTRODUCTION, values=values, ended=ended)
    over, is_change = forms.CANCELLED.search(words), forms.CHANGE.search(words) is not None
    is_over = over is not None and _is_own(folded, span[0] + over.start())
    is_plan = is_over or ((due or is_change) and not over)
    plan = replace(piece, day=due, is_change=is_change, is_over=is_over)
    return plan if is_plan and not forms.TASK.search(folded) else None


def _complete(statement: Statement, folded: str, sentences: Sequence[Sentence], at: int) -> str:
    # A fact of its own ends by itself.
    near = sentences[max(at - neighbours.MAX_BEFORE, 0) : at]
    before = [item.text for item in near if not _find_facts(item.text, item.folded)]
    following = sentences[1].text if at == 0 and len(sentences) > 1 else ""
    may_be_short = statement.kind is StatementKind.PLAN
    return neighbours.complete(statement.text, folded, before, following, may_be_short=may_be_short)


def _find_kind(folded: str, start: int, end: int) -> StatementKind | None:
    for kind, form in _FORMS.items():
        match = form.search(folded[start:end])
        is_lasting = kind is StatementKind.REQUEST or forms.ONCE.search(folded) is None
        if match is not None and is_lasting and _is_own(folded, start + match.start()):
            return kind
    return None


def _is_own(folded: str, start: int, end: int = 0) -> bool:
    """Return whether what begins at `start` is the speaker's own, and of today: neither reported nor of the past."""
    before = folded[: start + 1]
    past = forms.PAST.search(before)
    is_over = past is not None and forms.PRESENT.search(folded, past.end(), max(start, end)) is None
    return not is_over and forms.REPORTED.search(before) is None


@dataclass(frozen=True, slots=True)
class _Fact:
    """A single-valued fact, and where its form and value begin. An empty value is unsure, and replaces nothing."""

    slot: str
    value: str
    start: int
    value_start: int
    is_ended: bool


# A common noun that ends so is no town and no firm: 宿舍, 医院.
_COMMON_PLACES: Final = "院校学厂所局家店馆司位舍地行府部组室楼房屋边里面桌网上下"
_TRAILING: Final = re.compile(r"(?:\s{0,4}(?:now|currently|these days|any ?more|any longer|at all|[了吧啦呢])){1,4}$")


def _find_facts(text: str, folded: str, *, is_plain: bool = False) -> list[_Fact]:
    facts: dict[str, _Fact] = {}
    for slot, match in ((slot, match) for slot, form in forms.SLOTS for match in form.finditer(folded)):
        groups = match.groupdict()
        group = next(name for name in groups if groups[name] and name not in {"no", "slot", "moved"})
        value = _TRAILING.sub("", groups[group].strip(" .。▪")).strip()
        # Invisible characters shift the positions.
        start = match.start(group) if len(text) == len(folded) else max(text.lower().find(value), 0)
        is_sure = _is_value(group, value, text, start) if value else None
        if is_sure is not None:
            name = slot or forms.NAMED_SLOTS.get(match["slot"]) or match["slot"].replace("favour", "favor")
            value = value if is_plain or (is_sure and _is_lasting(match, group)) else ""
            facts.setdefault(name, _Fact(name, value, match.start(), match.start(group), bool(groups.get("no"))))
    return sorted(facts.values(), key=lambda fact: fact.start)


def _is_value(group: str, value: str, text: str, start: int) -> bool | None:
    """Return whether a value is written as its form wants it; None if it cannot be one: an idiom must end no value."""
    if group == "value" or (group == "mixed" and any(char.isdigit() or char in "@/" for char in value)):
        return True
    if not is_chinese(value):
        return text[start].isupper() or (group != "capital" if text[0].islower() else None)
    tags = [tag for _, tag in rjieba.tag(value)]
    # Verbs and function words make no name, and many a town is tagged as a common noun.
    if any(tag[0] in "vr" if len(tags) == 1 else tag == "v" or tag[0] in "drfpucymt" for tag in tags):
        return None
    if group == "town":  # A team or a department that somebody moved to is none.
        is_place = "ns" in tags if len(tags) > 1 else tags[0] not in {"nt", "s", "f", "t", "m"}
        return is_place and value[-1] not in _COMMON_PLACES
    is_town = group in {"place", "firm"} and tags == ["n"] and value[-1] not in _COMMON_PLACES
    is_word = len(tags) == 1 and tags[0] in {"n", "s", "f", "t"} and group != "called"
    return is_town or not (is_word or (group == "firm" and tags == ["ns"]))


def _is_lasting(match: re.Match[str], group: str) -> bool:
    """Return whether a fact holds for long, as far as its clause says, and «moved to» is about a home."""
    folded, end = match.string, match.end(group)
    tail = folded[end : end + find_clauses(folded[end:])[0][1]]
    if match.groupdict().get("moved"):
        is_home = forms.DWELLING.search(f"{folded[: match.start(group)]} {folded[end:]}") is not None
        return is_home and forms.PAST.search(tail) is None
    return not (forms.PAST.search(tail) or forms.FOR_A_WHILE.search(tail))


def _split_values(facts: Sequence[_Fact]) -> tuple[Values, Values]:
    known = [fact for fact in facts if fact.value]
    held, ended = ([(fact.slot, fact.value) for fact in known if fact.is_ended is over] for over in (False, True))
    return tuple(held), tuple(ended)
