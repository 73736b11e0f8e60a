"""Merge the rows of several records into one row, without loss of text or evidence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from knowhub.core import clock
from knowhub.core.errors import InvalidInput
from knowhub.core.near_duplicates import normalize_width, words
from knowhub.core.operation import Row, next_version
from knowhub.knowledge import record_rules
from knowhub.knowledge.evidence import FRESH_HELPFUL, MAX_KEPT_WORDS, VOTES_STORED, list_votes, update_confidence
from knowhub.knowledge.model import HISTORY_SHOWN

MAX_MERGED_CHARS = 100_000
MAX_LISTED = 50
# After `normalize_width`. Between Han characters a comma separates; between letters and digits it may mean something.
_PUNCTUATION = re.compile(r"[、。]|[,.;:!?]+(?![0-9A-Za-z,.;:!?])")
_MAX_COMPARED = 20_000
_REPEATED_SHARE = 0.6

# Splits lines and sentences. A full stop ends a sentence only before white space, unlike in `v1.2` and `a.b.com`.
_END = re.compile(r"\n+|(?<=[.!?])[^\S\n]+|(?<=[。！？])[^\S\n]*")


def merge_rows(survivor: Row, sources: Sequence[Row], text: tuple[str, str] | None, now: float) -> list[Row]:
    """Return the changed rows: the survivor with the content of the sources, then each source with `merged_into`.

    `text` is the merged task and content; with None, what only a source says is appended to the survivor's content.
    The survivor keeps its owner, scopes, types and times. Raises InvalidInput if the result is too large for a record.
    """
    task, content = text or (survivor["task"], join_contents(survivor, sources))
    moment = clock.iso(now)
    merged = {
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
        "version": next_version(survivor),
        "updated_at": moment,
    }
    record_rules.check_content(task, content)
    if content != survivor["content"] and len(task) + len(content) > MAX_MERGED_CHARS:
        raise InvalidInput.of("content", f"would be more than {MAX_MERGED_CHARS} characters")
    merged_sources = [
        {**source, "merged_into": survivor["id"], "version": next_version(source), "updated_at": moment}
        for source in sources
    ]
    return [merged, *merged_sources]


def join_contents(survivor: Row, sources: Sequence[Row]) -> str:
    """Return the survivor's content, followed by each line or sentence that only a source has.

    Two lines are the same if they differ only in width, punctuation or outer white space. Case and indentation count,
    as in `tar -c` and `tar -C`. An indented line has no meaning alone, so a new one adds the source's whole content.
    """
    known = set(map(_fold_sentence, (*_split_text(survivor["task"]), *_split_text(survivor["content"]))))
    added: list[str] = []
    for source in sources:
        added += _find_new(source["task"], known)
        content = _find_new(source["content"], known)
        added += [source["content"].strip("\r\n")] if any(piece[0].isspace() for piece in content) else content
    # Without anything new the content stays unchanged, to its last space.
    return "\n".join(filter(None, (survivor["content"], *added))) if added else str(survivor["content"])


def repeats_sentences(survivor: Row, source: Row) -> bool:
    """Return whether a sentence that only the source has is nearly one of the survivor's.

    Joined, they would say it twice. True too where there are too many sentences to compare.
    """
    known = [words(piece) for piece in (*_split_text(survivor["task"]), *_split_text(survivor["content"]))]
    said = set(map(_fold_sentence, (*_split_text(survivor["task"]), *_split_text(survivor["content"]))))
    new = [words(piece) for text in (source["task"], source["content"]) for piece in _find_new(text, said)]
    if len(new) * len(known) > _MAX_COMPARED:
        return True
    return any(len(own & other) >= _REPEATED_SHARE * min(len(own), len(other)) > 0 for own in new for other in known)


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
        "helpful_history": _merge_by_time((item["helpful_history"] for item in every), HISTORY_SHOWN),
        "harmful_history": _merge_by_time((item["harmful_history"] for item in every), HISTORY_SHOWN),
    }
    joined.pop("effective", None)
    if votes := _merge_by_time(map(list_votes, every), VOTES_STORED):
        joined["votes"] = votes
    if kept_words := [words for item in every for words in item.get("kept_words", ())]:
        joined["kept_words"] = kept_words[-MAX_KEPT_WORDS:]
    if weak := [item["weak"] for item in every if "weak" in item]:
        joined["weak"] = {name: sum(counts[name] for counts in weak) for name in weak[0]}
    return {**joined, "confidence": update_confidence(survivor, joined, now)}


def _split_text(text: str) -> list[str]:
    # White space before a line is its indentation.
    return [piece for piece in map(str.rstrip, _END.split(text.strip())) if piece]


def _fold_sentence(piece: str) -> str:
    """Return a sentence without its punctuation. A mark within a word counts, as in `v1.2` and `a:b`."""
    return _PUNCTUATION.sub("", normalize_width(piece))


def _find_new(text: str, known: set[str]) -> list[str]:
    """Return the pieces of a text that are new, and add them to `known`."""
    found: list[str] = []
    for piece in _split_text(text):
        said = _fold_sentence(piece)
        if said not in known:
            known.add(said)
            found.append(piece)
    return found


def _merge_by_time(lists: Iterable[Sequence[Mapping[str, Any]]], most: int) -> list[Mapping[str, Any]]:
    """Return the newest cases or votes of all lists. Imported ones may have no time; they come first."""
    return sorted(chain(*lists), key=lambda item: item.get("timestamp") or "")[-most:]


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
