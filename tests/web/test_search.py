"""Search over HTTP: which records are found or dropped, their order, and the explanation."""

import asyncio
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.operation import Draft
from knowhub.knowledge.record_rules import write
from tests.builders import OWNER, knowledge_row
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio


async def search_contents(api: httpx.AsyncClient, q: str = "wait", **params: str | int) -> list[str]:
    answer = (await api.get("/api/knowledge/search", params={"q": q, **params})).json()
    assert answer["count"] == len(answer["results"])
    return [record["content"].removeprefix("wait ") for record in answer["results"]]


async def vote(api: httpx.AsyncClient, record: dict[str, Any], helpful: int = 0, harmful: int = 0) -> None:
    votes = [{"knowledge_id": record["id"], "is_helpful": number < helpful} for number in range(helpful + harmful)]
    await api.post("/api/knowledge/batch_update", json={"feedback_list": votes})


async def test_a_result_has_the_fields_of_the_contract_and_no_history(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record(
        "设置随机延迟", task="绕过反爬检测", types=["tool", "plan"], tags={"domain": "爬虫"}, score=4
    )
    await vote(api, record, helpful=2, harmful=1)

    answer = (await api.get("/api/knowledge/search", params={"q": "反爬"})).json()

    found = answer["results"][0]
    shown = ("id", "task", "content", "types", "type", "tags", "scopes", "owner", "resource_ids")
    assert answer["results"] == [
        {
            **{name: record[name] for name in shown},
            "eval": {
                "score": 4,
                "helpful": 3,
                "harmful": 1,
                "confidence": found["eval"]["confidence"],
                "effective": {"helpful": 0.66, "harmful": 1.0},
            },
            "quality_score": 5.0,
            "relevance": found["relevance"],
        }
    ]
    assert 0 < found["relevance"] <= 1
    assert 0.4 < found["eval"]["confidence"] < 0.5
    assert (answer["count"], answer["degraded"]) == (1, [])


@pytest.mark.parametrize("query", ["!!!", "。，、", "___", "🙂", "\u200b", "a" * 4096])
async def test_an_empty_query_finds_nothing(api: httpx.AsyncClient, save_record: SaveRecord, query: str) -> None:
    await save_record("wait for the element 等待元素的出现")

    assert await search_contents(api, query) == []


async def test_records_below_the_score_are_dropped(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("wait low", score=2)
    await save_record("wait fine", score=3)

    assert await search_contents(api) == ["fine"]
    assert sorted(await search_contents(api, min_score=1)) == ["fine", "low"]
    assert await search_contents(api, min_score=4) == []


async def test_a_record_that_is_voted_down_stays_reachable_with_a_warning(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    bad = await save_record("wait bad")
    await save_record("wait fine")
    for number in range(4):
        goal = {"session_id": f"s{number}", "goal_id": "g", "outcome": "failure", "wrong": [bad["id"]]}
        await api.post("/api/knowledge/outcome", json=goal)

    answer = (await api.get("/api/knowledge/search", params={"q": "wait"})).json()["results"]

    assert {item["content"]: "warning" in item for item in answer} == {"wait bad": True, "wait fine": False}
    assert [item["quality_score"] for item in answer if "warning" in item] == [-4.0]
    assert await search_contents(api, "bad") == ["bad"]


async def test_a_question_that_shares_a_common_word_only_finds_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    for number in range(30):
        await save_record(f"find the invoice number{number} 请查找第{number}张发票")

    assert await search_contents(api, "find a poem about autumn rain over mountains") == []
    assert await search_contents(api, "写一首关于秋雨和第一场雪的长诗") == []
    assert len(await search_contents(api, "find a poem about autumn rain over mountains", min_relevance=0)) == 5
    assert len(await search_contents(api, "find the invoice")) == 5
    assert await search_contents(api, "find the invoice", min_relevance=1) == []


async def test_an_explanation_names_results_dropped_as_irrelevant(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait for a while")

    params = {"q": "wait element", "min_relevance": "0.9", "explain": "true"}
    answer = (await api.get("/api/knowledge/search", params=params)).json()

    assert answer["explanation"]["filtered"] == [{"id": record["id"], "rule": "below_min_relevance"}]


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"types": "tool"}, ["a", "b"]),
        ({"types": "plan,definition"}, ["b", "c"]),
        ({"scopes": "team:web"}, ["b", "c"]),
        ({"scopes": "team:web", "types": "plan"}, ["b"]),
        ({"scopes": "team:web,public", "user_id": "li"}, ["a"]),
        ({"types": "usecase"}, []),
    ],
)
async def test_types_and_scopes_filter_before_anything_is_ranked(
    api: httpx.AsyncClient, save_record: SaveRecord, params: dict[str, str], names: list[str]
) -> None:
    await save_record("wait a", types=["tool"], scopes=["public"])
    await save_record("wait b", types=["tool", "plan"], scopes=["team:web"])
    await save_record("wait c", types=["definition"], scopes=["team:web"])

    assert sorted(await search_contents(api, **params)) == names


