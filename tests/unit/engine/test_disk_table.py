"""Infos and links by number: linked, linked anew, unlinked, made again, thousands at once, and decided over them."""

import random
from typing import Any

import orjson
import pytest

from knowhub.core.operation import View
from knowhub.engine.view import AccountView, Overlay
from knowhub.keywords.model import INFOS, LINKS, InfoQuery, InfoSort, RelationType
from knowhub.keywords.tree import BY_INFO, INFO_TABLE, find_info, list_infos_of_keyword
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import OWNER
from tests.fakes.account_rows import AccountRows
from tests.keyword_rows import info_row, link_row

RELEVANCE = InfoQuery(sort=InfoSort.RELEVANCE)


class LinkedAccount:
    """An account with infos and links."""

    def __init__(self, *info_ids: str) -> None:
        self.stored = AccountRows()
        self.infos(*(info_row(info_id) for info_id in info_ids))

    @property
    def view(self) -> View:
        return self.stored.view

    def infos(self, *rows: dict[str, object]) -> None:
        self.stored.load(INFOS, *rows)

    def links(self, *rows: dict[str, object]) -> None:
        self.stored.load(LINKS, *rows)

    def of_keyword(self, keyword_id: str, query: InfoQuery | None = None) -> list[str]:
        return [summary.id for summary in list_infos_of_keyword(self.view, keyword_id, query or InfoQuery())]

    def of_info(self, info_id: str) -> dict[str, str]:
        return {link.keyword_id: link.relation.value for link in self.view.lookup(BY_INFO, info_id)}


def overlay_rows(linked: LinkedAccount, *rows: dict[str, Any]) -> View:
    overlay = Overlay(linked.stored.account)
    for row in rows:
        collection = LINKS if "relation" in row else INFOS
        overlay.put(collection, COLLECTIONS[collection].id_of(row), row, orjson.dumps(row), 0)
    return AccountView(overlay, now=0.0)


def test_a_recreated_link_is_ordered_by_the_age_of_its_info() -> None:
    linked = LinkedAccount("a", "b", "c")
    linked.links(*(link_row(info_id, "k") for info_id in "abc"))
    linked.links(link_row("b", "k", version=2, deleted=True))

    linked.links(link_row("b", "k", "EXAMPLE", version=3))

    assert linked.of_keyword("k") == ["c", "b", "a"]
    assert linked.of_info("b") == {"k": "EXAMPLE"}


def test_the_last_row_of_a_pair_in_an_operation_wins() -> None:
    linked = LinkedAccount("a")
    last = link_row("a", "k", "SOURCE", version=3)

    linked.links(link_row("a", "k"), link_row("a", "k", version=2, deleted=True), link_row("a", "other"), last)

    assert linked.of_info("a") == {"k": "SOURCE", "other": "PRIMARY"}
    assert linked.of_keyword("k") == ["a"]
    assert orjson.loads(linked.view.raw(LINKS, "a:k") or b"") == last
    assert orjson.loads(linked.view.raw(LINKS, "a:other") or b"") == link_row("a", "other")


def test_an_operation_may_hold_new_known_and_repeated_infos() -> None:
    linked = LinkedAccount("a")

    linked.infos(
        info_row("b"), info_row("a", version=2, scopes=["team:web"]), info_row("b", version=2, content="later")
    )

    assert [summary.id for summary in linked.view.newest(INFO_TABLE, None)] == ["b", "a"]
    assert orjson.loads(linked.view.raw(INFOS, "b") or b"")["content"] == "later"
    summary = find_info(linked.view, "a")
    assert summary is not None
    assert summary.audience == {OWNER, "team:web"}


def test_a_link_to_a_lost_info_is_still_read() -> None:
    linked = LinkedAccount()

    linked.links(link_row("lost", "k"))

    summary = find_info(linked.view, "lost")
    assert summary is not None
    assert not summary.live
    assert linked.view.raw(INFOS, "lost") is None
    assert list(linked.view.newest(INFO_TABLE, None)) == []
    assert orjson.loads(linked.view.raw(LINKS, "lost:k") or b"") == link_row("lost", "k")


def test_thousands_of_infos_and_links_in_a_random_order_are_all_found_again() -> None:
    order = random.Random(7)
    ids = [f"info-{number}" for number in range(3_000)]
    linked = LinkedAccount(*ids)
    stands: dict[tuple[str, str], str] = {}
    for version in range(1, 9_000):
        pair = order.choice(ids), f"k{order.randrange(7)}"
        relation = order.choice(list(RelationType)).value
        fields: dict[str, Any] = {"deleted": True} if stands.pop(pair, None) and order.random() < 0.5 else {}
        linked.links(link_row(*pair, relation, version=version, **fields))
        if not fields:
            stands[pair] = relation

    for keyword_id in (f"k{number}" for number in range(7)):
        expected = [info_id for info_id in reversed(ids) if (info_id, keyword_id) in stands]
        assert linked.of_keyword(keyword_id) == expected
        for relation in RelationType:
            chosen = [info_id for info_id in expected if stands[info_id, keyword_id] == relation]
            assert linked.of_keyword(keyword_id, InfoQuery(relation)) == chosen
    assert {
        (info_id, keyword_id): relation for info_id in ids for keyword_id, relation in linked.of_info(info_id).items()
    } == stands


@pytest.mark.parametrize("changed_before", [0, 1, 2])
def test_a_decided_info_has_the_ordinal_that_it_will_have(changed_before: int) -> None:
    linked = LinkedAccount("a", "b", "c")
    changed = [info_row(info_id, version=2) for info_id in "abc"[:changed_before]]

    view = overlay_rows(linked, *changed, info_row("d"), info_row("e"), info_row("d", version=2))

    linked.infos(info_row("d"), info_row("e"))
    summaries = [[find_info(seen, info_id) for info_id in "de"] for seen in (view, linked.view)]
    assert [summary and summary.ordinal for summary in summaries[0]] == [
        summary and summary.ordinal for summary in summaries[1]
    ]
