"""What saving, editing and linking do to the rows of infos and links, with no store and no clock."""

from typing import Any

import pytest

from knowhub.core.errors import Forbidden, InvalidInput
from knowhub.core.operation import Row
from knowhub.keywords import info_rules
from knowhub.keywords.model import NewInfo, RelationType
from tests.builders import START, caller, local

LATER = START + 60
ANN = caller(user_id="ann")


def info_row(content: str = "冒泡排序是稳定的", **fields: Any) -> Row:  # noqa: ANN401 -- any field
    return info_rules.new_info_row(NewInfo(content, **fields), "i-1", START, ANN)


def link_row(relation: RelationType = RelationType.PRIMARY, before: Row | None = None, now: float = START) -> Row:
    return info_rules.new_link_row("i-1", "k-1", relation, "user", before, now)


def test_a_new_info_has_every_documented_field_and_is_for_everybody() -> None:
    row = info_row(source="https://example.com", metadata={"page": 3})

    assert row == {
        "id": "i-1",
        "content": "冒泡排序是稳定的",
        "source": "https://example.com",
        "metadata": {"page": 3},
        "scopes": ["public"],
        "owner": "user:ann",
        "version": 1,
        "created_at": "2026-03-05T12:00:00.000Z",
        "updated_at": "2026-03-05T12:00:00.000Z",
    }


def test_an_info_keeps_the_scopes_that_it_is_given_each_once() -> None:
    row = info_row(scopes=["team:web", "user:owner", "team:web"])

    assert row["scopes"] == ["team:web", "user:owner"]


def test_a_named_caller_saves_no_info_for_somebody_else() -> None:
    with pytest.raises(Forbidden, match="user:bob"):
        info_row(owner="user:bob")

    assert info_row(owner="user:ann")["owner"] == "user:ann"
    assert info_rules.new_info_row(NewInfo("x", owner="user:bob"), "i", START, local())["owner"] == "user:bob"


def test_a_source_of_the_greatest_length_is_taken() -> None:
    assert info_row(source="s" * 2_048)["source"] == "s" * 2_048


def test_a_patch_changes_what_it_names_and_moves_version_and_time() -> None:
    before = info_row(metadata={"a": 1})

    after = info_rules.apply_info_patch(
        before, {"content": "new", "metadata": {"b": 2}, "scopes": ["team:web", "team:web"]}, LATER
    )

    assert after == {
        **before,
        "content": "new",
        "metadata": {"b": 2},
        "scopes": ["team:web"],
        "version": 2,
        "updated_at": "2026-03-05T12:01:00.000Z",
    }


@pytest.mark.parametrize("name", ["owner", "id", "version", "deleted", "colour"])
def test_a_patch_sets_no_field_but_the_four(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        info_rules.apply_info_patch(info_row(), {name: "x"}, LATER)

    assert refused.value.errors[0].field == name


def test_a_new_link_has_every_documented_field() -> None:
    assert link_row(RelationType.EXAMPLE) == {
        "info_id": "i-1",
        "keyword_id": "k-1",
        "relation": "EXAMPLE",
        "created_by": "user",
        "version": 1,
        "created_at": "2026-03-05T12:00:00.000Z",
        "updated_at": "2026-03-05T12:00:00.000Z",
    }


@pytest.mark.parametrize("created_by", ["", "  ", "x" * 201])
def test_a_link_names_its_maker(created_by: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        info_rules.new_link_row("i", "k", RelationType.PRIMARY, created_by, None, START)

    assert refused.value.errors[0].field == "created_by"


def test_undo_leaves_no_info_that_says_nothing() -> None:
    with pytest.raises(InvalidInput):
        info_rules.validate(lambda _collection, _row_id: None, [{"content": " "}])
