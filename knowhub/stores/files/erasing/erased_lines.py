"""A line of the log without what one row said: exactly as long as before, so that nothing behind it moves."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from knowhub.core.erasing import EraseRules, is_erased
from knowhub.stores.files.log.log_line import object_of, parsed, resealed

_PIECE_BYTES = 24
_SHORT_ID = 8
_SHORT_TEXT = 6
# What may hold a text, and be empty.
_WORDS = (str, list, dict)
_SPACES = re.compile(" *")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrtbf]")
_NOTHING = re.compile(r"[\s\\\"]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")
# What a summary is made of: sentences, words that it lists, and who says them in front.
_PARTS = re.compile(r"[\n,，、]|(?<=[.!?。！？])")
_LABEL = ": "
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Target:
    """The row that is to be erased, with those of the collection `below` it; and the row that may quote it."""

    account: str
    collection: str
    id: str
    below: str | None = None
    quoted_by: tuple[str, str] | None = None

    @classmethod
    def of(cls, account: str, place: tuple[str, str], rules: EraseRules) -> "Target":
        """Return a row with all that goes with it."""
        return cls(account, *place, rules.below, rules.quoted_by(place[1]))

    def is_row(self, change: Mapping[str, Any]) -> bool:
        if change["collection"] == self.collection and change["id"] == self.id:
            return True
        return change["collection"] == self.below and str(change["id"]).startswith(f"{self.id}/")

    def may_quote(self, change: Mapping[str, Any]) -> bool:
        return (change["collection"], change["id"]) == self.quoted_by


@dataclass(frozen=True, slots=True)
class Traces:
    """By what a row is known where others tell of it: its id, its short texts, and pieces of its long ones.

    A piece is 24 bytes of a text without its white space, quotes and escapes, so that a text is found in a prompt
    too, where it stands as JSON within JSON, and perhaps cut short: 47 bytes of it are always enough.
    """

    row_id: str
    pieces: frozenset[bytes]
    short: frozenset[str]
    said: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, row_id: str, versions: Iterable[Mapping[str, Any]], rules: EraseRules) -> "Traces":
        """Gather what any version of a row said."""
        pieces: set[bytes] = set()
        short: set[str] = set()
        whole: set[bytes] = set()
        for row in versions:
            for text in _strings([value for name, value in row.items() if name in rules.blanks]):
                plain = _plain(text)
                if not _TIME.match(text):
                    pieces.update(plain[at : at + _PIECE_BYTES] for at in _starts(plain))
            said = rules.says(row)
            whole.add(_plain(said))
            if said and len(_plain(said)) < _PIECE_BYTES:
                short.add(said)
        return cls(row_id, frozenset(pieces), frozenset(short), frozenset(whole))

    def stand_in(self, value: object) -> bool:
        """Tell whether some text in a JSON value tells of the row."""
        return any(self._stand_in_text(text) for text in _strings(value))

    def stand_in_bytes(self, data: bytes) -> bool:
        """Tell whether bytes that need not be JSON tell of the row; where in doubt, they do."""
        return self.stand_in_words(data.decode("utf-8", "replace"))

    def stand_in_words(self, text: str) -> bool:
        """Tell whether a text that somebody made of several tells of the row; where in doubt, it does."""
        long_enough = [said for said in self.short if len(said.encode()) >= _SHORT_TEXT]
        return self._stand_in_text(text) or any(said in text for said in long_enough)

    def are_quoted_in(self, text: str) -> bool:
        """Tell whether a text tells of the row or is made of sentences of it, however short; where in doubt, it is."""
        if self.stand_in_words(text):
            return True
        parts = (_plain(one.rstrip("…")) for part in _PARTS.split(text) for one in _unlabelled(part))
        return any(len(one) >= _SHORT_TEXT and any(one in said for said in self.said) for one in parts)

    def _stand_in_text(self, text: str) -> bool:
        if self._names(text) or any(
            text == said or json.dumps(said, ensure_ascii=False) in text for said in self.short
        ):
            return True
        if len(text.encode("utf-8", "replace")) < _PIECE_BYTES:
            return False
        plain = _plain(text)
        return any(plain[at : at + _PIECE_BYTES] in self.pieces for at in range(len(plain) - _PIECE_BYTES + 1))

    def _names(self, text: str) -> bool:
        if self.row_id not in text:
            return False
        if len(self.row_id) < _SHORT_ID:
            return text == self.row_id
        return re.search(rf"(?<![\w-]){re.escape(self.row_id)}(?![\w-]|[.~@:+%]\w)", text) is not None


def versions_in(record: Mapping[str, Any], target: Target) -> Iterator[Mapping[str, Any]]:
    """Yield what the row was before and after, as far as a line tells that and it is not erased."""
    if record.get("account") == target.account:
        for change in record.get("changes", ()):
            if target.is_row(change):
                yield from (row for row in (change.get("before"), change["after"]) if row and not is_erased(row))


def record_of(line: bytes) -> Mapping[str, Any] | None:
    """Return the object of a line of the log; None when it is not whole, or its rows are no rows: another program's."""
    record = parsed(line)
    changes = record.get("changes", []) if record is not None else None
    is_told = isinstance(changes, list) and all(_is_change(change) for change in changes)
    return record if is_told else None


