"""The verbs on infos and links: who may do what, what is linked by itself, and what is answered when it cannot be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from knowhub.core.chat import Question
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Operation, is_live
from knowhub.core.request_context import RequestContext
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.caches import ResultCache
from knowhub.keywords.infos import InfoService
from knowhub.keywords.model import (
    INFOS,
    KEYWORDS,
    LINKS,
    ROOT_ID,
    InfoQuery,
    InfoSort,
    Linking,
    NewInfo,
    NewKeyword,
    Options,
    RelationType,
    link_id,
)
from knowhub.keywords.recent import Recents
from knowhub.keywords.service import Deletion, KeywordService
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.stores.files.derived.invalidation import Invalidation
from tests.builders import CountedIds, FakeClock, caller, local, retry_key
from tests.fakes.memory_store import MemoryStore
from tests.fakes.scripted_chat import Answer, Meanwhile, ScriptedChat, candidates_in

pytestmark = pytest.mark.anyio

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
STRANGER = caller(user_id="eve")


@dataclass
class Hub:
    """The services on one store, beside the model that they ask."""

    store: MemoryStore
    keywords: KeywordService
    infos: InfoService
    chat: ScriptedChat | None
    clock: FakeClock

    async def keyword(self, name: str, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.keywords.create(ctx, NewKeyword(name, **fields), auto_place=False)).row["id"])

    async def info(self, content: str, *keyword_ids: str, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
        return str((await self.infos.create(ctx, NewInfo(content, keyword_ids=keyword_ids, **fields))).row["id"])

    async def names_of(self, info_id: str, ctx: RequestContext = ANN) -> dict[str, tuple[str, str]]:
        """Return what the info is linked to, by name: relation and maker."""
        linked = await self.infos.keywords_of(ctx, info_id)
        return {orjson.loads(row)["name"]: (relation.value, maker) for row, relation, maker in linked}

    async def contents_of(self, keyword_id: str, ctx: RequestContext = ANN, **query: Any) -> list[str]:  # noqa: ANN401 -- any part of a query
        rows = await self.infos.of_keyword(ctx, keyword_id, InfoQuery(**query))
        return [str(orjson.loads(row)["content"]) for row in rows]

    async def last(self) -> Operation:
        return await anext(self.store.operations("default"))


def hub_with(answers: Sequence[Answer] | None = None, *, cached: bool = False, **options: Any) -> Hub:  # noqa: ANN401 -- any option
    """Build the services; with `answers` there is a model that gives them, without there is none."""
    clock, ids, text = FakeClock(), CountedIds(), KeywordTextRules()
    store = MemoryStore(clock, CountedIds())
    chat = None if answers is None else ScriptedChat(answers)
    settings = Options(**options)
    agent = KeywordAgent(chat, Recents(), settings)
    caches = ResultCache(clock) if cached else None
    if caches is not None:
        store.subscribe(Invalidation(caches, Recents()))
    return Hub(
        store,
        KeywordService(store, text, ids, agent, settings),
        InfoService(store, text, ids, agent, settings, caches),
        chat,
        clock,
    )


@pytest.fixture
def hub() -> Hub:
    return hub_with()


async def test_an_info_and_its_links_are_one_operation(hub: Hub) -> None:
    one, other = await hub.keyword("排序"), await hub.keyword("算法")
    before = hub.store.last_seq

    created = await hub.infos.create(ANN, NewInfo("冒泡排序是稳定的", keyword_ids=[one, other, one]))

    assert hub.store.last_seq == before + 1
    operation = await hub.last()
    assert (operation.op, operation.operation_id) == ("create_info", created.operation_id)
    assert [change.collection for change in operation.changes] == [INFOS, LINKS, LINKS]
    assert await hub.names_of(created.row["id"]) == {"排序": ("PRIMARY", "user"), "算法": ("PRIMARY", "user")}
    assert (created.row["owner"], created.row["scopes"], created.degraded) == ("user:ann", ["public"], ())


async def test_a_link_tells_who_made_it(hub: Hub) -> None:
    keyword = await hub.keyword("排序")

    info = await hub.info("x", keyword, created_by="crawler-7")

    assert await hub.names_of(info) == {"排序": ("PRIMARY", "crawler-7")}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"source": "s" * 2_049}, "source"),
        ({"keyword_ids": [ROOT_ID, "nowhere"]}, "keyword_ids.1"),
        ({"keyword_ids": [ROOT_ID] * 1_001}, "keyword_ids"),
        ({"created_by": ""}, "created_by"),
    ],
)
async def test_an_info_that_cannot_stand_is_refused_by_the_name_of_its_field(
    hub: Hub, fields: Mapping[str, Any], field: str
) -> None:
    new = NewInfo(**{"content": "good"} | dict(fields))

    with pytest.raises(InvalidInput) as alone:
        await hub.infos.create(ANN, new)
    with pytest.raises(InvalidInput) as in_batch:
        await hub.infos.create_batch(ANN, [NewInfo("good"), new])

    assert [error.field for error in alone.value.errors] == [field]
    assert [error.field for error in in_batch.value.errors] == [f"items.1.{field}"]
    assert hub.store.last_seq == 0


async def test_a_keyword_that_the_caller_does_not_see_is_unknown_to_them(hub: Hub) -> None:
    hidden, shown = await hub.keyword("hidden", scopes=["user:owner"]), await hub.keyword("shown")
    info = await hub.info("x", shown, ctx=BOB)

    with pytest.raises(InvalidInput, match=r"keyword_ids\.0"):
        await hub.info("x", hidden, ctx=BOB)
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.link(BOB, info, hidden)
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.of_keyword(BOB, hidden, InfoQuery())
    with pytest.raises(NotFound, match=f"no keyword with id '{hidden}'"):
        await hub.infos.page(BOB, hidden, 10, None)

    assert await hub.infos.of_keyword(ANN, hidden, InfoQuery()) == []


async def test_an_info_is_seen_by_its_audience_and_unknown_to_all_others(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    shared = await hub.info("shared", keyword, scopes=["team:web"])
    own = await hub.info("own", keyword, scopes=["user:owner"])

    assert orjson.loads((await hub.infos.get(BOB, shared)).json)["content"] == "shared"
    assert await hub.contents_of(keyword, ANN) == ["own", "shared"]
    assert await hub.contents_of(keyword, BOB) == ["shared"]
    assert await hub.contents_of(keyword, STRANGER) == []
    for ctx, info_id in ((BOB, own), (STRANGER, shared), (STRANGER, "nowhere")):
        for refused in (
            hub.infos.get(ctx, info_id),
            hub.infos.keywords_of(ctx, info_id),
            hub.infos.update(ctx, info_id, {"content": "theirs"}),
            hub.infos.delete(ctx, info_id),
            hub.infos.link(ctx, info_id, keyword),
            hub.infos.unlink(ctx, info_id, keyword),
        ):
            with pytest.raises(NotFound, match=f"no info with id '{info_id}'"):
                await refused


async def test_only_its_owner_changes_deletes_and_links_an_info(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)

    for refused in (
        hub.infos.update(BOB, info, {"content": "theirs"}),
        hub.infos.delete(BOB, info),
        hub.infos.link(BOB, info, ROOT_ID),
        hub.infos.unlink(BOB, info, keyword),
    ):
        with pytest.raises(Forbidden):
            await refused
    with pytest.raises(Forbidden):
        await hub.info("x", owner="user:ann", ctx=BOB)

    assert (await hub.infos.get(ANN, info)).version == 1
    assert await hub.names_of(info) == {"k": ("PRIMARY", "user")}


async def test_an_update_counts_and_one_that_changes_nothing_does_not(hub: Hub) -> None:
    info = await hub.info("x")

    changed = await hub.infos.update(ANN, info, {"content": "y", "metadata": {"page": 1}}, expected=1)
    again = await hub.infos.update(ANN, info, {"content": "y"}, expected=2)

    assert (changed.row["version"], changed.row["content"]) == (2, "y")
    assert (again.operation_id, again.row["version"]) == (None, 2)
    assert (await hub.last()).op == "update_info"
    for refused in (hub.infos.update(ANN, info, {"content": "z"}, expected=1), hub.infos.delete(ANN, info, expected=1)):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}


async def test_deleting_an_info_takes_its_links_with_it_in_one_operation(hub: Hub) -> None:
    one, other = await hub.keyword("one"), await hub.keyword("other")
    info = await hub.info("x", one, other)

    operation_id = await hub.infos.delete(ANN, info)

    operation = await hub.last()
    assert (operation.operation_id, operation.op) == (operation_id, "delete_info")
    assert sorted(change.id for change in operation.changes) == sorted([info, link_id(info, one), link_id(info, other)])
    assert not any(is_live(change.after) for change in operation.changes)
    assert await hub.contents_of(one) == []
    with pytest.raises(NotFound):
        await hub.infos.get(ANN, info)


async def test_linking_again_replaces_relation_and_maker_and_the_same_ones_change_nothing(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x")

    first = await hub.infos.link(ANN, info, keyword)
    same = await hub.infos.link(ANN, info, keyword)
    taken_over = await hub.infos.link(ANN, info, keyword, Linking(created_by="someone else"))
    other = await hub.infos.link(ANN, info, keyword, Linking(RelationType.EXAMPLE, "crawler-7"))

    assert (first.row["relation"], first.row["version"]) == ("PRIMARY", 1)
    assert (same.operation_id, same.row) == (None, first.row)
    assert (taken_over.row["created_by"], taken_over.row["version"]) == ("someone else", 2)
    assert (other.row["relation"], other.row["version"]) == ("EXAMPLE", 3)
    assert await hub.contents_of(keyword) == ["x"]
    assert await hub.contents_of(keyword, relation=RelationType.EXAMPLE) == ["x"]
    assert await hub.contents_of(keyword, relation=RelationType.PRIMARY) == []


async def test_a_pair_that_was_unlinked_is_linked_anew_with_a_higher_version(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)

    await hub.infos.unlink(ANN, info, keyword)
    gone = await hub.names_of(info)
    again = await hub.infos.link(ANN, info, keyword, Linking(RelationType.SOURCE))

    assert gone == {}
    assert (again.row["version"], again.row["relation"]) == (3, "SOURCE")
    assert await hub.names_of(info) == {"k": ("SOURCE", "user")}


async def test_a_link_is_changed_and_taken_away_at_the_version_that_was_read_only(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    info = await hub.info("x", keyword)
    await hub.infos.link(ANN, info, keyword, Linking(RelationType.SOURCE, expected=1))
    seq = hub.store.last_seq

    for refused in (
        hub.infos.link(ANN, info, keyword, Linking(RelationType.EXAMPLE, expected=1)),
        # Also where it would change nothing: who read version 1 does not know that.
        hub.infos.link(ANN, info, keyword, Linking(RelationType.SOURCE, expected=1)),
        hub.infos.unlink(ANN, info, keyword, expected=1),
    ):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}
    with pytest.raises(Conflict) as unlinked:
        await hub.infos.link(ANN, info, ROOT_ID, Linking(expected=1))

    assert unlinked.value.extra == {"current_version": None}
    assert hub.store.last_seq == seq
    await hub.infos.unlink(ANN, info, keyword, expected=2)
    assert await hub.names_of(info) == {}


async def test_an_item_for_somebody_else_is_refused_by_its_number(hub: Hub) -> None:
    with pytest.raises(Forbidden, match=r"^items\.1: ") as refused:
        await hub.infos.create_batch(ANN, [NewInfo("mine"), NewInfo("theirs", owner="user:bob")])

    assert refused.value.extra["item"] == 1


async def test_what_is_not_linked_is_not_unlinked(hub: Hub) -> None:
    keyword, hidden = await hub.keyword("k"), await hub.keyword("h", BOB)
    info = await hub.info("x", keyword, hidden)
    await hub.keywords.update(BOB, hidden, {"scopes": ["user:owner"]})
    await hub.infos.unlink(ANN, info, keyword)

    for keyword_id in (keyword, ROOT_ID, hidden, "nowhere"):
        with pytest.raises(NotFound, match="no link"):
            await hub.infos.unlink(ANN, info, keyword_id)

    assert await hub.names_of(info) == {}
    assert await hub.names_of(info, BOB) == {"h": ("PRIMARY", "user")}


async def test_infos_hang_on_the_root_before_it_has_a_row(hub: Hub) -> None:
    info = await hub.info("x", ROOT_ID)

    assert hub.store.view("default").raw(KEYWORDS, ROOT_ID) is None
    assert await hub.contents_of(ROOT_ID) == ["x"]
    assert await hub.names_of(info) == {"root": ("PRIMARY", "user")}


async def test_a_link_needs_a_maker(hub: Hub) -> None:
    info = await hub.info("x")

    with pytest.raises(InvalidInput, match="created_by"):
        await hub.infos.link(ANN, info, ROOT_ID, Linking(created_by=" "))


async def test_pages_are_cut_after_what_the_caller_does_not_see_is_left_out(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    for number in range(10):
        await hub.info(f"{number}", keyword, scopes=["user:owner"] if number % 2 else ["public"])

    assert await hub.contents_of(keyword, BOB, size=2) == ["8", "6"]
    assert await hub.contents_of(keyword, BOB, page=2, size=2) == ["0"]
    assert await hub.contents_of(keyword, BOB, page=3, size=2) == []
    assert await hub.contents_of(keyword, ANN, page=1, size=4) == ["5", "4", "3", "2"]


@pytest.mark.parametrize(
    ("query", "field"),
    [(InfoQuery(page=-1), "page"), (InfoQuery(size=0), "size"), (InfoQuery(size=1_001), "size")],
)
async def test_a_page_that_no_list_has_is_refused(hub: Hub, query: InfoQuery, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await hub.infos.of_keyword(ANN, ROOT_ID, query)

    assert [error.field for error in refused.value.errors] == [field]


async def test_infos_of_a_keyword_come_newest_first_or_by_relation_and_say_how_they_belong(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    for relation in (RelationType.RELATED, RelationType.PRIMARY, RelationType.SOURCE, RelationType.EXAMPLE):
        await hub.infos.link(ANN, await hub.info(relation.value), keyword, Linking(relation, "me"))
    newest = await hub.info("newest", keyword)

    rows = [orjson.loads(row) for row in await hub.infos.of_keyword(ANN, keyword, InfoQuery())]

    assert [row["content"] for row in rows] == ["newest", "EXAMPLE", "SOURCE", "PRIMARY", "RELATED"]
    assert await hub.contents_of(keyword, sort=InfoSort.RELEVANCE) == [
        "newest",
        "PRIMARY",
        "EXAMPLE",
        "SOURCE",
        "RELATED",
    ]
    stored = orjson.loads((await hub.infos.get(ANN, newest)).json)
    assert rows[0] == {**stored, "relation": "PRIMARY", "created_by": "user"}
    assert (rows[1]["relation"], rows[1]["created_by"]) == ("EXAMPLE", "me")


async def test_the_keywords_of_an_info_come_primary_first_without_those_that_the_caller_does_not_see(hub: Hub) -> None:
    primary, example = await hub.keyword("primary"), await hub.keyword("example")
    hidden = await hub.keyword("hidden", scopes=["user:owner"])
    info = await hub.info("x", hidden)
    await hub.infos.link(ANN, info, example, Linking(RelationType.EXAMPLE))
    await hub.infos.link(ANN, info, primary)

    assert list(await hub.names_of(info)) == ["primary", "hidden", "example"]
    assert list(await hub.names_of(info, BOB)) == ["primary", "example"]


async def test_a_list_of_infos_goes_on_where_it_ended(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    for number in range(5):
        await hub.info(f"{number}", keyword, scopes=["user:owner"] if number == 2 else ["public"])
        await hub.info(f"elsewhere {number}")

    for keyword_id, expected in (
        (keyword, ["4", "3", "1", "0"]),
        (None, [f"{prefix}{n}" for n in (4, 3, 2, 1, 0) for prefix in ("elsewhere ", "") if prefix or n != 2]),
    ):
        listed, before = [], None
        while True:
            page = await hub.infos.page(BOB, keyword_id, 2, before)
            listed += [orjson.loads(row)["content"] for row in page.records]
            before = page.next_before
            if before is None:
                break
        assert listed == expected
    with pytest.raises(InvalidInput, match="limit"):
        await hub.infos.page(BOB, None, 0, None)


async def test_a_list_is_found_behind_any_number_of_infos_that_the_caller_does_not_see(hub: Hub) -> None:
    await hub.info("oldest")
    for _ in range(6):
        await hub.infos.create_batch(ANN, [NewInfo("own", scopes=["user:owner"])] * 1_000)
    await hub.info("newest")

    page = await hub.infos.page(BOB, None, 2, None)
    first = await hub.infos.page(BOB, None, 1, None)

    assert [orjson.loads(row)["content"] for row in page.records] == ["newest", "oldest"]
    assert page.next_before is None
    assert [orjson.loads(row)["content"] for row in first.records] == ["newest"]
    assert first.next_before is not None


async def test_a_batch_is_one_operation_and_answers_in_order(hub: Hub) -> None:
    keyword = await hub.keyword("k")
    before = hub.store.last_seq

    batch = await hub.infos.create_batch(ANN, [NewInfo("one", keyword_ids=[keyword]), NewInfo("two")])

    assert hub.store.last_seq == before + 1
    assert (await hub.last()).op == "batch_create_infos"
    assert [row["content"] for row in batch.rows] == ["one", "two"]
    assert await hub.contents_of(keyword) == ["one"]


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_has_between_one_and_a_thousand_infos(hub: Hub, count: int) -> None:
    with pytest.raises(InvalidInput, match="items"):
        await hub.infos.create_batch(ANN, [NewInfo("x")] * count)


async def test_a_retry_gets_the_first_answer(hub: Hub) -> None:
    first = await hub.infos.create(ANN, NewInfo("x"), retry_key())
    again = await hub.infos.create(ANN, NewInfo("x"), retry_key())

    assert (again.row, again.operation_id) == (first.row, first.operation_id)


def linking(*pairs: tuple[str, str], names: Sequence[str] = ()) -> Callable[[Question], Mapping[str, Any]]:
    """Answer `link_info`: each pair is a candidate's name and a relation."""

    def answer(question: Question) -> Mapping[str, Any]:
        by_name = {one.name: one.idx for one in candidates_in(question.messages)}
        links = [{"keyword_id": by_name[name], "relation": relation} for name, relation in pairs]
        return {"links": links, "suggested_names": list(names)}

    return answer


