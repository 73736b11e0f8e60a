"""Remove what one row said from a line of the log.

The line keeps its length, and each row in it keeps its place: spaces follow a value that became shorter. So nothing
that points into the log, in this process or in another one, has to be updated.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from knowhub.core.erasing import EraseRules, is_erased
from knowhub.stores.files.log.log_line import CHECKSUM_BYTES, add_checksum, parse_line

_PIECE_BYTES: Final = 24
_MIN_ID_CHARS: Final = 8
_MIN_TEXT_BYTES: Final = 6
# Values that hold words. Each has an empty form.
_TEXT_TYPES: Final = (str, list, dict)
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrtbf]")
_NOT_PLAIN: Final = re.compile(r"[\s\\\"]+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT")
# A summary is made of sentences and list items, each perhaps after the name of its speaker.
_SENTENCE_END: Final = re.compile(r"[\n,，、]|(?<=[.!?。！？])")
_LABEL: Final = ": "


@dataclass(frozen=True, slots=True)
class Target:
    """The row to erase. Rows of the collection `below` under its id are erased too; `quoted_by` may quote it."""

    account: str
    collection: str
    id: str
    below: str | None = None
    quoted_by: tuple[str, str] | None = None

    @classmethod
    def of(cls, account: str, collection: str, row_id: str, rules: EraseRules) -> "Target":
        """Return a row and what its rules erase with it."""
        return cls(account, collection, row_id, rules.below, rules.quoted_by(row_id))

    def is_row(self, change: Mapping[str, Any]) -> bool:
        if change["collection"] == self.collection and change["id"] == self.id:
            return True
        return change["collection"] == self.below and str(change["id"]).startswith(f"{self.id}/")


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What a row is recognised by in other texts: its id, its short texts, and pieces of its long texts.

    A piece is 24 bytes of a text without white space, quotes and escapes. So a text is found in a prompt too, where it
    is JSON within JSON and may be cut short: any 47 bytes of it are enough.
    """

    row_id: str
    pieces: frozenset[bytes]
    short: frozenset[str]
    texts: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, row_id: str, versions: Iterable[Mapping[str, Any]], rules: EraseRules) -> "Fingerprints":
        """Collect the fingerprints of all versions of a row."""
        pieces: set[bytes] = set()
        short: set[str] = set()
        texts: set[bytes] = set()
        for row in versions:
            for text in _find_strings([value for name, value in row.items() if name in rules.blanks]):
                if not _TIME.match(text):
                    plain = _to_plain(text)
                    ends = range(_PIECE_BYTES, len(plain) + 1, _PIECE_BYTES)
                    pieces.update(plain[end - _PIECE_BYTES : end] for end in ends)
            text = rules.main_text(row)
            texts.add(_to_plain(text))
            if text and len(_to_plain(text)) < _PIECE_BYTES:
                short.add(text)
        return cls(row_id, frozenset(pieces), frozenset(short), frozenset(texts))

    def matches(self, value: object) -> bool:
        """Return whether a string in a JSON value repeats the row or names it."""
        return any(self._matches_string(text) for text in _find_strings(value))

    def matches_bytes(self, data: bytes) -> bool:
        """Return whether bytes that may not be JSON repeat the row; true when in doubt."""
        return self.matches_text(data.decode("utf-8", "replace"))

    def matches_text(self, text: str) -> bool:
        """Return whether a text that was made of several texts repeats the row; true when in doubt."""
        long_enough = [short for short in self.short if len(short.encode()) >= _MIN_TEXT_BYTES]
        return self._matches_string(text) or any(short in text for short in long_enough)

    def matches_quote(self, text: str) -> bool:
        """Return whether a text repeats the row or a sentence of it, however short; true when in doubt."""
        if self.matches_text(text):
            return True
        sentences = [part for sentence in _SENTENCE_END.split(text) for part in _strip_labels(sentence)]
        parts = [_to_plain(part.rstrip("…")) for part in sentences]
        return any(len(part) >= _MIN_TEXT_BYTES and any(part in text for text in self.texts) for part in parts)

    def _matches_string(self, text: str) -> bool:
        if self._has_id(text) or any(
            text == short or json.dumps(short, ensure_ascii=False) in text for short in self.short
        ):
            return True
        if len(text.encode("utf-8", "replace")) < _PIECE_BYTES:
            return False
        plain = _to_plain(text)
        return any(plain[at : at + _PIECE_BYTES] in self.pieces for at in range(len(plain) - _PIECE_BYTES + 1))

    def _has_id(self, text: str) -> bool:
        if self.row_id not in text:
            return False
        if len(self.row_id) < _MIN_ID_CHARS:
            return text == self.row_id
        return re.search(rf"(?<![\w-]){re.escape(self.row_id)}(?![\w-]|[.~@:+%]\w)", text) is not None


