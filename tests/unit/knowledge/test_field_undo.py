"""Undo of one change, field by field: votes merge, and later changes of the same field block it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.collection import UndoneRow, flatten
from knowhub.core.operation import Change, Row
from knowhub.knowledge import evidence, record_rules
from knowhub.knowledge.collections import KNOWLEDGE_COLLECTION
from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.operations.field_undo import BlockedRow, undo_change
from tests.builders import START, knowledge_row

LATER = START + 60
HELPFUL, HARMFUL = Feedback(helpful_case={"task": "t"}), Feedback(harmful_case={"task": "t"})


def make_change(before: Row | None, after: Row) -> Change:
    return Change(KNOWLEDGE, str(after["id"]), before, after)


def undo(before: Row | None, after: Row, current: Row) -> Row:
    done = make_change(before, after)
    result = undo_change(done, current, KNOWLEDGE_COLLECTION, LATER)
    assert not isinstance(result, BlockedRow)
    for computed in KNOWLEDGE_COLLECTION.computed:
        result = computed.recompute(UndoneRow(done, result, lambda _collection, _row_id: current, {}))
    return result


def blocking_fields(before: Row | None, after: Row, current: Row) -> list[str]:
    result = undo_change(make_change(before, after), current, KNOWLEDGE_COLLECTION, LATER)
    assert isinstance(result, BlockedRow)
    return sorted(".".join(path) for path in result.fields)


def edit(row: Row, **fields: object) -> Row:
    after = record_rules.apply_patch(row, fields, START)
    assert after is not None
    return after


def vote(row: Row, feedback: Feedback = HELPFUL) -> Row:
    return evidence.with_feedback(row, feedback, START)


def test_the_first_vote_can_be_undone_after_later_votes() -> None:
    before = knowledge_row("a")
    after = vote(before, HARMFUL)
    current = vote(after)

    evaluation = undo(before, after, current)["eval"]

    assert (evaluation["helpful"], evaluation["harmful"]) == (2, 0)
    assert [vote["kind"] for vote in evaluation["votes"]] == ["helpful"]
    assert evaluation["confidence"] > 0.5


def test_restored_fields_stand_where_they_stood() -> None:
    before = knowledge_row("a")
    after = edit(before, task="another", content="another")

    assert list(undo(before, after, after)) == list(before)


def test_an_object_added_by_the_change_is_removed() -> None:
    before = knowledge_row("a")
    after = before | {"routing": {"skill": "x"}, "version": 2}

    assert "routing" not in undo(before, after, after)


TAGS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y"]), max_size=3)


@given(TAGS, TAGS, TAGS)
def test_an_undo_removes_its_entries_or_names_blocking_fields(
    first: dict[str, str], two: dict[str, str], three: dict[str, str]
) -> None:
    before = knowledge_row("a", tags=first)
    after, current = before | {"tags": two, "version": 2}, before | {"tags": three, "version": 3}
    moved = {name for name in "abc" if first.get(name) != two.get(name)}

    result = undo_change(make_change(before, after), current, KNOWLEDGE_COLLECTION, LATER)

    if any(three.get(name) != two.get(name) for name in moved):
        assert isinstance(result, BlockedRow)
    if isinstance(result, BlockedRow):
        assert two != three
    else:
        expected = {name: (first if name in moved else three).get(name) for name in "abc"}
        assert result["tags"] == {name: value for name, value in expected.items() if value is not None}


def tag_row(row: Row, source: object) -> Row:
    return {**row, "tags": source, "version": row["version"] + 1}


@pytest.mark.parametrize(
    ("before", "after", "now", "in_the_way"),
    [
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, ["tags.a.y"], id="an entry below a value"),
        pytest.param({"a": {"x": 1, "z": 3}}, {"a": {"z": 3}}, {"a": 7}, ["tags.a"], id="a value above an entry"),
        pytest.param(
            {"a": None}, {"a": {"x": {"y": 1}}}, {"a": {"x": {"z": 1}}}, ["tags.a.x.y", "tags.a.x.z"], id="deep"
        ),
        pytest.param({"a": [1]}, {"b": 2}, {"b": 2, "a": {"x": 1}}, ["tags.a.x"], id="where a list was"),
    ],
)
def test_a_later_change_of_the_same_place_blocks_an_undo(
    before: object, after: object, now: object, in_the_way: list[str]
) -> None:
    row = knowledge_row("a")

    fields = blocking_fields(tag_row(row, before), tag_row(row, after), tag_row(row, now))

    assert [field for field in fields if field in in_the_way] == in_the_way


@pytest.mark.parametrize(
    ("before", "after", "now", "then"),
    [
        pytest.param({}, {"x": 1}, {"x": 1, "y": 2}, {"y": 2}, id="beside an added entry"),
        pytest.param({"a": {}}, {"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, id="in an empty object"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}, "b": 2}, {"a": 1, "b": 2}, id="beside the place"),
    ],
)
def test_later_changes_beside_a_place_are_kept(before: object, after: object, now: object, then: object) -> None:
    row = knowledge_row("a")

    assert undo(tag_row(row, before), tag_row(row, after), tag_row(row, now))["tags"] == then


LEAVES = st.sampled_from([1, 2, None, "x"])
OBJECTS = st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2), max_leaves=4)
ROWS = st.dictionaries(st.sampled_from("ab"), OBJECTS, max_size=2)


@given(before=ROWS, after=ROWS, now=ROWS)
def test_an_undo_keeps_all_later_changes_or_is_blocked(before: Row, after: Row, now: Row) -> None:
    row = knowledge_row("a")

    result = undo_change(
        make_change(tag_row(row, before), tag_row(row, after)), tag_row(row, now), KNOWLEDGE_COLLECTION, LATER
    )

    if not isinstance(result, BlockedRow):
        done, was, own = (flatten({"tags": item}) for item in (now, after, result["tags"]))
        assert {
            path: value for path, value in done.items() if was.get(path) != value and value != {}
        }.items() <= own.items()