async def test_auto_link_asks_the_model_about_what_the_content_mentions() -> None:
    hub = hub_with([linking(("Python", "PRIMARY"), ("装饰器", "EXAMPLE"))])
    for name in ("Python", "装饰器", "Go", "缓存"):
        await hub.keyword(name)

    created = await hub.infos.create(ANN, NewInfo("Python 的装饰器可以做缓存", auto_link=True))

    assert hub.chat is not None
    assert [one.name for one in candidates_in(hub.chat.questions[0].messages)] == ["Python", "装饰器", "缓存"]
    assert await hub.names_of(created.row["id"]) == {"Python": ("PRIMARY", "agent"), "装饰器": ("EXAMPLE", "agent")}
    assert created.degraded == []
    assert [(link["relation"], link["created_by"]) for link in created.decided["linked"]] == [
        ("PRIMARY", "agent"),
        ("EXAMPLE", "agent"),
    ]
    calls = (await hub.last()).agent_io
    assert calls is not None
    assert [call["function"] for call in calls] == ["link_info"]


@pytest.mark.parametrize("answers", [None, [RuntimeError("down")], [TimeoutError()], [{"nonsense": 1}]])
async def test_without_a_model_or_when_it_fails_all_that_is_mentioned_is_related(
    answers: Sequence[Answer] | None,
) -> None:
    hub = hub_with(answers)
    for name in ("Python", "装饰器", "Go"):
        await hub.keyword(name)

    created = await hub.infos.create(ANN, NewInfo("Python 的装饰器", auto_link=True))

    assert await hub.names_of(created.row["id"]) == {
        "Python": ("RELATED", "auto_link"),
        "装饰器": ("RELATED", "auto_link"),
    }
    assert created.degraded == ([] if answers is None else ["llm"])
    assert (await hub.last()).op == "create_info"


