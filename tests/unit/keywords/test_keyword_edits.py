"""Changes of several rows at once: what is written, in which order, and what is refused without a write."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from knowhub.core.errors import Conflict
from knowhub.core.operation import Draft, Write, make_tombstone
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, info_rules
from knowhub.keywords.model import LINKS, InfoPolicy, RelationType, make_link_id
from knowhub.keywords.tree import find_info
from tests.builders import local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.plain_text import PlainText

PRIMARY, EXAMPLE, RELATED = RelationType.PRIMARY, RelationType.EXAMPLE, RelationType.RELATED


@pytest.fixture
def view() -> FakeKeywordView:
    return tree_of({"语言": {"Python": {"FastAPI": {}, "Django": {}}, "Go": {}}, "算法": {}})


def link(view: FakeKeywordView, info_id: str, name: str, relation: RelationType = PRIMARY) -> str:
    """Link an info, made when it is not there, and return the id of the link's row."""
    if find_info(view, info_id) is None:
        view.put_info(info_id)
    keyword_id = view.id_of(name)
    view.put_link(info_rules.make_link_row(info_id, keyword_id, relation, "agent", None, view.now))
    return make_link_id(info_id, keyword_id)


def delete_subtree(
    view: FakeKeywordView,
    name: str,
    policy: InfoPolicy = InfoPolicy.REATTACH,
    ctx: RequestContext | None = None,
    *,
    cascade: bool = False,
) -> Draft:
    return edits.delete_subtree(view, ctx or local(), view.id_of(name), policy, cascade=cascade)


def rows_by_id(writes: Sequence[Write], collection: str) -> dict[str, Mapping[str, Any]]:
    found = {write.id: write.after for write in writes if write.collection == collection}
    assert len(found) == sum(write.collection == collection for write in writes), "no row is written twice"
    return found


# merge


def test_a_restored_link_continues_its_versions(view: FakeKeywordView) -> None:
    link(view, "i-1", "Python", EXAMPLE)
    once = make_link_id("i-1", view.id_of("Go"))
    row = info_rules.make_link_row("i-1", view.id_of("Go"), PRIMARY, "user", None, 0.0)
    view.put_link(make_tombstone(row, 0.0))
    merged = edits.merge_keywords(view, local(), view.id_of("Python"), view.id_of("Go"), PlainText())

    links = rows_by_id(merged.writes, LINKS)

    assert (links[once]["version"], links[once]["relation"]) == (3, "EXAMPLE")
    assert "deleted" not in links[once]


# delete


def test_infos_of_deleted_keywords_move_to_the_parent_once(view: FakeKeywordView) -> None:
    language, python, fast_api = (view.id_of(name) for name in ("语言", "Python", "FastAPI"))
    link(view, "moves", "FastAPI", EXAMPLE)
    link(view, "twice", "Python", RELATED)
    link(view, "twice", "FastAPI", PRIMARY)
    link(view, "there", "Python")
    link(view, "there", "语言", RELATED)

    edit = delete_subtree(view, "Python", cascade=True)

    links = rows_by_id(edit.writes, LINKS)
    gone = {row_id for row_id, row in links.items() if row.get("deleted")}
    assert gone == {
        make_link_id(*pair) for pair in (("moves", fast_api), ("twice", python), ("twice", fast_api), ("there", python))
    }
    kept = {row_id: row["relation"] for row_id, row in links.items() if row_id not in gone}
    assert kept == {make_link_id("moves", language): "EXAMPLE", make_link_id("twice", language): "PRIMARY"}
    assert edit.reply is not None
    assert (edit.reply["links"], edit.reply["reattached_to"]) == ({"moved": 2, "dropped": 2}, language)


def test_forbid_names_up_to_twenty_infos_and_allows_empty_keywords(view: FakeKeywordView) -> None:
    for number in range(25):
        link(view, f"i-{number}", "FastAPI")

    with pytest.raises(Conflict) as refused:
        delete_subtree(view, "Python", InfoPolicy.FORBID, cascade=True)

    assert refused.value.extra == {"ids": [f"i-{number}" for number in range(20)]}
    assert len(delete_subtree(view, "Go", InfoPolicy.FORBID).writes) == 1