def find_versions(record: Mapping[str, Any], target: Target) -> Iterator[Mapping[str, Any]]:
    """Yield the versions of the row in a line, before and after its operation, that are not erased."""
    if record.get("account") == target.account:
        for change in record.get("changes", ()):
            if target.is_row(change):
                yield from (row for row in (change.get("before"), change["after"]) if row and not is_erased(row))


def parse_record(line: bytes) -> Mapping[str, Any] | None:
    """Return the object of a line; None for a line that is damaged or that another program wrote."""
    record = parse_line(line)
    changes = record.get("changes", []) if record is not None else None
    is_ours = isinstance(changes, list) and all(_is_change(change) for change in changes)
    return record if is_ours else None


def erase_from_line(line: bytes, target: Target, rules: EraseRules, fingerprints: Fingerprints) -> bytes | None:
    """Return a line of a segment or a base without what the row said; None for a line that says nothing of it.

    A stub is left of each version of the row. The prompts and answers of a model are removed if the operation changed
    the row or if they repeat it. In the operation's reply, texts that repeat the row become empty; if the operation
    changed the row or the reply names it, all its text fields become empty.
    """
    record = parse_record(line)
    if record is None or record.get("account") != target.account:
        return None
    changes = record.get("changes", ())
    has_row = any(target.is_row(change) for change in changes)
    new_rows = [_erase_change(change, target, rules, fingerprints) for change in changes]
    prompts, reply = record.get("agent_io"), record.get("reply")
    new_prompts = None if has_row or fingerprints.matches(prompts) else prompts
    new_reply = _erase_reply(reply, rules, fingerprints, is_about_row=has_row)
    if new_prompts == prompts and new_reply == reply and not any(new_rows):
        return None
    raw = _RAW_LINE.decode(line)
    values: list[tuple[bytes, Any]] = [
        (bytes(getattr(text, name)), rows.get(name, _SAME))
        for text, rows in zip(raw.changes, new_rows, strict=True)
        for name in ("before", "after")
    ]
    values.append((bytes(raw.agent_io), _SAME if new_prompts == prompts else None))
    values.append((bytes(raw.reply), _SAME if new_reply == reply else new_reply))
    return _replace_values(line, values, rules)


class _WrittenChange(msgspec.Struct, frozen=True):
    after: msgspec.Raw
    before: msgspec.Raw = msgspec.Raw()


class _RawRecord(msgspec.Struct, frozen=True):
    """The texts of the values in a line that may be replaced, in their order."""

    changes: list[_WrittenChange] = []
    agent_io: msgspec.Raw = msgspec.Raw()
    reply: msgspec.Raw = msgspec.Raw()


_RAW_LINE: Final = msgspec.json.Decoder(_RawRecord)
_SAME: Final = object()


def _replace_values(line: bytes, values: Sequence[tuple[bytes, Any]], rules: EraseRules) -> bytes:
    """Return a line in which new values replace the texts of old ones, given in the order of the line."""
    pieces, end = [], 0
    for text, value in values:
        if len(text) <= len(b"null"):
            # There is no such value, or nothing to remove from it.
            continue
        start = line.index(text, end)
        new = text if value is _SAME else _dump(value, rules.optional, len(text))
        pieces += [line[end:start], new.ljust(len(text))]
        end = start + len(text)
    return add_checksum(b"".join([*pieces, line[end:]])[:-CHECKSUM_BYTES])