async def test_auto_link_leaves_explicit_links_as_they_are_and_hidden_keywords_alone(hub: Hub) -> None:
    explicit = await hub.keyword("Python")
    await hub.keyword("装饰器", scopes=["user:owner"])

    info = await hub.info("Python 的装饰器", explicit, ctx=BOB, auto_link=True)

    assert await hub.names_of(info, BOB) == {"Python": ("PRIMARY", "user")}
    assert await hub.names_of(info, local()) == {"Python": ("PRIMARY", "user")}


async def test_a_keyword_that_vanished_while_the_model_thought_is_left_out() -> None:
    hub = hub_with()
    gone, stays = await hub.keyword("Python"), await hub.keyword("Go")
    answers = [linking(("Python", "PRIMARY"), ("Go", "PRIMARY"))]
    chat = Meanwhile(answers, lambda: hub.keywords.delete(ANN, gone, Deletion()))
    agent = KeywordAgent(chat, Recents(), Options())
    infos = InfoService(hub.store, KeywordTextRules(), CountedIds(1_000), agent, Options())

    created = await infos.create(ANN, NewInfo("Python and Go", auto_link=True))

    assert [link["keyword_id"] for link in created.decided["linked"]] == [stays]


async def test_a_refused_info_asks_no_model() -> None:
    hub = hub_with([])
    await hub.keyword("Python")

    with pytest.raises(InvalidInput):
        await hub.infos.create(ANN, NewInfo("Python", keyword_ids=["nowhere"], auto_link=True))

    assert hub.chat is not None
    assert hub.chat.questions == []


