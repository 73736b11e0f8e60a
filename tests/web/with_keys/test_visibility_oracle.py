"""Ten thousand questions of callers drawn at random: each is answered just what an oracle says that they may see."""

import json
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from knowhub.bootstrap import Hub
from knowhub.core.errors import NotFound
from knowhub.keywords.model import ROOT_ID, InfoQuery, SearchStatus
from knowhub.knowledge.model import ListQuery, Order, SearchQuery
from knowhub.operations.model import OperationFilter
from knowhub.resources.model import ResourceQuery
from tests.keys import root_caller
from tests.visible_world import INFOS, KEYWORDS, KNOWLEDGE, NAMES, RESOURCES, OracleCaller, VisibleWorld, make_callers

pytestmark = pytest.mark.anyio

Question: TypeAlias = Callable[[VisibleWorld, OracleCaller], Awaitable[None]]
ALL = 1_000
_ID = re.compile(
    r"knowledge-[0-9]{8}-[0-9a-f]+|of/[0-9]{7}|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
)


async def test_answers_equal_an_oracle_while_scopes_change(hub: Hub) -> None:
    await _ask_at_random(hub, rounds=10, questions=300)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
async def test_answers_equal_an_oracle_a_hundred_thousand_times(hub: Hub) -> None:
    await _ask_at_random(hub, rounds=200, questions=500)


async def test_the_oracle_detects_a_leak(hub: Hub) -> None:
    world = VisibleWorld(hub, random.Random(3))
    await world.fill()
    # A caller that sees more than the oracle allows, as after a forgotten filter.
    told_too_much = OracleCaller(root_caller(), frozenset({"public"}))

    for ask in QUESTIONS:
        with pytest.raises(AssertionError):
            await _ask_many_times(ask, world, told_too_much)


async def _ask_many_times(ask: Question, world: VisibleWorld, asker: OracleCaller) -> None:
    for _ in range(50):
        await ask(world, asker)


async def _ask_at_random(hub: Hub, rounds: int, questions: int) -> None:
    dice = random.Random(20261121)
    world = VisibleWorld(hub, dice)
    await world.fill()
    callers = make_callers(dice, 40)
    for number in range(rounds):
        for _ in range(questions):
            await dice.choices(QUESTIONS, WEIGHTS)[0](world, dice.choice(callers))
        await world.change(12)
        if number % 5 == 4:
            await hub.reindex(lambda _done, _total: None, "default")


async def _check_list(world: VisibleWorld, asker: OracleCaller) -> None:
    page = await world.hub.knowledge.records.page(asker.ctx, ListQuery((), ALL, None))

    _check_equal(
        world, asker, {json.loads(record)["id"] for record in page.records}, world.visible_ids(asker, KNOWLEDGE)
    )


async def _check_search(world: VisibleWorld, asker: OracleCaller) -> None:
    order = world.dice.choice(tuple(Order))
    query = SearchQuery("wait element", top_k=100, min_score=1, order=order, explain=True, min_relevance=0.0)

    found = await world.hub.knowledge.search.search(asker.ctx, query)

    _check_equal(
        world,
        asker,
        {record["id"] for record in found.records},
        world.visible_ids(asker, KNOWLEDGE),
        found.explanation,
    )


async def _check_export(world: VisibleWorld, asker: OracleCaller) -> None:
    exported = [json.loads(item)["id"] for item in await world.hub.knowledge.exchange.export(asker.ctx) if item]

    _check_equal(world, asker, set(exported), world.visible_ids(asker, KNOWLEDGE))


async def _check_reads(world: VisibleWorld, asker: OracleCaller) -> None:
    knowledge_id, info_id, resource_id = (_pick_row(world, kind) for kind in (KNOWLEDGE, INFOS, RESOURCES))
    knowledge, infos, resources = world.hub.knowledge.records, world.hub.keywords.infos, world.hub.resources

    await _check_visibility(world, asker, KNOWLEDGE, knowledge_id, knowledge.get(asker.ctx, knowledge_id))
    await _check_visibility(world, asker, KNOWLEDGE, knowledge_id, knowledge.history(asker.ctx, knowledge_id))
    await _check_visibility(world, asker, KNOWLEDGE, knowledge_id, knowledge.access(asker.ctx, knowledge_id))
    if knowledge_id in world.visible_ids(asker, KNOWLEDGE):
        similar = await world.hub.knowledge.similarity.find(asker.ctx, knowledge_id)
        assert {item for item, _ in similar} <= world.visible_ids(asker, KNOWLEDGE)
    await _check_visibility(world, asker, INFOS, info_id, infos.get(asker.ctx, info_id))
    await _check_visibility(world, asker, RESOURCES, resource_id, resources.read(asker.ctx, resource_id))


async def _check_keyword_search(world: VisibleWorld, asker: OracleCaller) -> None:
    name = world.dice.choice(NAMES)
    named = {item for item in world.visible_ids(asker, KEYWORDS) if world.rows[KEYWORDS][item].name == name}

    found = await world.hub.keywords.search.search(asker.ctx, name, expand=False)

    if found.status is SearchStatus.NOT_FOUND:
        assert not named
    shown = [json.loads(item)["id"] for item in ((found.node,) if found.node else found.candidates)]
    _check_equal(world, asker, set(shown) if found.status is not SearchStatus.NOT_FOUND else set(), named, str(found))
    if found.node is not None:
        path = [json.loads(item)["id"] for item in found.path]
        assert path == world.path(asker, shown[0])


