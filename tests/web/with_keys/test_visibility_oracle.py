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
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import root_caller
from tests.visible_world import INFOS, KEYWORDS, KNOWLEDGE, NAMES, RESOURCES, OracleCaller, VisibleWorld, make_callers

pytestmark = pytest.mark.anyio

Question: TypeAlias = Callable[[VisibleWorld, OracleCaller], Awaitable[None]]
ALL = 1_000
_ID = re.compile(
    r"knowledge-[0-9]{8}-[0-9a-f]+|of/[0-9]{7}|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
)


@pytest.fixture
def overrides(clock: FakeClock) -> Overrides:
    return Overrides(clock=clock, files=RealFileSystem())


async def test_answers_equal_an_oracle_while_scopes_change(hub: Hub) -> None:
    await _ask_at_random(hub, rounds=20, questions=500)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
async def test_answers_equal_an_oracle_a_hundred_thousand_times(hub: Hub) -> None:
    await _ask_at_random(hub, rounds=200, questions=500)


async def test_the_oracle_detects_a_leak(hub: Hub) -> None:
    world = VisibleWorld(hub, random.Random(3))
    await world.fill()
    # A caller who sees more than the oracle allows, as after a forgotten filter.
    told_too_much = OracleCaller(root_caller(), frozenset({"public"}))

    for ask in QUESTIONS:
        with pytest.raises(AssertionError):
            await _ask_many_times(ask, world, told_too_much)


async def _ask_many_times(ask: Question, overrides: VisibleWorld, asker: OracleCaller) -> None:
    for _ in range(50):
        await ask(overrides, asker)


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


async def _check_list(overrides: VisibleWorld, asker: OracleCaller) -> None:
    page = await overrides.hub.knowledge.records.page(asker.ctx, ListQuery((), ALL, None))

    _check_equal(
        overrides, asker, {json.loads(record)["id"] for record in page.records}, overrides.visible_ids(asker, KNOWLEDGE)
    )


async def _check_search(overrides: VisibleWorld, asker: OracleCaller) -> None:
    order = overrides.dice.choice(tuple(Order))
    query = SearchQuery("wait element", top_k=100, min_score=1, order=order, explain=True, min_relevance=0.0)

    found = await overrides.hub.knowledge.search.search(asker.ctx, query)

    _check_equal(
        overrides,
        asker,
        {record["id"] for record in found.records},
        overrides.visible_ids(asker, KNOWLEDGE),
        found.explanation,
    )


async def _check_export(overrides: VisibleWorld, asker: OracleCaller) -> None:
    exported = [json.loads(item)["id"] for item in await overrides.hub.knowledge.exchange.export(asker.ctx)]

    _check_equal(overrides, asker, set(exported), overrides.visible_ids(asker, KNOWLEDGE))


async def _check_reads(overrides: VisibleWorld, asker: OracleCaller) -> None:
    knowledge_id, info_id, resource_id = (_pick_row(overrides, kind) for kind in (KNOWLEDGE, INFOS, RESOURCES))
    knowledge, infos, resources = overrides.hub.knowledge.records, overrides.hub.keywords.infos, overrides.hub.resources

    await _check_visibility(overrides, asker, KNOWLEDGE, knowledge_id, knowledge.get(asker.ctx, knowledge_id))
    await _check_visibility(overrides, asker, KNOWLEDGE, knowledge_id, knowledge.history(asker.ctx, knowledge_id))
    await _check_visibility(overrides, asker, KNOWLEDGE, knowledge_id, knowledge.access(asker.ctx, knowledge_id))
    if knowledge_id in overrides.visible_ids(asker, KNOWLEDGE):
        similar = await overrides.hub.knowledge.similarity.find(asker.ctx, knowledge_id)
        assert {item for item, _ in similar} <= overrides.visible_ids(asker, KNOWLEDGE)
    await _check_visibility(overrides, asker, INFOS, info_id, infos.get(asker.ctx, info_id))
    await _check_visibility(overrides, asker, RESOURCES, resource_id, resources.read(asker.ctx, resource_id))


async def _check_keyword_search(overrides: VisibleWorld, asker: OracleCaller) -> None:
    name = overrides.dice.choice(NAMES)
    named = {item for item in overrides.visible_ids(asker, KEYWORDS) if overrides.rows[KEYWORDS][item].name == name}

    found = await overrides.hub.keywords.search.search(asker.ctx, name, expand=False)

    if found.status is SearchStatus.NOT_FOUND:
        assert not named
    shown = [json.loads(item)["id"] for item in ((found.node,) if found.node else found.candidates)]
    _check_equal(
        overrides, asker, set(shown) if found.status is not SearchStatus.NOT_FOUND else set(), named, str(found)
    )
    if found.node is not None:
        path = [json.loads(item)["id"] for item in found.path]
        assert path == overrides.path(asker, shown[0])


