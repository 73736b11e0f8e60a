"""Searching the tree: by name, by spelling, by a model, and what is kept of it."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from knowhub.core.chat import Question
from knowhub.core.errors import KnowHubError
from knowhub.core.ids import uuid4_id
from knowhub.core.request_context import RequestContext
from knowhub.keywords import decisions, info_decisions
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.audit import DecisionLog
from knowhub.keywords.caches import ResultCache
from knowhub.keywords.candidates_by_words import candidates_by_words
from knowhub.keywords.finding import KeywordSearch
from knowhub.keywords.infos import InfoService
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    PAGE_SIZE,
    ROOT_ID,
    Found,
    InfoPolicy,
    Linking,
    NewInfo,
    NewKeyword,
    Options,
    RelationType,
    SearchStatus,
)
from knowhub.keywords.recent import Recents
from knowhub.keywords.service import Deletion, KeywordService
from knowhub.operations.service import OperationsService
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.stores.files.derived.invalidation import Invalidation
from tests.builders import CountedIds, FakeClock, caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.memory_store import MemoryStore
from tests.fakes.scripted_chat import Answer, Meanwhile, ScriptedChat, ambiguous, candidates_in, jump_to, match, missing

pytestmark = pytest.mark.anyio

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
TEXT = KeywordTextRules()
RULES = {
    KEYWORDS: decisions.KEYWORD_RULES,
    INFOS: info_decisions.INFO_RULES,
    LINKS: info_decisions.LINK_RULES,
}


@dataclass
class Hub:
    """The services on one store, beside the model that they ask."""

    store: MemoryStore
    keywords: KeywordService
    infos: InfoService
    finding: KeywordSearch
    chat: ScriptedChat
    clock: FakeClock
    caches: ResultCache
    log: DecisionLog

    async def keyword(self, name: str, parent_id: str = ROOT_ID, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.keywords.create(ctx, NewKeyword(name, parent_id, **fields))).row["id"])

    async def info(self, content: str, *keyword_ids: str, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.infos.create(ANN, NewInfo(content, keyword_ids=keyword_ids, **fields))).row["id"])

    async def search(self, query: str, ctx: RequestContext = ANN, **how: bool) -> Found:
        return await self.finding.search(ctx, query, **how)

    async def op_counts(self) -> dict[str, int]:
        await self.log.close()
        counts: dict[str, int] = {}
        async for operation in self.store.operations("default"):
            counts[operation.op] = counts.get(operation.op, 0) + 1
        return counts


def hub_with(answers: Sequence[Answer] | None = None, *, cached: bool = False, options: Options | None = None) -> Hub:
    """Build the services; with `answers` there is a model that gives them, without there is none."""
    clock, ids, options = FakeClock(), CountedIds(), options or Options()
    store = MemoryStore(clock, CountedIds())
    chat = ScriptedChat(answers or [])
    agent = KeywordAgent(None if answers is None else chat, Recents(), options)
    caches, log = ResultCache(clock), DecisionLog(store)
    store.subscribe(Invalidation(caches, Recents()))
    return Hub(
        store,
        KeywordService(store, TEXT, ids, KeywordAgent(None, Recents(), options), options),
        InfoService(store, TEXT, ids, agent, options),
        KeywordSearch(store, TEXT, agent, options, caches if cached else None, log),
        chat,
        clock,
        caches,
        log,
    )


@pytest.fixture
def hub() -> Hub:
    return hub_with()


def names(rows: Sequence[bytes]) -> list[str]:
    return [str(orjson.loads(row)["name"]) for row in rows]


async def test_a_name_or_an_alias_in_any_spelling_is_found_with_path_and_newest_infos(hub: Hub) -> None:
    language = await hub.keyword("编程语言")
    python = await hub.keyword("Python", language, aliases=["蟒蛇"])
    child = await hub.keyword("装饰器", python)
    for number in range(PAGE_SIZE + 1):
        await hub.info(f"{number}", python)

    for query in ("python", "ＰＹＴＨＯＮ", " p-y-thon! ", "蟒蛇"):
        found = await hub.search(query)

        assert found.node is not None
        node = orjson.loads(found.node)
        assert (found.status, found.reason, found.degraded) == (SearchStatus.MATCHED, "exact", ())
        assert (node["id"], node["level"], node["children"], node["child_count"]) == (python, 2, [child], 1)
        assert names(found.path) == ["root", "编程语言", "Python"]
        assert [orjson.loads(row)["level"] for row in found.path] == [0, 1, 2]
        assert "children" not in orjson.loads(found.path[1])
        contents = [orjson.loads(row)["content"] for row in found.infos]
        assert contents == [f"{number}" for number in range(PAGE_SIZE, 0, -1)]
        assert (list(found.candidates), found.suggested_parent_id, found.suggested_name) == ([], None, None)


@pytest.mark.parametrize("query", ["", "!!!", "  \n", "。"])
async def test_a_query_of_which_nothing_is_left_is_not_found_and_asks_nobody(query: str) -> None:
    hub = hub_with([])
    await hub.keyword("Python")

    found = await hub.search(query)

    assert found == Found(SearchStatus.NOT_FOUND, reason="empty_query")
    assert hub.chat.questions == []


async def test_several_of_one_name_are_ambiguous_at_once_oldest_first() -> None:
    hub = hub_with([])
    fruit, company = await hub.keyword("水果"), await hub.keyword("公司")
    one, other = await hub.keyword("苹果", fruit), await hub.keyword("苹果", company)

    found = await hub.search("苹果")

    assert (found.status, found.reason, found.node) == (SearchStatus.AMBIGUOUS, "exact", None)
    assert [orjson.loads(row)["id"] for row in found.candidates] == [one, other]
    assert "children" not in orjson.loads(found.candidates[0])
    assert hub.chat.questions == []


async def test_of_very_many_of_one_name_as_many_are_shown_as_a_model_would_be(hub: Hub) -> None:
    small = hub_with(options=Options(max_candidates=3))
    for _ in range(5):
        await small.keyword("x")

    assert len((await small.search("x")).candidates) == 3


async def test_what_the_caller_does_not_see_is_neither_found_nor_named(hub: Hub) -> None:
    top = await hub.keyword("secret top", scopes=["user:owner"])
    await hub.keyword("shown", top)
    await hub.keyword("shown", scopes=["user:owner"])
    await hub.keyword("own", scopes=["user:owner"])

    found = await hub.search("shown", BOB)

    assert (found.status, names(found.path)) == (SearchStatus.MATCHED, ["root", "shown"])
    assert orjson.loads(found.path[0])["child_count"] == 0
    assert (await hub.search("shown", ANN)).status is SearchStatus.AMBIGUOUS
    for query in ("own", "secret top", "secret"):
        unseen = await hub.search(query, BOB)
        assert (unseen.status, list(unseen.candidates)) == (SearchStatus.NOT_FOUND, [])


async def test_hidden_infos_are_not_shown(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    await hub.info("own", keyword, scopes=["user:owner"])
    await hub.info("all", keyword)

    assert [orjson.loads(row)["content"] for row in (await hub.search("k", BOB)).infos] == ["all"]


async def test_pinyin_is_asked_only_where_no_name_is_the_query(hub: Hub) -> None:
    await hub.keyword("排序")
    await hub.keyword("树")
    await hub.keyword("数")
    spelt = await hub.search("paixu")
    several = await hub.search("shu")
    await hub.keyword("paixu")
    exact = await hub.search("paixu")

    assert (spelt.status, spelt.reason, names(spelt.path)) == (SearchStatus.MATCHED, "pinyin", ["root", "排序"])
    assert (several.status, several.reason) == (SearchStatus.AMBIGUOUS, "pinyin")
    assert names(several.candidates) == ["树", "数"]
    assert (exact.reason, names(exact.path)) == ("exact", ["root", "paixu"])


async def test_without_expansion_no_model_is_asked() -> None:
    hub = hub_with([match("Python")])
    await hub.keyword("Python")

    found = await hub.search("python tutorial", expand=False)

    assert (found.status, found.reason) == (SearchStatus.NOT_FOUND, "exact_miss_llm_disabled")
    assert names(found.candidates) == ["Python"]
    assert hub.chat.questions == []
    assert found.degraded == ()


async def test_without_a_model_words_are_what_is_offered(hub: Hub) -> None:
    await hub.keyword("Python")
    await hub.keyword("Go")

    found = await hub.search("python tutorial", disambiguate=True)

    assert (found.status, found.reason) == (SearchStatus.NOT_FOUND, "exact_miss_no_llm")
    assert names(found.candidates) == ["Python"]
    assert found.degraded == ()


async def test_the_model_walks_to_what_no_name_is_and_its_decision_is_noted() -> None:
    hub = hub_with([jump_to("编程语言"), match("Python", reason="the snake")], options=Options(max_candidates=1))
    language = await hub.keyword("编程语言")
    python = await hub.keyword("Python", language)
    await hub.info("x", python)

    found = await hub.search("the snake language")

    assert (found.status, found.reason) == (SearchStatus.MATCHED, "the snake")
    assert names(found.path) == ["root", "编程语言", "Python"]
    assert [orjson.loads(row)["content"] for row in found.infos] == ["x"]
    assert (await hub.op_counts())["agent_decision"] == 1
    newest = await anext(hub.store.operations("default"))
    assert [call["function"] for call in newest.agent_io or []] == ["pick_branch", "pick_branch"]


async def test_an_exact_hit_notes_no_decision(hub: Hub) -> None:
    await hub.keyword("Python")

    await hub.search("python")

    assert "agent_decision" not in await hub.op_counts()


async def test_what_the_model_misses_comes_with_a_place_and_a_name_for_it() -> None:
    hub = hub_with([jump_to("编程语言"), missing("Rust", "none of these")], options=Options(max_candidates=1))
    language = await hub.keyword("编程语言")
    await hub.keyword("Python", language)

    found = await hub.search("memory safe systems language")

    assert (found.status, found.reason) == (SearchStatus.NOT_FOUND, "none of these")
    assert (found.suggested_parent_id, found.suggested_name) == (language, "Rust")
    assert (list(found.candidates), found.degraded) == ([], ())


async def test_what_the_model_cannot_decide_is_ambiguous() -> None:
    hub = hub_with([ambiguous("Go", "围棋", reason="either")])
    await hub.keyword("Go")
    await hub.keyword("围棋")

    found = await hub.search("golang or the game")

    assert (found.status, found.reason, names(found.candidates)) == (SearchStatus.AMBIGUOUS, "either", ["Go", "围棋"])


@pytest.mark.parametrize(
    ("failure", "reason"), [(RuntimeError("down"), "agent_failure"), (TimeoutError(), "agent_timeout")]
)
async def test_a_model_that_fails_leaves_what_was_shown_last_and_a_place(failure: Exception, reason: str) -> None:
    hub = hub_with([jump_to("编程语言"), failure], options=Options(max_candidates=1))
    language = await hub.keyword("编程语言")
    await hub.keyword("Python", language)

    found = await hub.search("the snake language")

    assert (found.status, found.reason, found.degraded) == (SearchStatus.NOT_FOUND, reason, ("llm",))
    assert names(found.candidates) == ["Python"]
    assert found.suggested_parent_id == language
    assert (await hub.op_counts())["agent_decision"] == 1


async def test_a_model_that_fails_on_an_empty_tree_leaves_nothing_but_the_reason() -> None:
    hub = hub_with([RuntimeError("down")])

    found = await hub.search("python")

    assert (found.status, found.reason, list(found.candidates)) == (SearchStatus.NOT_FOUND, "agent_failure", [])
    assert found.suggested_parent_id == ROOT_ID


async def test_what_vanishes_while_the_model_thinks_is_not_found() -> None:
    hub = hub_with()
    doomed = await hub.keyword("Python")

    def gone_after(question: Question) -> Mapping[str, Any]:
        return match("Python")(question)

    chat = Meanwhile([gone_after], lambda: hub.keywords.delete(ANN, doomed, Deletion()))
    finding = KeywordSearch(hub.store, TEXT, KeywordAgent(chat, Recents(), Options()), Options())

    found = await finding.search(ANN, "the snake language")

    assert found.status is SearchStatus.NOT_FOUND
    assert found.node is None
    assert doomed not in [orjson.loads(row)["id"] for row in found.candidates]


async def test_the_model_chooses_among_namesakes_when_it_is_asked_to() -> None:
    def company(question: Question) -> Mapping[str, Any]:
        return {"node_id": next(one.idx for one in candidates_in(question.messages) if "公司" in one.path)}

    hub = hub_with([company])
    fruit, firm = await hub.keyword("水果"), await hub.keyword("公司")
    await hub.keyword("苹果", fruit)
    await hub.keyword("苹果", firm)

    found = await hub.search("苹果", disambiguate=True)

    assert (found.status, found.reason) == (SearchStatus.MATCHED, "disambiguated")
    assert names(found.path) == ["root", "公司", "苹果"]
    assert (await hub.op_counts())["agent_decision"] == 1


@pytest.mark.parametrize(
    ("answer", "reason", "degraded"),
    [
        ({"node_id": None}, "undecided", ()),
        ({"node_id": 99, "reason": "hm"}, "hm", ()),
        (RuntimeError("down"), "agent_failure", ("llm",)),
    ],
)
async def test_namesakes_stay_ambiguous_where_the_model_does_not_choose(
    answer: Answer, reason: str, degraded: Sequence[str]
) -> None:
    hub = hub_with([answer], cached=True)
    await hub.keyword("苹果")
    await hub.keyword("苹果")

    found = await hub.search("苹果", disambiguate=True)

    assert (found.status, found.reason, found.degraded) == (SearchStatus.AMBIGUOUS, reason, degraded)
    assert names(found.candidates) == ["苹果", "苹果"]
    assert (await hub.search("苹果")).reason == "exact"


async def test_a_descent_is_kept_for_an_hour_and_asked_again_after_it() -> None:
    hub = hub_with([match("Python", reason="one"), match("Python", reason="two")], cached=True)
    await hub.keyword("Python")

    first = await hub.search("the snake language")
    hub.clock.advance(3_599)
    again = await hub.search("The Snake Language!")
    hub.clock.advance(2)
    later = await hub.search("the snake language")

    assert (first.reason, again, later.reason) == ("one", first, "two")


async def test_a_descent_is_kept_for_its_own_hour_though_its_answer_was_made_again_meanwhile() -> None:
    hub = hub_with([match("Python", reason="one"), match("Python", reason="two")], cached=True)
    python = await hub.keyword("Python")
    info = await hub.info("x", python)
    await hub.search("the snake language")

    hub.clock.advance(3_000)
    # The answer goes, for it showed the info; what the model decided stays, and the answer is made of it again.
    await hub.infos.update(ANN, info, {"content": "y"})
    again = await hub.search("the snake language")
    hub.clock.advance(601)
    later = await hub.search("the snake language")

    assert (again.reason, later.reason) == ("one", "two")


LAST: Sequence[object] = (None, "gone", "root", [], 5)
REASONS: Sequence[object] = (None, ["r"], 5)


@pytest.mark.parametrize(
    "kept",
    [
        *(None, 5, "path", [], ["path"], {}, {"path": ["root"]}, {"reason": "r"}),
        *({"path": [], "reason": "r"}, {"path": "root", "reason": "r"}, {"path": {}, "reason": "r"}),
        *({"path": [last], "reason": "r"} for last in LAST),
        *({"path": ["root", "<python>"], "reason": reason} for reason in REASONS),
    ],
)
async def test_a_kept_descent_of_a_wrong_shape_is_only_asked_again(kept: Any) -> None:  # noqa: ANN401 -- any shape
    hub = hub_with([match("Python", reason="one")] * 2, cached=True)
    python = await hub.keyword("Python")
    await hub.search("the snake language")
    [descend] = [entry["key"] for entry in hub.caches.persistable() if entry["key"].startswith("descend:")]
    hub.caches.touch("default", ["token:thesnakelanguage"])
    hub.caches.put(descend, orjson.loads(orjson.dumps(kept).replace(b"<python>", python.encode())), 60, [])

    found = await hub.search("the snake language")

    assert (found.status, found.reason, len(hub.chat.questions)) == (SearchStatus.MATCHED, "one", 2)


async def test_a_kept_descent_is_no_answer_for_who_wants_no_model_or_sees_something_else() -> None:
    hub = hub_with([match("Python"), match("Python")], cached=True)
    await hub.keyword("Python")
    await hub.search("the snake language")

    without = await hub.search("the snake language", expand=False)
    by_another = await hub.search("the snake language", BOB)

    assert (without.status, without.reason) == (SearchStatus.NOT_FOUND, "exact_miss_llm_disabled")
    assert by_another.status is SearchStatus.MATCHED
    assert len(hub.chat.questions) == 2


async def test_a_kept_descent_outlives_what_only_its_infos_changed_by() -> None:
    hub = hub_with([match("Python", reason="one")], cached=True)
    python = await hub.keyword("Python")
    info = await hub.info("x", python)
    await hub.search("the snake language")

    await hub.infos.update(ANN, info, {"content": "y"})
    found = await hub.search("the snake language")

    assert [orjson.loads(row)["content"] for row in found.infos] == ["y"]
    assert len(hub.chat.questions) == 1


@pytest.mark.parametrize("change", ["rename", "move", "child", "namesake"])
async def test_a_kept_descent_ends_when_its_path_changes_or_a_keyword_takes_the_name(change: str) -> None:
    hub = hub_with([match("Python"), match("Python")], cached=True)
    language, elsewhere = await hub.keyword("编程语言"), await hub.keyword("elsewhere")
    python = await hub.keyword("Python", language)
    await hub.search("the snake language")

    match_by_name = False
    if change == "rename":
        await hub.keywords.update(ANN, language, {"name": "语言"})
    elif change == "move":
        await hub.keywords.move(ANN, python, elsewhere)
    elif change == "child":
        await hub.keyword("装饰器", python)
    else:
        await hub.keyword("The snake language")
        match_by_name = True
    found = await hub.search("the snake language")

    assert found.status is SearchStatus.MATCHED
    assert (found.reason == "exact") == match_by_name
    assert len(hub.chat.questions) == (1 if match_by_name else 2)


async def test_a_choice_among_namesakes_is_kept_until_the_path_of_one_changes() -> None:
    hub = hub_with([{"node_id": 1}, {"node_id": 2}], cached=True)
    firm = await hub.keyword("公司")
    one, other = await hub.keyword("苹果"), await hub.keyword("苹果", firm)

    undecided = await hub.search("苹果")
    first = await hub.search("苹果", disambiguate=True)
    again = await hub.search("苹果", disambiguate=True)
    await hub.keywords.update(ANN, firm, {"name": "企业"})
    later = await hub.search("苹果", disambiguate=True)

    assert undecided.status is SearchStatus.AMBIGUOUS
    assert again is first
    assert [orjson.loads(found.node or b"{}")["id"] for found in (first, later)] == [one, other]


async def test_an_exact_answer_is_kept() -> None:
    hub = hub_with(cached=True)
    await hub.keyword("Python")

    first = await hub.search("python")

    assert await hub.search("Python") is first
    assert await hub.search("Python", BOB) is not first


@pytest.mark.parametrize("seed", range(4))
async def test_a_kept_answer_is_always_the_one_that_an_uncached_search_would_give(seed: int) -> None:
    hub = hub_with(cached=True)
    uncached = KeywordSearch(hub.store, TEXT, KeywordAgent(None, Recents(), Options()), Options())
    busy = Busy(hub, random.Random(seed))
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


class Busy:
    """Callers who do one thing after another to a small tree; what is refused is refused."""

    def __init__(self, hub: Hub, rng: random.Random) -> None:
        self._hub = hub
        self._rng = rng
        self._infos: list[str] = []
        self._operations: list[str] = []
        self.done = 0

    async def do_something(self) -> None:
        pick, keywords, infos = self._rng.choice, self._hub.keywords, self._hub.infos
        view = self._hub.store.view("default")
        live = [ROOT_ID, *(node.id for node in view.nodes())]
        ctx, one, other, name = pick((ANN, ANN, BOB, local())), pick(live), pick(live), pick(NAMES)
        info = pick(self._infos) if self._infos else "none"
        scopes, relation = pick(SCOPES), pick(tuple(RelationType))
        deletion = Deletion(pick((True, False)), pick(tuple(InfoPolicy)))
        actions: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: keywords.create(ctx, NewKeyword(name, one, scopes=scopes)),
            lambda: keywords.create(ctx, NewKeyword(name, one, scopes=scopes)),
            lambda: keywords.update(ctx, one, {"scopes": scopes}),
            lambda: keywords.update(ctx, one, {"name": name, "description": name}),
            lambda: keywords.add_alias(ctx, one, f"{name}{self._rng.random():.1f}"),
            lambda: keywords.move(ctx, one, other),
            lambda: keywords.merge(ctx, one, other),
            lambda: keywords.delete(ctx, one, deletion),
            lambda: infos.create(ctx, NewInfo(name, keyword_ids=[one], scopes=scopes)),
            lambda: infos.create(ctx, NewInfo(name, keyword_ids=[one, other], scopes=scopes)),
            lambda: infos.update(ctx, info, {"scopes": scopes, "content": name}),
            lambda: infos.link(ctx, info, one, Linking(relation)),
            lambda: infos.unlink(ctx, info, one),
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
        self._infos += [one.id for one in newest.changes if one.collection == INFOS and one.id not in self._infos]

    async def _undo(self, ctx: RequestContext) -> None:
        if self._operations:
            operations = OperationsService(self._hub.store, CountedIds(), RULES)
            await operations.undo(local(), self._operations[-1])


def offered(view: FakeKeywordView, query: str, ctx: RequestContext | None = None) -> list[str]:
    return [node.name for node in candidates_by_words(view, ctx or local(), TEXT, query)]


def put(view: FakeKeywordView, *names: str, **fields: Any) -> None:  # noqa: ANN401 -- any field
    for name in names:
        view.put(name, tokens=tuple(TEXT.tokens(name)), terms=tuple(TEXT.terms(name)), **fields)


def test_what_shares_rarer_words_is_offered_before_what_shares_common_ones() -> None:
    view = tree_of({})
    put(view, "web server", "web client", "web page", "nginx server", "cooking")

    assert offered(view, "nginx web tutorial")[0] == "nginx server"
    assert "cooking" not in offered(view, "nginx web tutorial")


def test_a_name_inside_the_query_and_one_around_it_are_offered() -> None:
    view = tree_of({})
    put(view, "排序", "快速排序算法", "算法", "烹饪")

    assert "排序" in offered(view, "冒泡排序怎么写")
    assert offered(view, "快速排序")[0] == "快速排序算法"
    assert "烹饪" not in offered(view, "快速排序")


def test_a_short_latin_name_inside_a_word_is_not_offered() -> None:
    view = tree_of({})
    put(view, "go", "rit", "script")

    assert offered(view, "algorithm") == []
    assert offered(view, "javascript") == ["script"]


def test_candidates_are_ten_at_most_the_same_every_time_and_only_what_is_seen() -> None:
    view = tree_of({})
    put(view, *(f"web {number}" for number in range(20)))
    put(view, "web secret", scopes=("user:owner",), owner="user:bob")

    first = offered(view, "web design", ANN)

    assert first == [f"web {number}" for number in range(10)]
    assert offered(view, "web design", ANN) == first
    assert "web secret" in offered(view, "web secret", BOB)
    assert "web secret" not in offered(view, "web secret", ANN)


def test_a_query_of_any_length_offers_within_bounds() -> None:
    view = tree_of({})
    put(view, "排序", "web")
    words = " ".join(uuid4_id(CountedIds(number)) for number in range(500))

    assert offered(view, "排序" * 20_000 + words) == ["排序"]
    assert offered(view, "") == []
