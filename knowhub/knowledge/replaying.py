"""What a model's answers about records decide, so that recorded ones can be asked again: extract, evolve and merge."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowhub.core.asking import MAX_RECORDED_TEXT, recordable
from knowhub.core.messages import Message
from knowhub.core.operation import Row
from knowhub.core.replaying import UNUSABLE, Replayable, Shown
from knowhub.knowledge import evolution, extraction_answers, extraction_prompts, prompts, slim_asking
from knowhub.knowledge.extraction_model import Candidate
from knowhub.knowledge.slim_losses import lost_facts


def _extracted(answer: Mapping[str, Any], shown: Shown) -> Row:
    """Tell what is kept: of each item its kind, the messages that it cites and the record that it points at."""
    messages = {
        one["idx"]: Message(str(one.get("role")), str(one.get("text")))
        for one in _objects(shown.data.get("messages"))
        if isinstance(one.get("idx"), int)
    }
    # As the log keeps it: of a long answer it holds the beginning.
    read = extraction_answers.read(recordable(answer), messages, shown.choices)
    if read is None:
        return UNUSABLE
    candidates, rejected = read
    return {"candidates": sorted(map(_candidate, candidates), key=str)} | (
        {"rejected": len(rejected)} if rejected else {}
    )


def _candidate(one: Candidate) -> list[Any]:
    *others, decisive = one.cited
    pointed = [[name, row_id] for name, row_id in (("same_as", one.same_as), ("against", one.against)) if row_id]
    return [*one.types, one.category.value, [*sorted(others), decisive], *pointed]


def _evolved(answer: Mapping[str, Any], shown: Shown) -> Row:
    """Tell whether the content changes, and which of its facts the new one leaves out."""
    before = _text(shown.data, "content")
    read = evolution.read(answer, before)
    if read is None:
        return UNUSABLE
    after, _ = read
    if after[:MAX_RECORDED_TEXT] == before[:MAX_RECORDED_TEXT]:
        return {"changes": False}
    return {"changes": True, **_left_out([before], after)}


def _merged(answer: Mapping[str, Any], shown: Shown) -> Row:
    """Tell which records are one, and which of their facts the one text leaves out."""
    read = slim_asking.read(answer, shown.choices)
    if read is None:
        return UNUSABLE
    same, text = read
    if not same:
        return {"same": []}
    ids = shown.choices.by_idx
    records = [one for one in _objects(shown.data.get("records")) if ids.get(str(one.get("idx"))) in same]
    before = ["\n".join(filter(None, (_text(one, "task"), _text(one, "content")))) for one in records]
    return {"same": sorted(same), **_left_out(before, "\n".join(text), is_whole=len(text[1]) < MAX_RECORDED_TEXT)}


def _left_out(before: Sequence[str], after: str, *, is_whole: bool | None = None) -> dict[str, Any]:
    # Of a long text the log holds the beginning: what that leaves out may stand behind it.
    if not (len(after) < MAX_RECORDED_TEXT if is_whole is None else is_whole):
        return {}
    lost = lost_facts(before, after)
    return {"leaves_out": sorted(lost)} if lost else {}


def _unbroken(meaning: Callable[[Mapping[str, Any], Shown], Row]) -> Callable[[Mapping[str, Any], Shown], Row]:
    def safe(answer: Mapping[str, Any], shown: Shown) -> Row:
        try:
            return meaning(answer, shown)
        except UnicodeEncodeError:
            # A lone half of a surrogate pair: text that no record can hold.
            return UNUSABLE

    return safe


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


REPLAYED: Mapping[str, Replayable] = {
    extraction_prompts.EXTRACT_KNOWLEDGE: Replayable(
        extraction_prompts.SCHEMA,
        _extracted,
        lambda answer: "\n".join(filter(None, (_text(one, "content") for one in _objects(answer.get("candidates"))))),
    ),
    prompts.EVOLVE: Replayable(
        prompts.SCHEMAS[prompts.EVOLVE], _unbroken(_evolved), lambda answer: _text(answer, "content")
    ),
    prompts.MERGE: Replayable(
        prompts.SCHEMAS[prompts.MERGE], _unbroken(_merged), lambda answer: _text(answer, "content")
    ),
}