async def test_where_nothing_is_mentioned_the_model_is_not_asked_unless_it_may_create() -> None:
    hub = hub_with([linking(names=["Rust", "!!!"])])

    plain = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    assert hub.chat is not None
    assert (hub.chat.questions, plain.decided) == ([], {"linked": [], "created": []})


async def test_where_the_policy_allows_it_suggested_keywords_are_created_in_the_same_operation() -> None:
    hub = hub_with([linking(names=["Rust", "!!!", "rust", "内存安全"])], auto_link_creates=True)

    created = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    operations = [operation.op async for operation in hub.store.operations("default")]
    assert operations == ["create_info", "create_root"]
    assert await hub.names_of(created.row["id"]) == {"Rust": ("PRIMARY", "agent"), "内存安全": ("PRIMARY", "agent")}
    assert len(created.decided["created"]) == 2
    shown = orjson.loads((await hub.keywords.get(ANN, created.decided["created"][0])).json)
    assert (shown["name"], shown["parent_id"], shown["level"]) == ("Rust", ROOT_ID, 1)


async def test_a_suggested_name_that_is_there_already_is_linked_and_not_made_again() -> None:
    hub = hub_with([linking(names=["Rust"])], auto_link_creates=True)
    await hub.keyword("rust")

    created = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    assert created.decided["created"] == []
    assert await hub.names_of(created.row["id"]) == {"rust": ("PRIMARY", "agent")}