def erased_line(line: bytes, target: Target, rules: EraseRules, traces: Traces) -> bytes | None:
    """Return a line of a segment or of a base without what the row said; None when it says nothing of it.

    Of each version of the row a stub stays. What a model was asked and said goes as a whole where the operation
    touched the row or told of it. In the operation's reply the texts that tell of it become empty: all that are meant
    to where the operation touched the row or the reply names it there, elsewhere those that repeat it. Spaces stand for
    what is gone.
    """
    record = record_of(line)
    if record is None or record.get("account") != target.account:
        return None
    changes = record.get("changes", ())
    touched = [number for number, change in enumerate(changes) if target.is_row(change)]
    quoting = [
        number
        for number, change in enumerate(changes)
        if target.may_quote(change)
        and any(_quotes(row, rules, traces) for row in (change.get("before"), change["after"]))
    ]
    asked, reply = record.get("agent_io"), record.get("reply")
    goes = asked is not None and (bool(touched) or traces.stand_in(asked))
    blanked = _blanked(reply, rules, traces, is_about=bool(touched))
    if not touched and not quoting and not goes and blanked == reply:
        # Most lines: where everything stands in them need not be looked for.
        return None
    text = object_of(line).decode()
    members = {name: (start, end) for name, start, end in _members(text, 0)}
    spots = [(*members["agent_io"], "null")] if goes else []
    if blanked != reply:
        spots.append((*members["reply"], _fitted(blanked, (), _size(text, members["reply"]))))
    if touched or quoting:
        starts = [start for start, _ in _items(text, members["changes"][0])]
        spots += [spot for number in touched for spot in _spots_of_change(text, starts[number], rules)]
        spots += [spot for number in quoting for spot in _spots_of_quoting(text, starts[number], rules, traces)]
    return resealed(line, _with(text, spots)) if spots else None


def _is_change(value: object) -> bool:
    match value:
        case {"collection": str(), "id": str(), "after": dict(), **rest}:
            return isinstance(rest.get("before"), dict | None)
    return False


def _spots_of_change(text: str, at: int, rules: EraseRules) -> list[tuple[int, int, str]]:
    """Return what takes the place of the rows of the change that begins at `at`."""
    members = {name: (start, end) for name, start, end in _members(text, at)}
    spots = []
    for name in ("before", "after"):
        span = members.get(name)
        row = _value(text, span) if span else None
        if span and row is not None and not is_erased(row):
            spots.append((*span, _fitted(rules.stub(row), rules.spare, _size(text, span))))
    return spots


def _quotes(row: Mapping[str, Any] | None, rules: EraseRules, traces: Traces) -> list[str]:
    """Return the fields of a row that tell of the one that is erased."""
    if row is None:
        return []
    is_retold = rules.retells(row)
    fields = [name for name in rules.quoting if row.get(name)]
    return [name for name in fields if is_retold or traces.are_quoted_in(str(row[name]))]


def _spots_of_quoting(text: str, at: int, rules: EraseRules, traces: Traces) -> list[tuple[int, int, str]]:
    """Return what takes the place of what quotes the row in the change that begins at `at`."""
    spots = []
    for name, start, end in _members(text, at):
        row = _value(text, (start, end)) if name in {"before", "after"} else None
        if row and (quotes := _quotes(row, rules, traces)):
            spots.append((start, end, _fitted({**row, **dict.fromkeys(quotes, "")}, (), _size(text, (start, end)))))
    return spots


