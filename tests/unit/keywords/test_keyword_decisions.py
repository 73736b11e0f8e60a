"""How creating, editing and merging change the row of a keyword, without a store or a clock."""

from typing import Any

import pytest

from knowhub.core.errors import Conflict, InvalidInput, NotFound
from knowhub.core.operation import Row
from knowhub.keywords import keyword_rules, tree
from knowhub.keywords.model import ROOT_ID, NewKeyword
from tests.builders import START, caller
from tests.fakes.plain_text import PlainText

ANN, TEXT = caller(user_id="ann"), PlainText()
LATER = START + 60


def row_of(name: str = "Python", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    return keyword_rules.make_keyword_row(NewKeyword(name, **fields), ("k-1", ROOT_ID), ANN, TEXT, START)


def apply_patch(row: Row, **patch: object) -> Row | None:
    return keyword_rules.apply_patch(row, patch, TEXT, LATER)


def patch_row(row: Row, **patch: object) -> Row:
    after = apply_patch(row, **patch)
    assert after is not None
    return after


def test_a_name_that_is_sent_again_is_keyed_by_the_rules_of_today() -> None:
    old = row_of("Python") | {"normalized": ["PYTHON"], "pinyin": ["old"]}

    again = patch_row(old, name="Python")

    assert (again["normalized"], again["pinyin"], again["version"]) == (["python"], [], 2)
    assert apply_patch(again, name="Python") is None
    assert patch_row(old, description="a snake")["normalized"] == ["PYTHON"]


def test_aliases_equal_to_the_name_or_each_other_are_dropped() -> None:
    row = row_of("Python", aliases=["python", "py", "PY", "Python 3", "Python"])

    assert row["aliases"] == ["py", "Python 3"]
    assert row["normalized"] == ["python", "py", "python3"]


def test_renaming_replaces_only_the_keys_of_the_name() -> None:
    after = patch_row(row_of("Pyton", aliases=["py"]), name="算法", scopes=["team:web", "team:web"])

    assert (after["name"], after["normalized"], after["pinyin"]) == ("算法", ["算法", "py"], ["suanfa", "sf"])
    assert (after["scopes"], after["version"]) == (["team:web"], 2)
    assert (after["created_at"], after["updated_at"]) == ("2026-03-05T12:00:00.000Z", "2026-03-05T12:01:00.000Z")


def test_an_alias_that_a_keyword_has_stays_when_the_list_is_sent_again() -> None:
    row = keyword_rules.add_alias(row_of("Python"), "PYTHON", TEXT, START)
    assert row is not None

    after = patch_row(row, aliases=["PYTHON", "py"])

    assert after["aliases"] == ["PYTHON", "py"]
    assert after["normalized"] == ["python", "py"]


def test_renaming_to_an_alias_removes_that_alias() -> None:
    after = patch_row(row_of("JS", aliases=["JavaScript"]), name="JavaScript")

    assert (after["aliases"], after["normalized"]) == ([], ["javascript"])


def test_the_root_is_renamed_and_described_and_never_found() -> None:
    root = tree.make_root_row(START)

    after = patch_row(root, name="全部", description="everything", metadata={"a": 1}, aliases=[], scopes=["public"])

    assert (after["name"], after["description"], after["normalized"], after["terms"]) == ("全部", "everything", [], [])
    for patch in ({"aliases": ["all"]}, {"scopes": ["user:ann"]}):
        with pytest.raises(Conflict, match="root"):
            apply_patch(root, **patch)
    for name in (" ", "!!!", "x" * 201):
        with pytest.raises(InvalidInput, match="name"):
            apply_patch(root, name=name)


def test_another_spelling_is_added_once_as_an_alias() -> None:
    after = keyword_rules.add_alias(row_of("C"), "c", TEXT, LATER)

    assert after is not None
    assert (after["aliases"], after["normalized"], after["version"]) == (["c"], ["c"], 2)
    assert keyword_rules.add_alias(after, "c", TEXT, LATER) is None
    assert keyword_rules.add_alias(after, "C", TEXT, LATER) is None


def test_an_alias_is_removed_by_exact_spelling_or_normal_form() -> None:
    row = keyword_rules.add_alias(row_of("Python", aliases=["py", "snake"]), "PY", TEXT, START)
    assert row is not None

    exact = keyword_rules.remove_alias(row, "py", TEXT, LATER)
    alike = keyword_rules.remove_alias(row, " p-y ", TEXT, LATER)

    assert (exact["aliases"], exact["normalized"]) == (["snake", "PY"], ["python", "snake", "py"])
    assert (alike["aliases"], alike["normalized"]) == (["snake"], ["python", "snake"])
    for unknown in ("Python", "rust", "!!"):
        with pytest.raises(NotFound, match="alias"):
            keyword_rules.remove_alias(row, unknown, TEXT, LATER)


def test_a_merge_over_the_alias_limit_is_refused() -> None:
    full = row_of("A", aliases=[f"a{number}" for number in range(200)])

    with pytest.raises(Conflict) as refused:
        keyword_rules.merge_rows(full, row_of("B"), TEXT, LATER)

    assert refused.value.extra == {"id": "k-1"}


def test_metadata_is_64_levels_deep_at_most() -> None:
    def nested(levels: int) -> dict[str, Any]:
        return {"in": nested(levels - 1)} if levels > 1 else {}

    assert row_of("A", metadata=nested(64))["metadata"] == nested(64)
    with pytest.raises(InvalidInput, match="64 levels"):
        row_of("A", metadata=nested(65))


# undo


def test_undone_keywords_are_validated() -> None:
    keyword_rules.validate(lambda _collection, _row_id: None, [row_of(), tree.make_root_row()])

    for row in ({**row_of(), "normalized": []}, {**row_of(), "aliases": ["a"] * 201}):
        with pytest.raises(InvalidInput):
            keyword_rules.validate(lambda _collection, _row_id: None, [row])