async def test_where_something_fits_nothing_is_created() -> None:
    hub = hub_with([linking(("Python", "PRIMARY"), names=["Rust"])], auto_link_creates=True)
    await hub.keyword("Python")

    created = await hub.infos.create(ANN, NewInfo("Python", auto_link=True))

    assert created.decided["created"] == []
    assert await hub.names_of(created.row["id"]) == {"Python": ("PRIMARY", "agent")}


async def test_a_longer_name_that_the_caller_does_not_see_hides_no_shorter_one(hub: Hub) -> None:
    await hub.keyword("Python")
    await hub.keyword("Python 装饰器", scopes=["user:owner"])

    by_bob = await hub.info("Python 装饰器", ctx=BOB, auto_link=True)
    by_ann = await hub.info("Python 装饰器", auto_link=True)

    assert list(await hub.names_of(by_bob, local())) == ["Python"]
    assert list(await hub.names_of(by_ann)) == ["Python 装饰器"]


async def test_a_retry_of_an_automatic_link_gets_the_first_answer_in_full() -> None:
    hub = hub_with([RuntimeError("down")])
    await hub.keyword("Python")
    new = NewInfo("Python", auto_link=True)

    first = await hub.infos.create(ANN, new, retry_key())
    again = await hub.infos.create(ANN, new, retry_key())

    assert (again.row, again.degraded, again.decided) == (first.row, ["llm"], first.decided)
    assert len(again.decided["linked"]) == 1
    assert hub.chat is not None
    assert len(hub.chat.questions) == 1