async def _check_keyword(overrides: VisibleWorld, asker: OracleCaller) -> None:
    keyword_id, keywords = _pick_row(overrides, KEYWORDS), overrides.hub.keywords.tree

    row = await _check_visibility(overrides, asker, KEYWORDS, keyword_id, keywords.get(asker.ctx, keyword_id))
    children = await _check_visibility(
        overrides, asker, KEYWORDS, keyword_id, keywords.list_children(asker.ctx, keyword_id)
    )
    path = await _check_visibility(overrides, asker, KEYWORDS, keyword_id, keywords.get_path(asker.ctx, keyword_id))

    if row is not None:
        whole, way = json.loads(row.json), overrides.path(asker, keyword_id)
        _check_equal(overrides, asker, set(whole["children"]), overrides.children(asker, keyword_id), children)
        assert [json.loads(item)["id"] for item in path] == way
        assert (whole["level"], whole["child_count"]) == (len(way) - 1, len(whole["children"]))
        above = overrides.rows[KEYWORDS][keyword_id].above
        assert whole["parent_id"] == (above if above in {ROOT_ID, *overrides.visible_ids(asker, KEYWORDS)} else None)


async def _check_subtree(overrides: VisibleWorld, asker: OracleCaller) -> None:
    whole = await overrides.hub.keywords.tree.get_subtree(asker.ctx, ROOT_ID)
    metrics = await overrides.hub.keywords.curator.metrics(asker.ctx)

    ids = set(_ID.findall(json.dumps([item["id"] for item in _flatten(whole)])))
    _check_equal(overrides, asker, ids, overrides.below(asker, ROOT_ID), str(whole))
    assert metrics["nodes"] == len(overrides.visible_ids(asker, KEYWORDS))
    _check_equal(overrides, asker, set(), set(), metrics)


async def _check_infos(overrides: VisibleWorld, asker: OracleCaller) -> None:
    keyword_id, info_id, infos = (
        _pick_row(overrides, KEYWORDS),
        _pick_row(overrides, INFOS),
        overrides.hub.keywords.infos,
    )
    linked = {item for item in overrides.visible_ids(asker, INFOS) if keyword_id in overrides.rows[INFOS][item].linked}

    page = await infos.list_newest(asker.ctx, None, ALL, None)
    of_one = await _check_visibility(
        overrides, asker, KEYWORDS, keyword_id, infos.list_for_keyword(asker.ctx, keyword_id, InfoQuery(size=ALL))
    )
    keywords = await _check_visibility(overrides, asker, INFOS, info_id, infos.list_keywords(asker.ctx, info_id))

    _check_equal(
        overrides, asker, {json.loads(record)["id"] for record in page.records}, overrides.visible_ids(asker, INFOS)
    )
    if of_one is not None:
        _check_equal(overrides, asker, {json.loads(item)["id"] for item in of_one}, linked)
    if keywords is not None:
        seen = set(overrides.rows[INFOS][info_id].linked) & overrides.visible_ids(asker, KEYWORDS)
        _check_equal(overrides, asker, {json.loads(keyword)["id"] for keyword, _, _ in keywords}, seen)


async def _check_resources(overrides: VisibleWorld, asker: OracleCaller) -> None:
    page = await overrides.hub.resources.page(asker.ctx, ResourceQuery(limit=ALL))
    named = tuple(overrides.rows[RESOURCES])
    missing = overrides.hub.resources.missing(asker.ctx, named)

    seen = overrides.visible_ids(asker, RESOURCES)
    _check_equal(overrides, asker, {str(record["id"]) for record in page.records}, seen)
    assert set(missing) == set(named) - seen


async def _check_operations(overrides: VisibleWorld, asker: OracleCaller) -> None:
    page = await overrides.hub.operations.history.page(asker.ctx, OperationFilter(limit=50))

    changes = [change for entry in page.entries for change in entry.operation.changes]
    answer = {item.id for item in changes if item.collection in overrides.rows} - {ROOT_ID}
    seen = {row_id for row_id, row in overrides.gone.items() if asker.may_see(row)}
    # The oracle does not know the operations, only the rows that they may show.
    _check_equal(
        overrides,
        asker,
        answer,
        answer & seen.union(*(overrides.visible_ids(asker, kind) for kind in overrides.rows)),
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


def _pick_row(overrides: VisibleWorld, kind: str) -> str:
    return overrides.dice.choice(tuple(overrides.rows[kind]))


async def _check_visibility(
    overrides: VisibleWorld, asker: OracleCaller, kind: str, row_id: str, reading: Awaitable[Any]
) -> Any:  # noqa: ANN401 -- whatever is read
    """Return the answer of a read, or None for NotFound, which must occur exactly when the row is hidden."""
    try:
        answer = await reading
    except NotFound:
        answer = None
    assert (answer is not None) is (row_id in overrides.visible_ids(asker, kind)), (kind, row_id)
    _check_equal(overrides, asker, set(), set(), answer)
    return answer


def _check_equal(overrides: VisibleWorld, asker: OracleCaller, told: set[str], seen: set[str], *whole: object) -> None:
    """Fail unless the answered ids are the visible ids, and `whole` names no hidden row."""
    assert told == seen, f"leaked {sorted(told - seen)}, kept back {sorted(seen - told)}"
    named = (overrides.row(item) for item in set(_ID.findall(str(whole))))
    assert all(row is None or asker.may_see(row) for row in named)


def _flatten(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(item for child in node["children_nodes"] for item in _flatten(child))]
