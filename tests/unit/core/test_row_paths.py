"""A row as a flat map of paths, for comparing and merging field by field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.collection import differences, flatten, list_changed_paths, unflatten

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
ROWS = st.dictionaries(
    st.text(max_size=3),
    st.recursive(LEAVES, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8),
    max_size=4,
)


@given(ROWS)
def test_a_row_comes_back_from_its_paths(row: dict[str, Any]) -> None:
    assert unflatten(flatten(row)) == row


@given(ROWS, ROWS)
def test_paths_that_changed_lead_from_one_row_to_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = flatten(one), flatten(other)

    changed = list_changed_paths(before, after)

    untouched = {path: value for path, value in before.items() if path not in changed}
    moved = {path: after[path] for path in changed if path in after}
    skipped = {("version",), ("updated_at",)}
    assert {path: value for path, value in (untouched | moved).items() if path not in skipped} == {
        path: value for path, value in after.items() if path not in skipped
    }


def test_differences_are_told_by_field_and_without_bookkeeping() -> None:
    before = {"a": 1, "eval": {"score": 3, "helpful": 1}, "version": 1, "updated_at": "x"}
    after = {"a": 1, "eval": {"score": 4, "helpful": 1}, "version": 2, "updated_at": "y", "b": []}

    assert differences(before, after) == {
        "eval.score": {"before": 3, "after": 4},
        "b": {"before": None, "after": []},
    }
    assert differences(None, {"a": None}) == {"a": {"before": None, "after": None}}


def test_an_object_that_was_empty_and_one_that_has_entries_go_together() -> None:
    assert unflatten({("tags",): {}, ("tags", "a"): "b"}) == {"tags": {"a": "b"}}
    assert unflatten({("tags", "a"): "b", ("tags",): {}}) == {"tags": {"a": "b"}}


def test_putting_a_row_together_changes_nothing_that_it_was_made_of() -> None:
    row: dict[str, Any] = {"tags": {}}

    assert unflatten(flatten(row) | {("tags", "a"): "b"}) == {"tags": {"a": "b"}}
    assert row == {"tags": {}}
