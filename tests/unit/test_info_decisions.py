"""What saving, editing and linking do to the rows of infos and links, with no store and no clock."""

from collections.abc import Mapping
from typing import Any

import pytest

from knowhub.core.errors import Forbidden, InvalidInput
from knowhub.core.operation import Row
from knowhub.keywords import info_decisions
from knowhub.keywords.info_decisions import INFO_RULES, LINK_RULES
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, NewInfo, RelationType
from tests.builders import START, caller, local

LATER = START + 60
ANN = caller(user_id="ann")


def info_row(content: str = "冒泡排序是稳定的", **fields: Any) -> Row:  # noqa: ANN401 -- any field
    return info_decisions.new_info_row(NewInfo(content, **fields), "i-1", START, ANN)


def link_row(relation: RelationType = RelationType.PRIMARY, before: Row | None = None, now: float = START) -> Row:
    return info_decisions.new_link_row("i-1", "k-1", relation, "user", before, now)


def test_a_new_info_has_every_field_of_the_seed_and_is_for_everybody() -> None:
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
    assert info_decisions.new_info_row(NewInfo("x", owner="user:bob"), "i", START, local())["owner"] == "user:bob"


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"content": ""}, "content"), ({"content": " \n\u3000"}, "content"), ({"source": "s" * 2_049}, "source")],
)
def test_an_info_that_cannot_stand_is_refused_by_the_name_of_its_field(fields: Mapping[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as when_new:
        info_row(**fields)
    with pytest.raises(InvalidInput) as when_patched:
        info_decisions.patched_info(info_row(), fields, LATER)

    assert [error.field for error in when_new.value.errors] == [field]
    assert [error.field for error in when_patched.value.errors] == [field]


def test_a_source_of_the_greatest_length_is_taken() -> None:
    assert info_row(source="s" * 2_048)["source"] == "s" * 2_048


def test_a_patch_changes_what_it_names_and_moves_version_and_time() -> None:
    before = info_row(metadata={"a": 1})

    after = info_decisions.patched_info(
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


def test_a_patch_that_changes_nothing_makes_no_row() -> None:
    row = info_row(source="s")

    assert (
        info_decisions.patched_info(row, {"content": row["content"], "source": "s", "scopes": ["public"]}, LATER)
        is None
    )
    assert info_decisions.patched_info(row, {}, LATER) is None


@pytest.mark.parametrize("name", ["owner", "id", "version", "deleted", "colour"])
def test_a_patch_sets_no_field_but_the_four(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        info_decisions.patched_info(info_row(), {name: "x"}, LATER)

    assert refused.value.errors[0].field == name


def test_a_tombstone_keeps_what_it_buries() -> None:
    info, link = info_row(), link_row()

    assert info_decisions.deleted_info(info, LATER) == {
        **info,
        "deleted": True,
        "version": 2,
        "updated_at": "2026-03-05T12:01:00.000Z",
    }
    assert info_decisions.unlinked(link, LATER) == {
        **link,
        "deleted": True,
        "version": 2,
        "updated_at": "2026-03-05T12:01:00.000Z",
    }


def test_a_new_link_has_every_field_of_the_seed() -> None:
    assert link_row(RelationType.EXAMPLE) == {
        "info_id": "i-1",
        "keyword_id": "k-1",
        "relation": "EXAMPLE",
        "created_by": "user",
        "version": 1,
        "created_at": "2026-03-05T12:00:00.000Z",
        "updated_at": "2026-03-05T12:00:00.000Z",
    }


def test_linking_again_replaces_the_relation_and_keeps_when_the_link_was_made() -> None:
    again = link_row(RelationType.SOURCE, before=link_row(), now=LATER)

    assert (again["relation"], again["version"]) == ("SOURCE", 2)
    assert (again["created_at"], again["updated_at"]) == ("2026-03-05T12:00:00.000Z", "2026-03-05T12:01:00.000Z")


def test_a_pair_that_was_unlinked_begins_anew_with_a_higher_version() -> None:
    gone = info_decisions.unlinked(link_row(), START + 30)

    again = link_row(before=gone, now=LATER)

    assert (again["version"], again["created_at"]) == (3, "2026-03-05T12:01:00.000Z")
    assert "deleted" not in again


@pytest.mark.parametrize("created_by", ["", "  ", "x" * 201])
def test_a_link_names_its_maker(created_by: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        info_decisions.new_link_row("i", "k", RelationType.PRIMARY, created_by, None, START)

    assert refused.value.errors[0].field == "created_by"


def test_rows_are_written_under_their_ids() -> None:
    info, link = info_decisions.write_info(info_row()), info_decisions.write_link(link_row())

    assert (info.collection, info.id, info.after["id"]) == (INFOS, "i-1", "i-1")
    assert (link.collection, link.id, link.after["relation"]) == (LINKS, "i-1:k-1", "PRIMARY")


def test_undo_brings_no_info_to_stand_that_says_nothing() -> None:
    assert INFO_RULES.check is not None

    with pytest.raises(InvalidInput):
        INFO_RULES.check({"content": " "})


def test_a_link_refers_to_its_info_first_and_its_keyword_next() -> None:
    assert LINK_RULES.references(link_row()) == [(INFOS, "i-1"), (KEYWORDS, "k-1")]


@pytest.mark.parametrize(
    ("info", "keyword", "in_the_way"),
    [
        ({"version": 1}, {"version": 1}, []),
        (None, {"version": 1}, [(INFOS, "i-1")]),
        ({"version": 2, "deleted": True}, {"version": 1}, [(INFOS, "i-1")]),
        ({"version": 1}, {"version": 2, "deleted": True}, [(KEYWORDS, "k-1")]),
        (None, None, [(INFOS, "i-1"), (KEYWORDS, "k-1")]),
    ],
)
def test_a_link_comes_to_stand_only_between_two_that_stand(
    info: Row | None, keyword: Row | None, in_the_way: list[tuple[str, str]]
) -> None:
    rows = {(INFOS, "i-1"): info, (KEYWORDS, "k-1"): keyword}

    found = LINK_RULES.obstacles(lambda collection, row_id: rows[collection, row_id], [link_row()])

    assert found == in_the_way


def test_a_link_to_the_root_needs_no_row_of_it() -> None:
    row = info_decisions.new_link_row("i-1", ROOT_ID, RelationType.PRIMARY, "user", None, START)

    assert LINK_RULES.obstacles(lambda collection, _: {"version": 1} if collection == INFOS else None, [row]) == []
