"""Which changes of a model are believed: those that the conversation supports.

Paraphrase is free. Numbers, in digits and English words, dates, addresses and Latin names are not: they must stand in
the messages or memories of the prompt, in any spelling. Chinese names have no mark and are not checked. A profile, a
preference and what is forgotten must rest on the user's own words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import starmap
from typing import Final

from knowhub.conversations.changes.evidence import (
    GENERIC,
    OF_THE_USER,
    STOPS,
    WORD,
    find_flaw,
    find_forget_flaw,
    fold_word,
    is_about_user,
    is_earlier_move,
    share_words,
)
from knowhub.conversations.changes.known_days import (
    Days,
    list_calendar_words,
    list_named_days,
    list_possible_days,
    place_days,
)
from knowhub.conversations.changes.prompt import ADD, FORGET, ChangePrompt, MemoryChange, RefusedChange
from knowhub.conversations.language import dates
from knowhub.conversations.language.dates import MONTHS, WEEKDAYS
from knowhub.conversations.language.numbers import CARDINALS, NAMED, Units, blank_known, list_units, read_spoken
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import normalize_words
from knowhub.conversations.secrets.detection import COVER, contains_secret
from knowhub.conversations.statements.forms import PAST
from knowhub.conversations.statements.orders import is_order
from knowhub.conversations.statements.reader import read_values

_NAME_STEM_CHARS: Final = 5
_SEVERAL: Final = 2
_HALF_DAY: Final = 12
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_NO_DIGIT: Final = re.compile(r"\D")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+")
# Longer ones are no figures that somebody says, and Python reads them slowly or not at all.
_MAX_DIGITS: Final = 18
_MIN_PLAIN: Final = 3
_MAX_INITIALS: Final = 5
_JOINING: Final = frozenset({"of", "the", "and"})
_TITLED: Final = re.compile(r"[A-Z][\w'’]{1,30}(?: (?:(?:of|the|and) ){0,2}[A-Z][\w'’]{1,30}){1,4}")
_JOINT: Final = re.compile(r"[-'’]")
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s，。；）)]+|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_AFTERNOON: Final = re.compile(r"p\.?m\b|afternoon|evening|night|noon|下午|晚|傍晚|夜", re.IGNORECASE)
# Behind the first word of a sentence: that word is its subject, so it is a name and no verb.
_SUBJECT: Final = re.compile(
    r"\s{0,9}(?:,|['’]s\b|(?:is|are|was|were|has|had|will|can|wants|works|lives|moved|left|gave|likes|died|and)\b)"
)
_QUESTION: Final = re.compile(r"[?？]|[吗呢吧](?:[。.!！…~]|$)", re.MULTILINE)
_ANSWERS: Final = re.compile(
    r"\W{0,3}(?:(?:yes|yeah|yep|yup|no|nope|right|exactly|correct|indeed|true|sure|ok|okay|of course|absolutely)\b"
    r"|i (?:do|am|did|have|had|was|will|can|would)\W{0,3}$|[是对嗯好行会有没不]|可以|当然)",
    re.IGNORECASE,
)
# «The user …», «my …», and «has a boat», which leaves out who.
_PERSONAL: Final = re.compile(
    r"^(?:the )?user\b|\bthe user\b|\b(?:i|me|my)\b|用户(?![名数表量组群])|我(?!们)"
    r"|^(?:has|have|had|is|was|will|would|can|does|did)\b",
    re.IGNORECASE,
)
_OWN_DEED: Final = re.compile(r"(?:\bi(?:'m|'ve|'ll)? |我)([a-z]{3,20}\b|[\u3400-\u9fff]{2})")
_JOINING_NAMES: Final = frozenset(["and", "&", ",", "和", "与", "跟", "、"])
_SEVERAL_VALUES: Final = frozenset({"job"})


@dataclass(frozen=True)
class ChangeChecks:
    """Checks the changes of one answer against the prompt that was answered."""

    prompt: ChangePrompt

    def check(self, change: MemoryChange) -> str:
        """Return why a change is refused; empty where it is believed."""
        written = "\n".join([change.statement, *change.fields.values()])
        if COVER in written or contains_secret(written):
            return "secret"
        cited = [self.prompt.messages[place] for place in change.evidence]
        is_of_user = change.category in OF_THE_USER or (change.category != "cases" and is_about_user(change.statement))
        is_own = is_of_user or change.action == FORGET or is_order(change.statement, change.category)
        sources = [message for message in cited if message.is_user] if is_own else cited
        if not sources:
            return "not_the_users_words"
        if change.action != FORGET and not self._names_speaker(change, [item for item in sources if item.is_user]):
            return "speaker_not_named"
        evidence = " ".join(message.content for message in sources)
        memory = None if change.memory is None else self.prompt.memories[change.memory].text
        # An answer such as «yes» is read together with its question. «Thanks» confirms nothing.
        before = [self.prompt.messages[at - 1] for at in change.evidence if at]
        if change.action == FORGET:
            return find_forget_flaw(memory or "", _list_slots(memory or ""), sources, before)
        asked = [message.content for message in before if not message.is_tool and _QUESTION.search(message.content)]
        context = " ".join([evidence, memory or "", *asked])
        if not share_words(" ".join([change.statement, *_list_initials(change.statement)]), _with_figures(context)):
            return "not_in_evidence"
        is_anew = self._is_said_anew(change, sources)
        flaw = find_flaw(change.statement, change.category, sources, before) if is_anew else "said_before"
        return flaw or self._check_details(change, _list_initials(context))

    def _is_said_anew(self, change: MemoryChange, sources: Sequence[Message]) -> bool:
        """Return whether messages that were not read before say something of a change, or answer a question about it.

        Else a memory that somebody forgot would come back from the messages that it was made of.
        """
        if min(change.evidence) >= self.prompt.first_new:
            return True
        messages, said = self.prompt.messages, list[str]()
        for at in change.evidence:
            if at >= self.prompt.first_new and messages[at] in sources:
                before = messages[at - 1]
                is_answer = (
                    _ANSWERS.match(messages[at].content) and _QUESTION.search(before.content) and not before.is_tool
                )
                said += [messages[at].content, *([before.content] if is_answer else [])]
        named = " ".join([change.statement, *_list_initials(change.statement)])
        return share_words(named, _with_figures(" ".join(said)))

    def _names_speaker(self, change: MemoryChange, said: Sequence[Message]) -> bool:
        """Return whether a statement about a user who `said` it names them as its subject, where several speak."""
        names = {message.name.casefold() for message in self.prompt.messages if message.is_user and message.name}
        statement, words = _pad(change.statement), "\n".join(message.content.lower() for message in said)
        if len(names) < _SEVERAL or not (
            change.category in OF_THE_USER
            or _PERSONAL.search(change.statement)
            or statement.lstrip().startswith(tuple(_OWN_DEED.findall(words)))
        ):
            return True
        parts = Counter(part for name in names for part in {name, *name.split()})
        known = {_pad(part): name for name in names for part in name.split() if parts[part] == 1}
        known |= {_pad(name): name for name in names}
        found: list[tuple[int, str]] = []
        for form in sorted(known, key=len, reverse=True):
            found += [(statement.find(form), known[form])] if form in statement else []
            statement = statement.replace(form, "\0" * len(form))
        # «Ben and Ana moved» is said of both.
        leading = {name for at, name in found if not {*statement[:at].replace("\0", " ").split()} - _JOINING_NAMES}
        leading |= {name for _, name in sorted(found)[:1]}
        return not leading.isdisjoint(message.name.casefold() for message in said)

    def _check_details(self, change: MemoryChange, initials: set[str]) -> str:
        statement = change.statement
        memory = None if change.memory is None else self.prompt.memories[change.memory].text
        addresses = _ADDRESS.findall(statement)
        is_same = memory is None or _is_same_subject(memory, statement)
        statement = blank_known(self._blank_known_days(_ADDRESS.sub(" ", statement)), self._numbers)
        names = (name for name in _iter_names(self._blank_abbreviated(statement)) if name.casefold() not in initials)
        checked = (
            ("other_subject", is_same),
            ("url_not_said", all(found in self._text for found in addresses)),
            ("number_not_said", all(map(self._is_number_known, _iter_numbers(statement)))),
            ("number_not_said", not any(starmap(self._has_other_unit, list_units(statement).items()))),
            ("number_not_said", read_spoken(_NUMBER.sub(" ", statement), CARDINALS) - {0, 1} <= self._numbers),
            ("date_not_said", change.day is None or self._is_day_known(change.day)),
            ("name_not_said", all(map(self._is_name_known, names))),
        )
        return next((reason for reason, is_known in checked if not is_known), "")

    @cached_property
    def _text(self) -> str:
        said = (f"{message.name} {message.content}" for message in self.prompt.messages)
        return "\n".join([*said, *(f"{memory.text} {memory.said_on}" for memory in self.prompt.memories)])

    @cached_property
    def _words(self) -> frozenset[str]:
        words = {fold_word(word) for word in WORD.findall(self._text)}
        words |= {piece for word in words for piece in _JOINT.split(word) if piece}
        return frozenset(words | {full for word in words for full in list_calendar_words(word)})

    @cached_property
    def _dated_texts(self) -> list[tuple[str, date]]:
        """The messages and memories whose day is known, each with its day."""
        said = [(message.content, dates.read_day(message.timestamp)) for message in self.prompt.messages]
        said += [(memory.text, dates.read_day(memory.said_on)) for memory in self.prompt.memories]
        return [(text, day) for text, day in said if day is not None]

    @cached_property
    def _days(self) -> list[Days]:
        return [days for text, day in self._dated_texts for days in list_named_days(text, day)]

    @cached_property
    def _possible_days(self) -> list[Days]:
        return [*self._days, *(days for text, day in self._dated_texts for days in list_possible_days(text, day))]

    @cached_property
    def _units(self) -> dict[str, set[Units]]:
        """The units of each figure. Those said in words, too, are left out: there they may have any unit."""
        spoken, found = read_spoken(_NUMBER.sub(" ", self._text)), list_units(self._text)
        return {number: units for number, units in found.items() if spoken.isdisjoint(_read_digits(number))}

    @cached_property
    def _figures(self) -> frozenset[str]:
        """The numbers as they are written, without commas between thousands."""
        return frozenset(number.replace(",", "") for number in _iter_numbers(self._text))

    @cached_property
    def _numbers(self) -> frozenset[int]:
        found = {part for number in _NUMBER.findall(self._text) for part in _read_digits(number)}
        grouped = (number.replace(",", "") for number in _GROUPED.findall(self._text))
        found |= {value for number in grouped for value in _read_digits(number)}
        found |= read_spoken(self._text)
        if _AFTERNOON.search(self._text):
            found |= {hour + _HALF_DAY for hour in found if hour < _HALF_DAY}
        found |= {hour - _HALF_DAY for hour in found if _HALF_DAY < hour <= 2 * _HALF_DAY}
        return frozenset(
            found | {part for days in self._days for day in days for part in (day.year, day.month, day.day)}
        )

    def _blank_known_days(self, statement: str) -> str:
        """Return a statement without the days that the conversation names, and without their weekdays."""
        today = max((day for _, day in self._dated_texts), default=None)
        if today is None:
            return statement
        named = [mention for mention in dates.iter_times(statement, today) if self._is_mention_known(mention, today)]
        weekdays = {WEEKDAYS[item.reading.first.weekday()] for item in named if item.reading is not None}
        for mention in named:
            end = mention.start + len(mention.words)
            statement = statement[: mention.start] + " " * len(mention.words) + statement[end:]
        return WORD.sub(
            lambda match: " " if weekdays & {*list_calendar_words(match[0].lower())} else match[0], statement
        )

    def _blank_abbreviated(self, statement: str) -> str:
        """Return a statement without the names that the conversation abbreviates: «New York City» as «NYC»."""
        written = {word.casefold() for word in WORD.findall(self._text) if word.isupper() and len(word) > 1}
        written |= {word for word in self._words - STOPS if len(word) >= _MIN_PLAIN}

        def blank(run: re.Match[str]) -> str:
            whole = max(_list_initials(run[0]), key=len, default="")
            return " " if not written.isdisjoint({whole, whole[1:]}) else run[0]

        return _TITLED.sub(blank, statement)

    def _is_mention_known(self, mention: dates.TimeMention, today: date) -> bool:
        named = () if mention.reading is None else place_days(mention.reading, today)
        return any(
            first <= last_known and first_known <= last
            for first, last in named
            for first_known, last_known in self._possible_days
        )

    def _is_number_known(self, number: str) -> bool:
        if number.replace(",", "") in self._figures:
            return True
        parts = _read_digits(number)
        if ":" in number and parts[0] > _HALF_DAY:
            # «Half past six» may be in the evening.
            parts[0] -= _HALF_DAY
        is_grouped_number = _GROUPED.fullmatch(number) is not None and int(number.replace(",", "")) in self._numbers
        return is_grouped_number or (
            bool(parts) and all(part in self._numbers for part in parts if part or len(parts) == 1)
        )

    def _has_other_unit(self, number: str, stated: Iterable[Units]) -> bool:
        pairs = [[*zip(units, said, strict=True)] for units in stated for said in self._units.get(number, ())]
        return bool(pairs) and all(any(own and their and not own & their for own, their in pair) for pair in pairs)

    def _is_day_known(self, day: date) -> bool:
        if any(first <= day <= last for first, last in self._possible_days):
            return True
        return {day.month, day.day} <= self._numbers and (day.year in self._numbers or self._is_near(day))

    def _is_near(self, day: date) -> bool:
        return any(abs((day - first).days) <= 366 for first, _ in self._days)  # noqa: PLR2004 -- a year

    def _is_name_known(self, name: str) -> bool:
        word = fold_word(name)
        if word in self._words or (
            len(word) >= _NAME_STEM_CHARS and any(_share_stem(word, said) for said in self._words)
        ):
            return True
        if word in NAMED and NAMED[word] in self._numbers:
            return True
        for full in list_calendar_words(word):
            if full in WEEKDAYS and any(
                first.weekday() == WEEKDAYS.index(full) for first, last in self._days if first == last
            ):
                return True
            if full in self._words or (full in MONTHS and MONTHS.index(full) + 1 in self._numbers):
                return True
        # Of «VAT-inclusive» only what is written like a name.
        pieces = [piece for piece in _JOINT.split(name) if piece[:1].isupper() and piece != name]
        return bool(pieces) and all(fold_word(piece) in self._words | GENERIC for piece in pieces)


def check_changes(
    prompt: ChangePrompt, answered: Iterable[MemoryChange | RefusedChange]
) -> tuple[list[MemoryChange], list[RefusedChange]]:
    """Return the changes that are believed, each once, and why each of the others is refused."""
    checks = ChangeChecks(prompt)
    kept: dict[str, MemoryChange] = {}
    refused: list[RefusedChange] = []
    changed: set[int] = set()
    for change in answered:
        if isinstance(change, RefusedChange):
            refused.append(change)
            continue
        reason = checks.check(change) if max(change.evidence) >= prompt.first_new else "said_before"
        key = normalize_words(change.statement)
        is_changed_twice = change.memory is not None and change.memory in changed
        if not reason and (key in kept or (is_changed_twice and change.action == FORGET)):
            reason = "repeated"
        if reason:
            refused.append(RefusedChange(change.number, reason))
        elif is_changed_twice:
            # A second change of one memory is a memory of its own.
            kept[key] = replace(change, action=ADD, memory=None)
        else:
            kept[key] = change
            changed |= set() if change.memory is None else {change.memory}
    return list(kept.values()), refused


def _list_initials(text: str) -> set[str]:
    """Return the first letters of two to five words in a row: of capitalized ones, or of at least three of any."""
    words = [word for word in WORD.findall(text) if word.casefold() not in _JOINING]
    runs = (words[at : at + count] for count in range(2, _MAX_INITIALS + 1) for at in range(len(words) - count + 1))
    return {
        "".join(word[0] for word in run).casefold()
        for run in runs
        if len(run) >= _MIN_PLAIN or all(word[0].isupper() for word in run)
    }


def _pad(text: str) -> str:
    """Return a text with spaces around each word that is not Chinese, without possessives and capitals."""
    return WORD.sub(lambda match: f" {fold_word(match[0])} ", text)


def _with_figures(text: str) -> str:
    return " ".join([text, *map(str, read_spoken(text))])


def _share_stem(word: str, other: str) -> bool:
    return len(other) >= _NAME_STEM_CHARS and word[:_NAME_STEM_CHARS] == other[:_NAME_STEM_CHARS]


def _iter_names(statement: str) -> Iterator[str]:
    """Yield the words that are written like names, the first of a sentence only where it is its subject."""
    for match in WORD.finditer(statement):
        word = match[0]
        if not word[0].isupper() or word.casefold().replace("’", "'") in GENERIC:
            continue
        is_first = (
            not statement[: match.start()].strip() or statement[: match.start()].rstrip()[-1:] in ".!?:;。！？：；"
        )
        is_capital = len(word) > 1 and word.isupper()
        if not is_first or is_capital or _SUBJECT.match(statement, match.end()):
            yield word


def _iter_numbers(statement: str) -> Iterator[str]:
    return (match[0].rstrip(".,:") for match in _NUMBER.finditer(statement))


def _read_digits(number: str) -> list[int]:
    return [int(part) for part in _NO_DIGIT.split(number) if 0 < len(part) <= _MAX_DIGITS]


def read_lasting_values(statement: str, said_on: date | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the single-valued facts that a statement of a model gives, and those that it says are over.

    Facts of years before the message are left out. So are roles: somebody may be a nurse and a student.
    """
    if is_earlier_move(statement, said_on) or PAST.search(statement.lower()):
        return {}, {}
    values, ended = (
        {slot: value for slot, value in held if slot not in _SEVERAL_VALUES} for held in read_values(statement)
    )
    return values, ended


def _is_same_subject(memory: str, statement: str) -> bool:
    """Return whether a statement may replace a memory: both give the same single-valued fact, or neither gives one.

    Where only one gives such a fact, they must share a word. «Moved to the emergency ward» replaces «nurse in the ICU».
    """
    slots, others = _list_slots(memory), _list_slots(statement)
    if slots and others:
        return not slots.isdisjoint(others)
    return not (slots or others) or share_words(memory, statement)


def _list_slots(text: str) -> set[str]:
    return {slot for held in read_values(text) for slot, _ in held}
