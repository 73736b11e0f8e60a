"""Automatic links of an info: by the model, or by mentioned names without a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pytest

from knowhub.core.language_models import ChatRequest
from knowhub.keywords.model import ROOT_ID, NewInfo
from tests.builders import local
from tests.fakes.queued_chat import read_fenced
from tests.unit.keywords.tree_hub import ANN, BOB, TreeHub, hub_with

pytestmark = pytest.mark.anyio


def answer_links(*pairs: tuple[str, str], names: Sequence[str] = ()) -> Callable[[ChatRequest], Mapping[str, Any]]:
    """Answer `link_info`: each pair is a candidate's name and a relation."""

    def answer(question: ChatRequest) -> Mapping[str, Any]:
        by_name = {candidate["name"]: candidate["idx"] for candidate in read_fenced(question)["candidates"]}
        links = [{"keyword_id": by_name[name], "relation": relation} for name, relation in pairs]
        return {"links": links, "suggested_names": list(names)}

    return answer


async def test_auto_link_asks_the_model_about_mentioned_keywords() -> None:
    hub = hub_with([answer_links(("Python", "PRIMARY"), ("装饰器", "EXAMPLE"))])
    for name in ("Python", "装饰器", "Go", "缓存"):
        await hub.keyword(name)

    created = await hub.infos.create(ANN, NewInfo("Python 的装饰器可以做缓存", auto_link=True))

    assert hub.chat.names(0) == ["Python", "装饰器", "缓存"]
    assert await hub.names_of(created.record["id"]) == {"Python": ("PRIMARY", "agent"), "装饰器": ("EXAMPLE", "agent")}
    assert created.degraded == []
    assert [(link["relation"], link["created_by"]) for link in created.decided["linked"]] == [
        ("PRIMARY", "agent"),
        ("EXAMPLE", "agent"),
    ]
    calls = (await hub.last()).agent_io
    assert calls is not None
    assert [call["function"] for call in calls] == ["link_info"]


async def test_auto_link_changes_no_explicit_link_and_skips_hidden_keywords(hub: TreeHub) -> None:
    explicit = await hub.keyword("Python")
    await hub.keyword("装饰器", scopes=["user:owner"])

    info = await hub.info("Python 的装饰器", explicit, ctx=BOB, auto_link=True)

    assert await hub.names_of(info, BOB) == {"Python": ("PRIMARY", "user")}
    assert await hub.names_of(info, local()) == {"Python": ("PRIMARY", "user")}


async def test_a_keyword_deleted_during_the_call_is_not_linked() -> None:
    hub = hub_with([answer_links(("Python", "PRIMARY"), ("Go", "PRIMARY"))])
    gone, stays = await hub.keyword("Python"), await hub.keyword("Go")
    hub.chat.happens = lambda: hub.keywords.delete(ANN, gone)

    created = await hub.infos.create(ANN, NewInfo("Python and Go", auto_link=True))

    assert [link["keyword_id"] for link in created.decided["linked"]] == [stays]


async def test_without_mentions_the_model_is_asked_only_if_it_may_create() -> None:
    hub = hub_with([answer_links(names=["Rust", "!!!"])])

    plain = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    assert (hub.chat.questions, plain.decided) == ([], {"linked": [], "created": []})


async def test_suggested_keywords_are_created_in_the_same_operation() -> None:
    hub = hub_with([answer_links(names=["Rust", "!!!", "rust", "内存安全"])], auto_link_creates=True)

    created = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    assert [operation.op for operation in await hub.list_operations()] == ["create_info", "create_root"]
    assert await hub.names_of(created.record["id"]) == {"Rust": ("PRIMARY", "agent"), "内存安全": ("PRIMARY", "agent")}
    assert len(created.decided["created"]) == 2
    shown = orjson.loads((await hub.keywords.get(ANN, created.decided["created"][0])).json)
    assert (shown["name"], shown["parent_id"], shown["level"]) == ("Rust", ROOT_ID, 1)


async def test_an_existing_suggested_keyword_is_linked_and_not_created() -> None:
    hub = hub_with([answer_links(names=["Rust"])], auto_link_creates=True)
    await hub.keyword("rust")

    created = await hub.infos.create(ANN, NewInfo("所有权与借用", auto_link=True))

    assert created.decided["created"] == []
    assert await hub.names_of(created.record["id"]) == {"rust": ("PRIMARY", "agent")}


async def test_a_hidden_longer_name_does_not_hide_a_shorter_one(hub: TreeHub) -> None:
    await hub.keyword("Python")
    await hub.keyword("Python 装饰器", scopes=["user:owner"])

    by_bob = await hub.info("Python 装饰器", ctx=BOB, auto_link=True)
    by_ann = await hub.info("Python 装饰器", auto_link=True)

    assert list(await hub.names_of(by_bob, local())) == ["Python"]
    assert list(await hub.names_of(by_ann)) == ["Python 装饰器"]


async def test_a_batch_links_mentions_without_a_model_call() -> None:
    hub = hub_with([])
    await hub.keyword("Python")

    batch = await hub.infos.create_batch(ANN, [NewInfo("Python", auto_link=True), NewInfo("Python")])

    assert hub.chat.questions == []
    assert await hub.names_of(batch.records[0].record["id"]) == {"Python": ("RELATED", "auto_link")}
    assert await hub.names_of(batch.records[1].record["id"]) == {}


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("苹果切开以后要泡盐水。", ["水果"]),
        ("苹果九月开发布会，企业客户也来。", ["公司"]),
        ("苹果", []),
        ("Please express your thanks.", []),
        ("We use Express here.", ["框架"]),
        ("用 express 写接口。", ["框架"]),
        ("Rotate refresh tokens.", ["安全"]),
        ("维生素 C 每天一百毫克。", []),
        ("指针是 C 最难的部分。", ["语言"]),
    ],
)
async def test_an_ambiguous_name_is_linked_only_with_support_of_neighbours(text: str, linked: list[str]) -> None:
    hub = hub_with()
    branches = {name: await hub.keyword(name) for name in ("水果", "公司", "框架", "安全", "语言")}
    await hub.keyword("苹果", parent_id=branches["水果"], description="一种水果，可以切开。")
    await hub.keyword("苹果", parent_id=branches["公司"], description="做手机的企业。")
    await hub.keyword("Express", parent_id=branches["框架"])
    await hub.keyword("Refresh token", parent_id=branches["安全"])
    await hub.keyword("C", parent_id=branches["语言"], description="有指针的语言。")

    created = await hub.infos.create(ANN, NewInfo(text, auto_link=True))

    rows = [orjson.loads(row) for row, _, _ in await hub.infos.list_keywords(ANN, created.record["id"])]
    assert [row["parent_id"] for row in rows] == [branches[name] for name in linked]


async def test_two_characters_inside_other_words_are_linked_only_with_support(hub: TreeHub) -> None:
    parent = await hub.keyword("金融")
    await hub.keyword("信用", parent_id=parent)
    await hub.keyword("贷款", parent_id=parent)

    unsupported = await hub.info("信用卡丢了", auto_link=True)
    supported = await hub.info("信用卡和贷款", auto_link=True)

    assert await hub.names_of(unsupported) == {}
    assert set(await hub.names_of(supported)) == {"信用", "贷款"}
