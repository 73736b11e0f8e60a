"""Merge the rows of several records into one row, without loss of text or evidence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from knowhub.core.errors import InvalidInput
from knowhub.core.near_duplicates import normalize_text, normalize_width, words
from knowhub.core.operation import Row, next_of
from knowhub.knowledge.evidence import FRESH_HELPFUL, MAX_PENDING_FEEDBACK, list_votes, trim_votes, update_confidence
from knowhub.knowledge.model import HISTORY_SHOWN

MAX_MERGED_CHARS = 100_000
MAX_LISTED = 50
# After `normalize_width`. Between Han characters a comma separates; between letters and digits it may mean something.
_PUNCTUATION = re.compile(r"[、。]|[,.;:!?]+(?![0-9A-Za-z,.;:!?])")
_MAX_COMPARED = 20_000
_REPEATED_SHARE = 0.6

# Splits lines and sentences. A full stop ends a sentence only before white space, unlike in `v1.2` and `a.b.com`.
_END = re.compile(r"(\n+|(?<=[.!?])[^\S\n]+|(?<=[。！？])[^\S\n]*)")


class _Sentence(NamedTuple):
    """A line or sentence: what it says, folded (nothing for blanks and marks), and its text with what follows it."""

    said: str
    text: str


def merge_rows(survivor: Row, sources: Sequence[Row], text: tuple[str, str] | None, now: float) -> list[Row]:
    """Return the changed rows: the survivor with the content of the sources, then each source with `merged_into`.

    `text` is the merged task and content; with None, what only a source says is added to the survivor's content. The
    survivor keeps its owner, scopes, types and times. Raises InvalidInput if the result is too large for a record, or
    if the texts contradict each other's order.
    """
    task, content = text or (survivor["task"], join_contents(survivor, sources))
    if content is None:
        raise InvalidInput.of("content", "their sentences stand in different orders")
    fields = {
        **survivor,
        "task": task,
        "content": content,
        "tags": _merge_tags([survivor, *sources]),
        "resource_ids": _merge_values("resource_ids", (row["resource_ids"] for row in (survivor, *sources))),
        "source": {
            **survivor["source"],
            "urls": _merge_values("source.urls", (row["source"]["urls"] for row in (survivor, *sources))),
        },
        "eval": merge_evaluation(survivor["eval"], [source["eval"] for source in sources], now),
    }
    if content != survivor["content"] and len(task) + len(content) > MAX_MERGED_CHARS:
        raise InvalidInput.of("content", f"would be more than {MAX_MERGED_CHARS} characters")
    merged_sources = [next_of({**source, "merged_into": survivor["id"]}, source, now) for source in sources]
    return [next_of(fields, survivor, now), *merged_sources]


def join_contents(survivor: Row, sources: Sequence[Row]) -> str | None:
    """Return the survivor's content with each line or sentence that only a source has, in the order of every text.

    What a source says between two sentences of the survivor goes there, what it says after its last one to the end.
    None if a source has two sentences in another order. Two lines are the same if they differ only in width,
    punctuation, outer white space or the capital of their first word; in tasks the case of other words is ignored too.
    Else case and indentation count, as in `tar -c` and `tar -C`. An indented line has no meaning alone, so a new one
    adds the source's whole content.
    """
    titles = _list_sentences(survivor["task"], is_title=True)
    joined = _split_sentences(survivor["content"]) if survivor["content"] else []
    if not all(_add_source(joined, source, titles) for source in sources):
        return None
    return "".join(piece.text for piece in joined)


def has_same_sentence(survivor: Row, source: Row) -> bool:
    """Return whether a sentence that only the source has is nearly one of the survivor's.

    Joined, they would say it twice. True too where there are too many sentences to compare. Both forms are kept of a
    sentence that differs in case or marks alone: they may mean something.
    """
    said = _list_sentences(survivor["content"]) | _list_sentences(survivor["task"], is_title=True)
    new = (_list_sentences(source["content"]) | _list_sentences(source["task"], is_title=True)) - said
    folded = set(map(normalize_text, said))
    own = [words(piece) for piece in new if normalize_text(piece) not in folded]
    if len(own) * len(said) > _MAX_COMPARED:
        return True
    known = list(map(words, said))
    return any(len(item & other) >= _REPEATED_SHARE * min(len(item), len(other)) > 0 for item in own for other in known)


def merge_evaluation(survivor: Mapping[str, Any], sources: Sequence[Mapping[str, Any]], now: float) -> dict[str, Any]:
    """Return the joined evidence: summed counters, votes and cases in the order of their times, the best score.

    The helpful case that every record begins with counts only once.
    """
    every = (survivor, *sources)
    joined = {
        **survivor,
        "helpful": survivor["helpful"] + sum(max(0, item["helpful"] - FRESH_HELPFUL) for item in sources),
        "harmful": sum(item["harmful"] for item in every),
        "score": max(item["score"] for item in every),
        "helpful_history": _merge_by_time(item["helpful_history"] for item in every)[-HISTORY_SHOWN:],
        "harmful_history": _merge_by_time(item["harmful_history"] for item in every)[-HISTORY_SHOWN:],
    }
    joined.pop("effective", None)
    if votes := trim_votes(_merge_by_time(map(list_votes, every))):
        joined["votes"] = votes
    if pending_feedback := [words for item in every for words in item.get("kept_words", ())]:
        joined["kept_words"] = pending_feedback[-MAX_PENDING_FEEDBACK:]
    if runs := [item["weak"] for item in every if "weak" in item]:
        joined["weak"] = {name: sum(counts[name] for counts in runs) for name in runs[0]}
    return {**joined, "confidence": update_confidence(survivor, joined, now)}


def _split_sentences(text: str) -> list[_Sentence]:
    """Split a text into lines and sentences. White space before a line, except the first, is its indentation."""
    body = text.lstrip()
    parts = _END.split(body)
    ends = zip(parts[::2], [*parts[1::2], ""], strict=True)
    first, *others = [_Sentence(_normalize_sentence(piece.rstrip()), piece + end) for piece, end in ends]
    return [first._replace(text=text[: len(text) - len(body)] + first.text), *others]


def _list_sentences(text: str, *, is_title: bool = False) -> set[str]:
    """Return the folded sentences of a text; of a task also without the case of its words."""
    said = {piece.said for piece in _split_sentences(text)} - {""}
    return said | set(map(_normalize_title, said)) if is_title else said


def _normalize_sentence(piece: str) -> str:
    """Return a sentence without its punctuation and the capital of its first word.

    A mark within a word counts, as in `v1.2` and `a:b`.
    """
    first, space, rest = _PUNCTUATION.sub("", normalize_width(piece)).partition(" ")
    return (first.lower() if first.isalpha() and first[1:].islower() else first) + space + rest


def _normalize_title(said: str) -> str:
    """Fold the case of the words in a task. A letter alone may be an option."""
    return " ".join(word.lower() if word.isalpha() and len(word) > 1 else word for word in said.split(" "))


def _add_source(joined: list[_Sentence], source: Row, titles: set[str]) -> bool:
    """Add what only the source says. Return False, and add nothing, if its order contradicts that of `joined`."""
    known = {piece.said for piece in joined}
    tasks = [item for item in _split_sentences(source["task"]) if item.said and item.said not in known]
    new = [[item] for item in tasks if _normalize_title(item.said) not in titles]
    text = source["content"].strip("\r\n")
    content = _split_sentences(text)
    # Of two equal texts with indented lines the first was added whole.
    has_all = f"\n{text}\n" in f"\n{''.join(piece.text for piece in joined)}\n"
    gaps = {} if has_all else _find_inserts(joined, [piece for piece in content if piece.said])
    if gaps is None:
        return False
    gaps = {position: [item for item in found if item.said not in titles] for position, found in gaps.items()}
    if any(item.said[0].isspace() for found in gaps.values() for item in found):
        gaps = {}
        new.append(content)
    new += [[item] for item in gaps.pop(len(joined), ())]
    for position in sorted(gaps, reverse=True):
        before = joined[position - 1].text if position else ""
        end = before[len(before.rstrip()) :]
        # A sentence between two lines becomes a line.
        joined[position:position] = [
            item._replace(text=item.text.rstrip() + end) if "\n" in end else item for item in gaps[position]
        ]
    for pieces in new:
        if joined:
            joined[-1] = joined[-1]._replace(text=joined[-1].text + "\n")
        joined += [*pieces[:-1], pieces[-1]._replace(text=pieces[-1].text.rstrip())]
    return True


def _find_inserts(joined: Sequence[_Sentence], own: Sequence[_Sentence]) -> dict[int, list[_Sentence]] | None:
    """Return the new pieces of a text by the index in `joined` before which they go; None if the orders contradict."""
    positions = {key: position for position, key in enumerate(_number_repeats(joined))}
    gaps: dict[int, list[_Sentence]] = {}
    waiting: list[_Sentence] = []
    last = -1
    for key, piece in zip(_number_repeats(own), own, strict=True):
        position = positions.get(key)
        if position is None:
            waiting.append(piece)
        elif position < last:
            return None
        else:
            gaps[position], last, waiting = waiting, position, []
    return gaps | {len(joined): waiting}


def _number_repeats(pieces: Sequence[_Sentence]) -> list[tuple[str, int]]:
    """Return what each piece says, and for how many times it was said by then: a step may be needed twice."""
    counts: dict[str, int] = {}
    numbered = []
    for said, _ in pieces:
        counts[said] = count = counts.get(said, 0) + 1
        numbered.append((said, count))
    return numbered


def _merge_by_time(lists: Iterable[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the cases or votes of all lists, oldest first. Imported ones may have no time; they come first."""
    return sorted(chain(*lists), key=lambda item: item.get("timestamp") or "")


def _merge_values(name: str, lists: Any) -> list[str]:  # noqa: ANN401 -- lists out of JSON
    joined = list(dict.fromkeys(value for values in lists for value in values))
    if len(joined) > MAX_LISTED:
        raise InvalidInput.of(name, f"would be more than {MAX_LISTED}")
    return joined


def _merge_tags(rows: Sequence[Row]) -> dict[str, Any]:
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row["tags"].items():
            values.setdefault(name, []).extend([value] if isinstance(value, str) else value)
    if len(values) > MAX_LISTED:
        raise InvalidInput.of("tags", f"would be more than {MAX_LISTED}")
    own = rows[0]["tags"]
    merged: dict[str, Any] = {}
    for name, several in values.items():
        joined = _merge_values(f"tags.{name}", [several])
        # An unchanged tag keeps its form: text, or a list with one item.
        merged[name] = joined[0] if len(joined) == 1 and own.get(name) != joined else joined
    return merged
