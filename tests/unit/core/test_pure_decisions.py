"""The test mode that runs each decision twice finds decisions that are not pure."""

from typing import Any

import pytest

from knowhub.core.operation import Decide, Draft, Unchanged, Write
from knowhub.engine.view import AccountView
from tests.builders import CountedIds, FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.pure_decisions import run_twice


@pytest.fixture
def view() -> AccountView:
    return MemoryStore(FakeClock(), CountedIds()).view("default")


def save_draft(row_id: str, **reply: Any) -> Draft:  # noqa: ANN401 -- any value
    return Draft("save", [Write("notes", row_id, {"id": row_id, "version": 1})], reply=reply)


def make_counting_decision() -> Decide[AccountView]:
    counts = {"rows": 0}

    def decide(_view: AccountView) -> Draft:
        counts["rows"] += 1
        return save_draft("a", **counts)

    return decide


def make_remembering_decision() -> Decide[AccountView]:
    seen: list[str] = []

    def decide(_view: AccountView) -> Draft | Unchanged:
        if seen:
            return Unchanged()
        seen.append("a")
        return save_draft("a")

    return decide


@pytest.mark.parametrize("made", [make_counting_decision, make_remembering_decision])
def test_a_decision_with_a_counter_is_detected(view: AccountView, made: Any) -> None:  # noqa: ANN401 -- what makes one
    with pytest.raises(AssertionError, match="not pure"):
        run_twice(made(), view)


def test_mixed_up_ids_are_detected(view: AccountView) -> None:
    turns = iter(
        [("aaaa1111", "aaaa1111"), ("bbbb1111", "bbbb1111"), ("bbbb1111", "bbbb1111"), ("cccc1111", "dddd1111")]
    )

    def decide(_view: AccountView) -> Draft:
        row_id, named = next(turns)
        return save_draft(row_id, named=named)

    with pytest.raises(AssertionError, match="not pure"):
        run_twice(decide, view)
