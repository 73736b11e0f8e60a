"""Infos and links by number: linked, linked anew, unlinked, made again, thousands at once, and decided over them."""

import random
from typing import Any

import orjson
import pytest

from knowhub.keywords.model import InfoQuery, InfoSort, RelationType
from knowhub.stores.files.log import sliced_line
from knowhub.stores.files.rows.info_catalog import InfoCatalog, PendingInfos
from tests.builders import OWNER
from tests.fakes.placed_log import PlacedLog
from tests.keyword_rows import info_row, link_row

RELEVANCE = InfoQuery(sort=InfoSort.RELEVANCE)


class Kept:
    """A catalog with the log that its rows stand in."""

    def __init__(self, *info_ids: str) -> None:
        self.log = PlacedLog()
        self.catalog = InfoCatalog(self.log.read)
        self.infos(*(info_row(info_id) for info_id in info_ids))

    def infos(self, *rows: dict[str, object]) -> None:
        self.catalog.put_infos(self.log.place(*rows, read=sliced_line.info_row))

    def links(self, *rows: dict[str, object]) -> None:
        self.catalog.put_links(self.log.place(*rows, read=sliced_line.link_row))

    def of_keyword(self, keyword_id: str, query: InfoQuery | None = None) -> list[str]:
        return [head.id for head in self.catalog.infos_of_keyword(keyword_id, query or InfoQuery())]

    def of_info(self, info_id: str) -> dict[str, str]:
        return {link.keyword_id: link.relation.value for link in self.catalog.links_of_info(info_id)}


def test_the_infos_of_a_keyword_come_newest_first_in_whatever_order_they_were_linked() -> None:
    kept = Kept("a", "b", "c", "d")

    kept.links(link_row("c", "k"), link_row("a", "k"))
    kept.links(link_row("d", "k"), link_row("b", "other"))

    assert kept.of_keyword("k") == ["d", "c", "a"]
    assert [link.info_id for link in kept.catalog.links_of_keyword("k")] == ["a", "c", "d"]
    assert kept.of_keyword("nobody") == []


def test_by_relevance_the_strongest_relation_comes_first_and_a_filter_keeps_one() -> None:
    kept = Kept("a", "b", "c", "d", "e")

    for info_id, relation in zip("abcde", ("RELATED", "PRIMARY", "SOURCE", "EXAMPLE", "PRIMARY"), strict=True):
        kept.links(link_row(info_id, "k", relation))

    assert kept.of_keyword("k", RELEVANCE) == ["e", "b", "d", "c", "a"]
    assert kept.of_keyword("k", InfoQuery(RelationType.PRIMARY)) == ["e", "b"]
    assert kept.of_keyword("k", InfoQuery(RelationType.RELATED, sort=InfoSort.RELEVANCE)) == ["a"]


def test_a_link_that_gets_another_relation_stands_once_and_under_the_new_one() -> None:
    kept = Kept("a", "b")
    kept.links(link_row("a", "k", "PRIMARY"), link_row("b", "k", "PRIMARY"))

    kept.links(link_row("a", "k", "SOURCE", version=2))

    assert kept.of_keyword("k") == ["b", "a"]
    assert kept.of_keyword("k", InfoQuery(RelationType.PRIMARY)) == ["b"]
    assert kept.of_info("a") == {"k": "SOURCE"}
    assert orjson.loads(kept.catalog.link_text("a", "k") or b"") == link_row("a", "k", "SOURCE", version=2)


def test_an_unlinked_info_is_nowhere_and_its_row_is_kept() -> None:
    kept = Kept("a", "b")
    kept.links(link_row("a", "k"), link_row("a", "other"), link_row("b", "k"))

    gone = link_row("a", "k", version=2, deleted=True)
    kept.links(gone)

    assert kept.of_keyword("k") == ["b"]
    assert kept.of_info("a") == {"other": "PRIMARY"}
    assert orjson.loads(kept.catalog.link_text("a", "k") or b"") == gone


def test_a_link_made_again_takes_its_place_by_the_age_of_its_info() -> None:
    kept = Kept("a", "b", "c")
    kept.links(*(link_row(info_id, "k") for info_id in "abc"))
    kept.links(link_row("b", "k", version=2, deleted=True))

    kept.links(link_row("b", "k", "EXAMPLE", version=3))

    assert kept.of_keyword("k") == ["c", "b", "a"]
    assert kept.of_info("b") == {"k": "EXAMPLE"}


def test_rows_of_one_pair_in_one_operation_leave_the_last_of_them() -> None:
    kept = Kept("a")
    last = link_row("a", "k", "SOURCE", version=3)

    kept.links(link_row("a", "k"), link_row("a", "k", version=2, deleted=True), link_row("a", "other"), last)

    assert kept.of_info("a") == {"k": "SOURCE", "other": "PRIMARY"}
    assert kept.of_keyword("k") == ["a"]
    assert orjson.loads(kept.catalog.link_text("a", "k") or b"") == last
    assert orjson.loads(kept.catalog.link_text("a", "other") or b"") == link_row("a", "other")