async def test_a_batch_links_what_is_mentioned_and_asks_no_model() -> None:
    hub = hub_with([])
    await hub.keyword("Python")

    batch = await hub.infos.create_batch(ANN, [NewInfo("Python", auto_link=True), NewInfo("Python")])

    assert hub.chat is not None
    assert hub.chat.questions == []
    assert await hub.names_of(batch.rows[0]["id"]) == {"Python": ("RELATED", "auto_link")}
    assert await hub.names_of(batch.rows[1]["id"]) == {}


async def test_a_kept_page_is_the_one_that_would_be_made_after_any_change() -> None:
    hub = hub_with(cached=True)
    keyword, other = await hub.keyword("k"), await hub.keyword("other")
    first, hidden = await hub.info("first", keyword), await hub.info("hidden", keyword, scopes=["user:owner"])
    assert await hub.contents_of(keyword, BOB) == ["first"]

    await hub.infos.update(ANN, first, {"content": "changed"})
    assert await hub.contents_of(keyword, BOB) == ["changed"]
    await hub.infos.update(ANN, hidden, {"scopes": ["public"]})
    assert await hub.contents_of(keyword, BOB) == ["hidden", "changed"]
    await hub.infos.link(ANN, await hub.info("late"), keyword)
    assert await hub.contents_of(keyword, BOB) == ["late", "hidden", "changed"]
    await hub.infos.unlink(ANN, hidden, keyword)
    assert await hub.contents_of(keyword, BOB) == ["late", "changed"]
    await hub.infos.delete(ANN, first)
    assert await hub.contents_of(keyword, BOB) == ["late"]
    await hub.keywords.merge(ANN, keyword, other)
    assert await hub.contents_of(other, BOB) == ["late"]
    with pytest.raises(NotFound):
        await hub.contents_of(keyword, BOB)


async def test_a_page_is_kept_for_an_hour() -> None:
    hub = hub_with(cached=True)
    keyword = await hub.keyword("k")
    await hub.info("x", keyword)
    first = await hub.infos.of_keyword(ANN, keyword, InfoQuery())

    hub.clock.advance(3_599)
    just_before = await hub.infos.of_keyword(ANN, keyword, InfoQuery())
    hub.clock.advance(1)
    over = await hub.infos.of_keyword(ANN, keyword, InfoQuery())

    assert just_before is first
    assert over is not first
    assert over == first


async def test_a_page_is_kept_for_those_only_who_see_the_same() -> None:
    hub = hub_with(cached=True)
    keyword = await hub.keyword("k")
    await hub.info("own", keyword, scopes=["user:owner"])

    assert await hub.contents_of(keyword, ANN) == ["own"]
    assert await hub.contents_of(keyword, BOB) == []
    assert await hub.infos.of_keyword(ANN, keyword, InfoQuery()) is await hub.infos.of_keyword(
        ANN, keyword, InfoQuery()
    )
    assert await hub.contents_of(keyword, ANN, relation=RelationType.EXAMPLE) == []
    assert await hub.contents_of(keyword, ANN, page=1) == []
