"""What a search caches, and until when it is valid."""

import random
from collections.abc import Awaitable, Callable, Sequence

import orjson
import pytest

from knowhub.core.errors import KnowHubError
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.model import (
    INFOS,
    ROOT_ID,
    InfoPolicy,
    LinkRequest,
    NewInfo,
    NewKeyword,
    RelationType,
    SearchStatus,
    TreeOptions,
)
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import DeleteOptions
from knowhub.keywords.tree import list_keywords
from knowhub.operations.service import OperationsService
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import CountedIds, local
from tests.fakes.scripted_chat import match, missing
from tests.unit.keywords.tree_hub import ANN, BOB, TEXT, TreeHub, hub_with

pytestmark = pytest.mark.anyio


async def test_a_descent_is_cached_for_an_hour() -> None:
    hub = hub_with([match("Python", reason="one"), match("Python", reason="two")], cached=True)
    await hub.keyword("Python")

    first = await hub.search("the snake language")
    hub.clock.advance(3_599)
    again = await hub.search("The Snake Language!")
    hub.clock.advance(2)
    later = await hub.search("the snake language")

    assert (first.reason, again, later.reason) == ("one", first, "two")


async def test_a_cached_descent_is_not_used_without_model_or_for_others() -> None:
    hub = hub_with([match("Python"), match("Python")], cached=True)
    await hub.keyword("Python")
    await hub.search("the snake language")

    without = await hub.search("the snake language", expand=False)
    by_another = await hub.search("the snake language", BOB)

    assert (without.status, without.reason) == (SearchStatus.NOT_FOUND, "exact_miss_llm_disabled")
    assert by_another.status is SearchStatus.MATCHED
    assert len(hub.chat.questions) == 2


@pytest.mark.parametrize("change", ["rename", "move", "child of the top", "namesake"])
async def test_tree_changes_invalidate_a_cached_descent(change: str) -> None:
    hub = hub_with([match("Python"), match("Python")], cached=True)
    language, elsewhere = await hub.keyword("编程语言"), await hub.keyword("elsewhere")
    python = await hub.keyword("Python", language)
    await hub.search("the snake language")

    match_by_name = False
    if change == "rename":
        await hub.keywords.update(ANN, language, {"name": "语言"})
    elif change == "move":
        await hub.keywords.move(ANN, python, elsewhere)
    elif change == "child of the top":
        await hub.keyword("装饰器", elsewhere)
    else:
        await hub.keyword("The snake language")
        match_by_name = True
    found = await hub.search("the snake language")

    assert found.status is SearchStatus.MATCHED
    assert (found.reason == "exact") == match_by_name
    assert len(hub.chat.questions) == (1 if match_by_name else 2)


async def test_a_cached_miss_is_dropped_when_a_keyword_shares_a_word() -> None:
    hub = hub_with([missing("x"), missing("x"), match("snake charm")], cached=True)
    language = await hub.keyword("编程语言")
    python = await hub.keyword("Python", language)
    await hub.search("the snake language")

    await hub.keyword("装饰器", python)
    again = await hub.search("the snake language")
    asked = len(hub.chat.questions)
    await hub.keyword("snake oil", python)
    await hub.search("the snake language")

    assert (again.status, asked, len(hub.chat.questions)) == (SearchStatus.NOT_FOUND, 1, 2)


async def test_a_choice_of_namesakes_is_cached_until_one_path_changes() -> None:
    hub = hub_with([{"node_id": 1}, {"node_id": 2}], cached=True)
    firm = await hub.keyword("公司")
    left, other = await hub.keyword("苹果"), await hub.keyword("苹果", firm)

    undecided = await hub.search("苹果")
    first = await hub.search("苹果", disambiguate=True)
    again = await hub.search("苹果", disambiguate=True)
    await hub.keywords.update(ANN, firm, {"name": "企业"})
    later = await hub.search("苹果", disambiguate=True)

    assert undecided.status is SearchStatus.AMBIGUOUS
    assert again == first
    assert [orjson.loads(found.node or b"{}")["id"] for found in (first, later)] == [left, other]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 4))])
async def test_cached_answers_equal_uncached_answers(seed: int) -> None:
    hub = hub_with(cached=True)
    uncached = KeywordSearch(
        hub.store, NearKeywords(TEXT), KeywordAgent(None, RecentMatchesByReader(), TreeOptions()), TreeOptions()
    )
    busy = RandomCallers(hub, random.Random(seed))
    hits = 0

    for _ in range(400):
        await busy.do_something()
        for query in QUERIES:
            for ctx in (ANN, BOB, local()):
                found = await hub.search(query, ctx)
                assert found == await uncached.search(ctx, query)
                hits += found is await hub.search(query, ctx)

    # Both that answers are kept and that operations go through is part of the claim.
    assert hits > 500
    assert busy.done > 150


NAMES = ("排序", "paixu", "Go", "树", "数", "C++")
QUERIES = (*NAMES, "shu", "px")
SCOPES = (["public"], ["user:owner"], ["team:web"])


class RandomCallers:
    """Callers who change a small tree at random; refused changes are ignored."""

    def __init__(self, hub: TreeHub, rng: random.Random) -> None:
        self._hub = hub
        self._rng = rng
        self._infos: list[str] = []
        self._operations: list[str] = []
        self.done = 0

    async def do_something(self) -> None:
        pick, keywords, infos = self._rng.choice, self._hub.keywords, self._hub.infos
        view = self._hub.store.view("default")
        live = [ROOT_ID, *(node.id for node in list_keywords(view))]
        ctx, first, other, name = pick((ANN, ANN, BOB, local())), pick(live), pick(live), pick(NAMES)
        info = pick(self._infos) if self._infos else "none"
        scopes, relation = pick(SCOPES), pick(tuple(RelationType))
        deletion = DeleteOptions(pick((True, False)), pick(tuple(InfoPolicy)))
        actions: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: keywords.create(ctx, NewKeyword(name, first, scopes=scopes, allow_duplicate=True)),
            lambda: keywords.create(ctx, NewKeyword(name, first, scopes=scopes, allow_duplicate=True)),
            lambda: keywords.update(ctx, first, {"scopes": scopes}),
            lambda: keywords.update(ctx, first, {"name": name, "description": name}),
            lambda: keywords.add_alias(ctx, first, f"{name}{self._rng.random():.1f}"),
            lambda: keywords.move(ctx, first, other),
            lambda: keywords.merge(ctx, first, other),
            lambda: keywords.delete(ctx, first, deletion),
            lambda: infos.create(ctx, NewInfo(name, keyword_ids=[first], scopes=scopes)),
            lambda: infos.create(ctx, NewInfo(name, keyword_ids=[first, other], scopes=scopes)),
            lambda: infos.patch(ctx, info, {"scopes": scopes, "content": name}),
            lambda: infos.link(ctx, info, first, LinkRequest(relation)),
            lambda: infos.unlink(ctx, info, first),
            lambda: infos.delete(ctx, info),
            lambda: self._undo(ctx),
        )
        try:
            await pick(actions)()
        except KnowHubError:
            return
        self.done += 1
        newest = await anext(self._hub.store.operations("default"), None)
        if newest is None:
            return
        self._operations.append(newest.operation_id)
        self._infos += [
            change.id for change in newest.changes if change.collection == INFOS and change.id not in self._infos
        ]

    async def _undo(self, ctx: RequestContext) -> None:
        if self._operations:
            operations = OperationsService(self._hub.store, CountedIds(), COLLECTIONS)
            await operations.undo(local(), self._operations[-1])