async def _check_keyword(world: VisibleWorld, asker: OracleCaller) -> None:
    keyword_id, keywords = _pick_row(world, KEYWORDS), world.hub.keywords.tree

    row = await _check_visibility(world, asker, KEYWORDS, keyword_id, keywords.get(asker.ctx, keyword_id))
    children = await _check_visibility(
        world, asker, KEYWORDS, keyword_id, keywords.list_children(asker.ctx, keyword_id)
    )
    path = await _check_visibility(world, asker, KEYWORDS, keyword_id, keywords.get_path(asker.ctx, keyword_id))

    if row is not None:
        whole, way = json.loads(row.json), world.path(asker, keyword_id)
        _check_equal(world, asker, set(whole["children"]), world.children(asker, keyword_id), children)
        assert [json.loads(item)["id"] for item in path] == way
        assert (whole["level"], whole["child_count"]) == (len(way) - 1, len(whole["children"]))
        above = world.rows[KEYWORDS][keyword_id].above
        assert whole["parent_id"] == (above if above in {ROOT_ID, *world.visible_ids(asker, KEYWORDS)} else None)


async def _check_subtree(world: VisibleWorld, asker: OracleCaller) -> None:
    whole = await world.hub.keywords.tree.get_subtree(asker.ctx, ROOT_ID)
    metrics = await world.hub.keywords.curator.metrics(asker.ctx)

    ids = set(_ID.findall(json.dumps([item["id"] for item in _flatten(whole)])))
    _check_equal(world, asker, ids, world.below(asker, ROOT_ID), str(whole))
    assert metrics["nodes"] == len(world.visible_ids(asker, KEYWORDS))
    _check_equal(world, asker, set(), set(), metrics)


async def _check_infos(world: VisibleWorld, asker: OracleCaller) -> None:
    keyword_id, info_id, infos = (
        _pick_row(world, KEYWORDS),
        _pick_row(world, INFOS),
        world.hub.keywords.infos,
    )
    linked = {item for item in world.visible_ids(asker, INFOS) if keyword_id in world.rows[INFOS][item].linked}

    page = await infos.list_newest(asker.ctx, None, ALL, None)
    of_one = await _check_visibility(
        world, asker, KEYWORDS, keyword_id, infos.list_for_keyword(asker.ctx, keyword_id, InfoQuery(size=ALL))
    )
    keywords = await _check_visibility(world, asker, INFOS, info_id, infos.list_keywords(asker.ctx, info_id))

    _check_equal(world, asker, {json.loads(record)["id"] for record in page.records}, world.visible_ids(asker, INFOS))
    if of_one is not None:
        _check_equal(world, asker, {json.loads(item)["id"] for item in of_one}, linked)
    if keywords is not None:
        seen = set(world.rows[INFOS][info_id].linked) & world.visible_ids(asker, KEYWORDS)
        _check_equal(world, asker, {json.loads(keyword)["id"] for keyword, _, _ in keywords}, seen)


async def _check_resources(world: VisibleWorld, asker: OracleCaller) -> None:
    page = await world.hub.resources.list_page(asker.ctx, ResourceQuery(limit=ALL))
    named = tuple(world.rows[RESOURCES])
    missing = world.hub.resources.list_missing(asker.ctx, named)

    seen = world.visible_ids(asker, RESOURCES)
    _check_equal(world, asker, {str(record["id"]) for record in page.records}, seen)
    assert set(missing) == set(named) - seen


async def _check_operations(world: VisibleWorld, asker: OracleCaller) -> None:
    page = await world.hub.operations.log.page(asker.ctx, OperationFilter(limit=50))

    changes = [change for entry in page.entries for change in entry.operation.changes]
    shown = {item.id for item in changes if item.collection in world.rows} - {ROOT_ID}
    seen = {row_id for row_id, row in world.gone.items() if asker.may_see(row)}
    # The oracle does not know the operations, only the rows that they may show.
    _check_equal(
        world,
        asker,
        shown,
        shown & seen.union(*(world.visible_ids(asker, kind) for kind in world.rows)),
        page,
    )


QUESTIONS: tuple[Question, ...] = (
    *(
        _check_list,
        _check_search,
        _check_export,
        _check_reads,
        _check_keyword_search,
        _check_keyword,
        _check_subtree,
        _check_infos,
        _check_resources,
        _check_operations,
    ),
)
# A caller that sees little makes the server scan the whole log.
WEIGHTS = tuple(1 if ask is _check_operations else 4 for ask in QUESTIONS)


def _pick_row(world: VisibleWorld, kind: str) -> str:
    return world.dice.choice(tuple(world.rows[kind]))


async def _check_visibility(
    world: VisibleWorld, asker: OracleCaller, kind: str, row_id: str, reading: Awaitable[Any]
) -> Any:  # noqa: ANN401 -- whatever is read
    """Return the answer of a read, or None for NotFound, which must occur exactly when the row is hidden."""
    try:
        answer = await reading
    except NotFound:
        answer = None
    assert (answer is not None) is (row_id in world.visible_ids(asker, kind)), (kind, row_id)
    _check_equal(world, asker, set(), set(), answer)
    return answer


def _check_equal(world: VisibleWorld, asker: OracleCaller, told: set[str], seen: set[str], *whole: object) -> None:
    """Fail unless the answered ids are the visible ids, and `whole` names no hidden row."""
    assert told == seen, f"leaked {sorted(told - seen)}, kept back {sorted(seen - told)}"
    named = (world.row(item) for item in set(_ID.findall(str(whole))))
    assert all(row is None or asker.may_see(row) for row in named)


def _flatten(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(item for child in node["children_nodes"] for item in _flatten(child))]