def _dump(value: Any, optional: Sequence[str], room: int) -> bytes:  # noqa: ANN401 -- any JSON value
    """Write a value in at most `room` bytes; a stub loses optional fields for that. Raises ValueError if too long."""
    text = orjson.dumps(value)
    for count in range(1, len(optional) + 1 if isinstance(value, dict) and is_erased(value) else 1):
        if len(text) <= room:
            break
        text = orjson.dumps({name: item for name, item in value.items() if name not in optional[:count]})
    if len(text) > room:
        raise ValueError(f"the rest of an erased row does not fit into {room} bytes")
    return text


def _is_change(value: object) -> bool:
    match value:
        case {"collection": str(), "id": str(), "after": dict(), **rest}:
            return isinstance(rest.get("before"), dict | None)
    return False


def _erase_change(
    change: Mapping[str, Any], target: Target, rules: EraseRules, fingerprints: Fingerprints
) -> dict[str, Any]:
    """Return the versions of a row that have to be replaced, by the member of the change that holds them."""
    new: dict[str, Any] = {}
    for name in ("before", "after"):
        row = change.get(name)
        if row is None:
            continue
        if target.is_row(change):
            if not is_erased(row):
                new[name] = rules.make_stub(row)
        elif (change["collection"], change["id"]) == target.quoted_by:
            is_paraphrased = rules.is_paraphrase(row)
            quoting = [field for field in rules.quoting if row.get(field)]
            quotes = [field for field in quoting if is_paraphrased or fingerprints.matches_quote(str(row[field]))]
            if quotes:
                new[name] = {**row, **dict.fromkeys(quotes, "")}
    return new


def _erase_reply(
    value: Any,  # noqa: ANN401 -- any JSON value
    rules: EraseRules,
    fingerprints: Fingerprints,
    *,
    is_about_row: bool,
) -> Any:  # noqa: ANN401 -- any JSON value
    """Return a reply without the texts that repeat the row. Ids stay, because answers to retries are made of them.

    Where a part `is_about_row`, its text fields become empty whatever they say: short texts, and the words of a model,
    cannot be recognised. Parts about other rows stay.
    """
    if isinstance(value, Mapping):
        if value.get("id") == fingerprints.row_id and not rules.blanks.keys().isdisjoint(value):
            stub = value if is_erased(value) else rules.make_stub(value)
            return stub if len(orjson.dumps(stub)) <= len(orjson.dumps(value)) else _clear(value, rules.blanks)
        if "id" in value:
            is_about_row = bool(value["id"] == fingerprints.row_id)
        elif not is_about_row:
            row_id = fingerprints.row_id
            is_about_row = any(item == row_id or (isinstance(item, list) and row_id in item) for item in value.values())
        cleared = _clear(value, rules.reply_fields | rules.blanks.keys()) if is_about_row else value
        return {
            name: _erase_reply(item, rules, fingerprints, is_about_row=is_about_row) for name, item in cleared.items()
        }
    if isinstance(value, list):
        return [_erase_reply(item, rules, fingerprints, is_about_row=is_about_row) for item in value]
    if isinstance(value, str) and value != fingerprints.row_id and fingerprints.matches(value):
        return ""
    return value


def _clear(value: Mapping[str, Any], names: Container[str]) -> Mapping[str, Any]:
    """Return an object with the text fields of these names empty."""
    return {
        name: type(item)() if name in names and isinstance(item, _TEXT_TYPES) else item for name, item in value.items()
    }


def _find_strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, and the names of its members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _find_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _find_strings(item)


def _to_plain(text: str) -> bytes:
    """Return a text without white space, quotes and escapes, so that it is the same within JSON."""
    unescaped = _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    return _NOT_PLAIN.sub("", unescaped).encode("utf-8", "replace")


def _strip_labels(sentence: str) -> Iterator[str]:
    """Yield a sentence with all, some and none of the labels before it."""
    yield sentence
    while _LABEL in sentence:
        sentence = sentence.partition(_LABEL)[2]
        yield sentence