def _blanked(
    value: Any,  # noqa: ANN401 -- any JSON value
    rules: EraseRules,
    traces: Traces,
    *,
    is_about: bool,
) -> Any:  # noqa: ANN401 -- any JSON value
    """Return a reply without the texts in it that tell of the row; ids stay, which the answer is made of.

    Where it `is_about` the row, its fields of words go whatever they say: short ones, and a model's own, repeat nothing
    by which they could be known. Another row within it stays.
    """
    if isinstance(value, Mapping):
        if value.get("id") == traces.row_id and not rules.blanks.keys().isdisjoint(value):
            return _emptied(value, rules)
        is_about = _is_about(value, traces.row_id, is_within=is_about)
        kept = _without(value, rules.told | rules.blanks.keys()) if is_about else value
        return {name: _blanked(one, rules, traces, is_about=is_about) for name, one in kept.items()}
    if isinstance(value, list):
        return [_blanked(one, rules, traces, is_about=is_about) for one in value]
    if isinstance(value, str) and value != traces.row_id and traces.stand_in(value):
        return ""
    return value


def _is_about(value: Mapping[str, Any], row_id: str, *, is_within: bool) -> bool:
    """Tell whether an object in a reply tells of the row: it names it, or is within one that does."""
    if "id" in value:
        return bool(value["id"] == row_id)
    return is_within or any(one == row_id or (isinstance(one, list) and row_id in one) for one in value.values())


def _emptied(value: Mapping[str, Any], rules: EraseRules) -> Mapping[str, Any]:
    """Return the stub of a row that stands in a reply, or, of a part of one that has no room for it, what is left."""
    stub = value if is_erased(value) else rules.stub(value)
    return stub if len(orjson.dumps(stub)) <= len(orjson.dumps(value)) else _without(value, rules.blanks)


def _without(value: Mapping[str, Any], names: Container[str]) -> Mapping[str, Any]:
    """Return an object with these of its fields empty."""
    return {name: type(one)() if name in names and isinstance(one, _WORDS) else one for name, one in value.items()}


def _fitted(value: dict[str, Any], spare: Sequence[str], room: int) -> str:
    """Write a value in at most `room` bytes, without what it can do without. Raises ValueError when it cannot be."""
    for dropped in range(len(spare) + 1):
        kept = {name: one for name, one in value.items() if name not in spare[:dropped]}
        written = orjson.dumps(kept)
        if len(written) <= room:
            return written.decode()
    raise ValueError(f"what is left of a row has no room in {room} bytes")


def _with(text: str, spots: Sequence[tuple[int, int, str]]) -> bytes:
    pieces, end = [], 0
    for start, after, replacement in sorted(spots):
        # Behind the value, where white space means nothing: so what is left stands where the value stood.
        gap = _size(text, (start, after)) - len(replacement.encode())
        pieces += [text[end:start].encode(), replacement.encode(), b" " * gap]
        end = after
    return b"".join([*pieces, text[end:].encode()])


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of each member of the object that begins at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield name, start, end
        at = _next(text, end)


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each item of the array that begins at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _next(text, end)


def _next(text: str, end: int) -> int:
    at = _skip(text, end)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    return match.end() if match else at


def _value(text: str, span: tuple[int, int]) -> Any:  # noqa: ANN401 -- any JSON value
    return json.loads(text[span[0] : span[1]])


def _size(text: str, span: tuple[int, int]) -> int:
    return len(text[span[0] : span[1]].encode())


def _strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, the names of its members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield name
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _plain(text: str) -> bytes:
    """Return a text without white space, quotes and escapes, so that it reads the same within JSON."""
    return _NOTHING.sub("", _ESCAPED.sub(_unescaped, text)).encode("utf-8", "replace")


def _unlabelled(part: str) -> Iterator[str]:
    """Yield a part of a summary with all, some and none of the labels in front of it."""
    yield part
    while _LABEL in part:
        part = part.partition(_LABEL)[2]
        yield part


def _unescaped(match: "re.Match[str]") -> str:
    return chr(int(match[1], 16)) if match[1] else ""


def _starts(plain: bytes) -> range:
    return range(0, len(plain) - _PIECE_BYTES + 1, _PIECE_BYTES)