async def test_a_search_returns_top_k_results_if_enough_match(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for number in range(120):
        scopes = ["team:web"] if number % 2 else ["team:other"]
        await save_record(f"wait number{number}", scopes=scopes, score=2 if number % 4 == 1 else 3)

    assert len(await search_contents(api)) == 5
    assert len(await search_contents(api, top_k=100)) == 90
    assert len(await search_contents(api, top_k=25, team_id="web")) == 25
    assert len(await search_contents(api, top_k=100, team_id="web", min_score=1)) == 60


async def test_a_record_is_found_while_it_is_valid(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("wait always")
    await save_record("wait once", valid_from="2020-01-01", valid_to="2021-01-01")
    await save_record("wait later", valid_from="2999-01-01")

    assert await search_contents(api) == ["always"]
    # A record without `valid_from` begins when it is stored.
    assert await search_contents(api, as_of="2020-06-01") == ["once"]
    assert await search_contents(api, as_of="2020-01-01T00:00:00Z") == ["once"]
    assert await search_contents(api, as_of="2021-01-01T00:00:00Z") == []
    assert sorted(await search_contents(api, as_of="3000-01-01")) == ["always", "later"]


async def test_a_superseded_record_is_hidden_if_the_newer_one_is_visible(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    old = await save_record("wait old", scopes=["public"])
    new = await save_record("wait new", scopes=["team:web"], supersedes=old["id"])

    assert await search_contents(api) == ["new"]
    assert await search_contents(api, team_id="web") == ["new"]
    assert await search_contents(api, user_id="chen") == ["old"]
    assert await search_contents(api, as_of=old["created_at"], user_id="chen") == ["old"]
    assert (await api.get(f"/api/knowledge/{old['id']}")).status_code == 200
    await api.delete(f"/api/knowledge/{new['id']}")
    assert await search_contents(api) == ["old"]


@pytest.mark.parametrize("edges", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}])
async def test_a_circle_that_an_earlier_version_imported_hides_none_of_its_records(
    api: httpx.AsyncClient, hub: Hub, edges: dict[str, str]
) -> None:
    rows = [knowledge_row(item, content=f"wait {item}", supersedes=older) for item, older in edges.items()]
    await hub.store.commit("default", OWNER, lambda _: Draft("import_knowledge", list(map(write, rows))))

    assert sorted(await search_contents(api)) == sorted(edges)
    later = knowledge_row("later", content="wait later", supersedes="a")
    await hub.store.commit("default", OWNER, lambda _: Draft("import_knowledge", [write(later)]))
    assert sorted(await search_contents(api)) == sorted({*edges, "later"} - {"a"})


@pytest.mark.parametrize("valid_from", [None, "2022-01-01"])
async def test_a_superseding_record_applies_from_its_start_of_validity(
    api: httpx.AsyncClient, save_record: SaveRecord, valid_from: str | None
) -> None:
    old = await save_record("wait old", valid_from="2020-01-01")
    # Without `valid_from` it begins when it is stored.
    await save_record("wait new", supersedes=old["id"], valid_from=valid_from)

    assert await search_contents(api, as_of="2021-01-01") == ["old"]
    assert await search_contents(api) == ["new"]


async def test_relevance_comes_first_and_quality_on_request(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("wait", task="wait for the element to appear", score=3)
    await save_record("the element is named somewhere, after a wait, among many other words", score=5)

    by_relevance = (await api.get("/api/knowledge/search", params={"q": "wait element"})).json()
    by_quality = (await api.get("/api/knowledge/search", params={"q": "wait element", "order": "quality"})).json()

    assert [result["eval"]["score"] for result in by_relevance["results"]] == [3, 5]
    assert [result["eval"]["score"] for result in by_quality["results"]] == [5, 3]


async def test_profiles_and_near_scopes_come_first_among_equals(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    caller = {"user_id": "li", "agent_id": "bot", "project_id": "p", "team_id": "t", "org_id": "o"}
    ranked = ["user:li", "project:p", "agent:bot", "team:t", "org:o", "public"]
    for score, scope in zip((3, 3, 4, 4, 5, 5), ranked, strict=True):
        await save_record(f"wait {scope.partition(':')[0]}", scopes=[scope], owner="user:chen", score=score)
    await save_record("wait persona", scopes=["public"], owner="user:chen", type="user_profile")
    await save_record("wait", task="wait", scopes=["public"], owner="user:chen")
    params: dict[str, Any] = caller | {"top_k": 10}

    assert await search_contents(api, **params) == [
        "wait",
        "persona",
        "user",
        "project",
        "agent",
        "team",
        "org",
        "public",
    ]
    assert (await search_contents(api, order="scope", **params))[0] == "user"
    assert (await search_contents(api, order="quality", **params))[:2] in (["org", "public"], ["public", "org"])


async def test_an_explanation_names_reasons_and_dropped_records(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    kept = await save_record("wait for it", scopes=["team:web"])
    low = await save_record("wait low", scopes=["public"], score=1)
    gone = await save_record("wait gone", scopes=["public"], valid_to="2020-01-01")
    old = await save_record("wait old", scopes=["public"])
    await save_record("wait new", scopes=["public"], supersedes=old["id"], score=5)
    await save_record("wait hidden", user_id="chen", score=1)

    params = {"q": "wait for", "explain": "true", "team_id": "web"}
    answer = (await api.get("/api/knowledge/search", params=params)).json()

    why = next(result["why"] for result in answer["results"] if result["id"] == kept["id"])
    assert why["recall"]["stage"] == "lexical"
    assert (why["recall"]["rank"] in (1, 2), why["recall"]["score"] > 0) == (True, True)
    assert why["recall"]["matched"] == ["wait"]
    assert why["quality"]["quality_score"] == 4.0
    assert why["ranking"]["worth"] == pytest.approx(why["ranking"]["relevance"] * why["ranking"]["newer"], rel=0.01)
    assert why["scope"] == {"seen_by": "team:web", "rank": 3}
    assert why["order"] == "auto"
    assert {item["id"]: item["rule"] for item in answer["explanation"]["filtered"]} == {
        low["id"]: "score_below_min_score",
        gone["id"]: "no_longer_valid",
        old["id"]: "superseded",
    }
    assert answer["explanation"]["filtered_count"] == 3


async def test_chinese_is_found_in_both_scripts_and_widths(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("用户偏好使用 TypeScript 而非 JavaScript，注重类型安全")

    for query in ("类型安全", "類型安全", "ＴｙｐｅＳｃｒｉｐｔ", "typescript"):
        assert len(await search_contents(api, query)) == 1


async def test_a_word_that_most_of_few_records_have_finds_nothing_alone(api: httpx.AsyncClient) -> None:
    subjects = ("bus to the airport", "PDF of an invoice", "open port", "font of a page", "largest file", "old commit")
    tasks = [*(f"Find the {subject}" for subject in subjects), "Renew a passport", "Water the plants"]
    for task in tasks:
        saved = await api.post("/api/knowledge", json={"task": task, "content": "Ask at the desk."})
        assert saved.status_code == 201

    for query in ("find a recipe for apple pie", "find my lost keys"):
        found = (await api.get("/api/knowledge/search", params={"q": query})).json()
        assert found["results"] == [], query
    right = (await api.get("/api/knowledge/search", params={"q": "find the largest file"})).json()
    assert right["results"][0]["task"] == "Find the largest file"


async def test_a_copy_of_another_owner_does_not_come_before_what_many_found_helpful(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    task = "Rotate the backup tapes of the archive"
    shared = {"task": task, "scopes": ["public"]}
    trusted = await save_record("Take the oldest tape out on Monday.", user_id="ines", **shared)
    for number in range(5):
        helpful = {"knowledge_id": trusted["id"], "is_helpful": True}
        body = {"feedback_list": [helpful], "user_id": f"reader-{number}"}
        assert (await api.post("/api/knowledge/batch_update", json=body)).status_code == 200
    # A record counts as newer from half a second on.
    await asyncio.sleep(0.6)
    await save_record("Degauss every tape at once.", user_id="omar", **shared)
    question = "rotate the tapes of the archive"

    assert (await search_contents(api, question, user_id="uma"))[0] == "Take the oldest tape out on Monday."

    await save_record("Take the oldest tape out on Friday.", user_id="ines", **shared)

    assert (await search_contents(api, question, user_id="uma"))[0] == "Take the oldest tape out on Friday."