def test_a_deleted_info_keeps_its_number_and_comes_back_under_it() -> None:
    kept = Kept("a", "b", "c")
    kept.infos(info_row("b", version=2, deleted=True))
    without = [head.id for head in kept.catalog.infos_newest(None)]

    kept.infos(info_row("b", version=3, content="back"))

    assert without == ["c", "a"]
    assert [head.id for head in kept.catalog.infos_newest(None)] == ["c", "b", "a"]
    assert [head.id for head in kept.catalog.infos_newest(1)] == ["a"]
    assert orjson.loads(kept.catalog.info_text("b") or b"")["content"] == "back"


def test_one_operation_may_hold_new_infos_beside_known_ones_and_one_of_them_twice() -> None:
    kept = Kept("a")

    kept.infos(info_row("b"), info_row("a", version=2, scopes=["team:web"]), info_row("b", version=2, content="later"))

    assert [head.id for head in kept.catalog.infos_newest(None)] == ["b", "a"]
    assert orjson.loads(kept.catalog.info_text("b") or b"")["content"] == "later"
    head = kept.catalog.info("a")
    assert head is not None
    assert head.audience == {OWNER, "team:web"}


def test_a_link_to_an_info_whose_line_is_lost_is_read_and_the_info_is_none() -> None:
    kept = Kept()

    kept.links(link_row("lost", "k"))

    head = kept.catalog.info("lost")
    assert head is not None
    assert not head.live
    assert kept.catalog.info_text("lost") is None
    assert list(kept.catalog.infos_newest(None)) == []
    assert orjson.loads(kept.catalog.link_text("lost", "k") or b"") == link_row("lost", "k")


def test_what_was_never_there_has_no_text() -> None:
    kept = Kept("a")
    kept.links(link_row("a", "k"))

    assert kept.catalog.info("b") is None
    assert kept.catalog.info_text("b") is None
    assert kept.catalog.link_text("a", "nobody") is None
    assert kept.catalog.link_text("b", "k") is None


def test_thousands_of_infos_and_links_in_a_random_order_are_all_found_again() -> None:
    order = random.Random(7)
    ids = [f"info-{number}" for number in range(3_000)]
    kept = Kept(*ids)
    stands: dict[tuple[str, str], str] = {}
    for version in range(1, 9_000):
        pair = order.choice(ids), f"k{order.randrange(7)}"
        relation = order.choice(list(RelationType)).value
        fields: dict[str, Any] = {"deleted": True} if stands.pop(pair, None) and order.random() < 0.5 else {}
        kept.links(link_row(*pair, relation, version=version, **fields))
        if not fields:
            stands[pair] = relation

    for keyword_id in (f"k{number}" for number in range(7)):
        linked = [info_id for info_id in reversed(ids) if (info_id, keyword_id) in stands]
        assert kept.of_keyword(keyword_id) == linked
        for relation in RelationType:
            chosen = [info_id for info_id in linked if stands[info_id, keyword_id] == relation]
            assert kept.of_keyword(keyword_id, InfoQuery(relation)) == chosen
    assert {(one, keyword_id): relation for one in ids for keyword_id, relation in kept.of_info(one).items()} == stands


def test_what_is_decided_stands_over_what_is_acknowledged_and_leaves_that_alone() -> None:
    kept = Kept("a", "b", "c")
    kept.links(link_row("a", "k"), link_row("b", "k"), link_row("a", "other"))
    pending = PendingInfos(kept.catalog)

    pending.put_info(info_row("d"))
    pending.put_info(info_row("b", version=2, deleted=True))
    pending.put_link(link_row("a", "k", version=2, deleted=True))
    pending.put_link(link_row("b", "k", "SOURCE", version=2))
    pending.put_link(link_row("d", "k", "EXAMPLE"))
    pending.put_link(link_row("c", "elsewhere"))

    decided = pending.over(kept.catalog.links_of_keyword("k"), keyword_id="k")
    assert [(link.info_id, link.relation.value) for link in decided] == [("b", "SOURCE"), ("d", "EXAMPLE")]
    of_a = pending.over(kept.catalog.links_of_info("a"), info_id="a")
    assert [link.keyword_id for link in of_a] == ["other"]
    assert kept.of_keyword("k") == ["b", "a"]
    assert not pending.infos["b"].live
    assert kept.catalog.info("d") is None


@pytest.mark.parametrize("changed_before", [0, 1, 2])
def test_a_decided_info_has_the_number_that_it_will_have(changed_before: int) -> None:
    kept = Kept("a", "b", "c")
    pending = PendingInfos(kept.catalog)
    for info_id in "abc"[:changed_before]:
        pending.put_info(info_row(info_id, version=2))

    pending.put_info(info_row("d"))
    pending.put_info(info_row("e"))
    pending.put_info(info_row("d", version=2))

    kept.infos(info_row("d"), info_row("e"))
    for info_id in "de":
        taken = kept.catalog.info(info_id)
        assert taken is not None
        assert pending.infos[info_id].ordinal == taken.ordinal


def test_decided_links_of_a_keyword_come_by_the_age_of_their_infos() -> None:
    kept = Kept("a", "b", "c")
    kept.links(link_row("b", "k"), link_row("c", "k"))
    pending = PendingInfos(kept.catalog)

    pending.put_link(link_row("a", "k"))
    pending.put_link(link_row("b", "k", "SOURCE", version=2))

    decided = pending.over(kept.catalog.links_of_keyword("k"), keyword_id="k")
    assert [link.info_id for link in decided] == ["a", "b", "c"]
