"""What a restore writes for one row: nothing where it stands, never an older version, never what was erased."""

from typing import Any

import pytest

from knowhub.core.collection import Key
from knowhub.core.operation import Row
from knowhub.core.store_results import SnapshotRow, differs
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS
from knowhub.operations.snapshots import reattach_row, restore_row
from knowhub.wiring.collections import COLLECTIONS

NOW = 1_772_712_000.0


def row(content: str = "zebra", version: int = 1, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    return {"id": "a", "content": content, "version": version, "updated_at": "then", **fields}


GONE = row(deleted=True)


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (row(), row(), False),
        (row(), row(version=7, updated_at="later"), False),
        (row(), row("lion"), True),
        (row(), GONE, True),
        (row(), None, True),
        (GONE, row(), True),
        (None, row(), True),
        (GONE, row("lion", deleted=True), False),
        (None, GONE, False),
        (GONE, None, False),
        (row(), row(more=None), True),
    ],
)
def test_rows_differ_in_what_they_say_and_in_nothing_else(then: Row | None, now: Row | None, expected: bool) -> None:
    assert differs(then, now) is expected


def test_what_was_changed_stands_again_under_a_version_above_both() -> None:
    written = restore_row(row(version=3), row("lion", version=5), NOW)
    older = restore_row(row(version=9), row("lion", version=5), NOW)

    assert written == row(version=6, updated_at="2026-03-05T12:00:00.000Z")
    assert older is not None
    assert older["version"] == 10


def test_what_was_deleted_stands_again_and_what_was_made_becomes_a_tombstone() -> None:
    back = restore_row(row(), row(version=4, deleted=True), NOW)
    gone = restore_row(None, row("made since", version=2), NOW)
    new = restore_row(row(version=2), None, NOW)

    assert back == row(version=5, updated_at="2026-03-05T12:00:00.000Z")
    assert gone == row("made since", version=3, updated_at="2026-03-05T12:00:00.000Z", deleted=True)
    assert new == row(version=3, updated_at="2026-03-05T12:00:00.000Z")


@pytest.mark.parametrize("then", [None, row(), row("lion")])
def test_what_was_erased_stays_erased(then: Row | None) -> None:
    assert restore_row(then, {**GONE, "erased": True}, NOW) is None


def keyword(keyword_id: str, parent_id: str | None) -> SnapshotRow:
    return SnapshotRow(KEYWORDS, keyword_id, {"id": keyword_id, "parent_id": parent_id})


def erased_alone(*keys: Key) -> Any:  # noqa: ANN401 -- what looks a row up
    return lambda *key: {"deleted": True, "erased": True} if key in keys else {"id": key[1]}


def test_a_keyword_hangs_on_the_next_one_above_that_was_not_erased() -> None:
    tree = {one.key: one for one in (keyword("a", "root"), keyword("b", "a"), keyword("c", "b"))}

    found = reattach_row(keyword("c", "b"), tree, erased_alone((KEYWORDS, "a"), (KEYWORDS, "b")), COLLECTIONS[KEYWORDS])

    assert found.row == {"id": "c", "parent_id": "root"}
    untouched = keyword("c", "b")
    assert reattach_row(untouched, tree, erased_alone(), COLLECTIONS[KEYWORDS]) is untouched


@pytest.mark.parametrize("end", [(INFOS, "i"), (KEYWORDS, "k")])
def test_a_link_to_what_was_erased_is_not_wanted_any_more(end: Key) -> None:
    link = SnapshotRow(LINKS, "i:k", {"info_id": "i", "keyword_id": "k"})

    assert reattach_row(link, {link.key: link}, erased_alone(end), COLLECTIONS[LINKS]).row is None
    assert reattach_row(link, {link.key: link}, erased_alone(), COLLECTIONS[LINKS]) is link
