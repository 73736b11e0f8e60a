"""One question over HTTP to knowledge, keywords and memory together."""

import httpx
import pytest

from tests.web.conftest import SaveRecord
from tests.web.sessions import commit_session
from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio


TAGS = {"topic": "async"}


@pytest.fixture
async def ids_by_source(api: httpx.AsyncClient, save_record: SaveRecord) -> dict[str, str]:
    """Save a row in each source, and return their ids."""
    record = await save_record(
        "Asyncio: gather waits for all of them.", task="wait for coroutines", types=["tool"], tags=TAGS
    )
    named = await create_keyword(api, "Asyncio")
    hanging = await create_info(api, "asyncio.TaskGroup is safer since 3.11", named["id"])
    await commit_session(api, "s-1", "yesterday asyncio deadlocked in the gateway")
    return {"record": record["id"], "keyword": named["id"], "info": hanging["id"]}


async def test_every_source_answers_and_each_item_names_its_source(
    api: httpx.AsyncClient, ids_by_source: dict[str, str]
) -> None:
    response = await api.get("/api/recall", params={"q": "asyncio"})

    answer = response.json()
    assert response.status_code == 200
    # The keyword is named. The others are near, so that its info waits until each had a turn.
    assert [result["source"] for result in answer["results"][:3]] == ["keywords", "memory", "knowledge"]
    by_kind = {result["kind"]: result for result in answer["results"]}
    assert {kind: by_kind[kind]["id"] for kind in ("record", "keyword", "info")} == ids_by_source
    assert by_kind["sessions"]["message_ids"] == ["m-1"]
    assert (answer["count"], answer["degraded"]) == (len(answer["results"]), [])
    assert {kind: by_kind[kind]["relevance"] for kind in ("keyword", "info")} == {"keyword": 1.0, "info": 1.0}
    assert all(0 < item["relevance"] <= 1 for item in answer["results"])


@pytest.mark.usefixtures("ids_by_source")
async def test_the_reference_of_an_item_can_be_read(api: httpx.AsyncClient) -> None:
    answer = (await api.get("/api/recall", params={"q": "asyncio"})).json()

    for item in answer["results"]:
        assert (await api.get(item["read"])).status_code == 200, item


@pytest.mark.parametrize(
    ("params", "sources"),
    [
        ({"sources": "memory"}, {"memory"}),
        ({"sources": "keywords,knowledge"}, {"keywords", "knowledge"}),
        ({"types": "plan"}, {"keywords", "memory"}),
        ({"categories": "events"}, {"knowledge", "keywords"}),
        ({"min_relevance": "1"}, {"keywords"}),
        ({"min_relevance": "0.01"}, {"knowledge", "keywords", "memory"}),
        ({"tag.topic": "async"}, {"knowledge"}),
        ({"tag.topic": "other"}, set()),
        ({"since": "2020-01-01"}, {"knowledge", "keywords", "memory"}),
        ({"until": "2020-01-01"}, set()),
    ],
)
@pytest.mark.usefixtures("ids_by_source")
async def test_sources_and_filters_narrow_it(api: httpx.AsyncClient, params: dict[str, str], sources: set[str]) -> None:
    answer = (await api.get("/api/recall", params={"q": "asyncio", **params})).json()

    assert {result["source"] for result in answer["results"]} == sources


@pytest.mark.usefixtures("ids_by_source")
async def test_top_k_bounds_all_sources_together(api: httpx.AsyncClient) -> None:
    answer = (await api.get("/api/recall", params={"q": "asyncio", "top_k": 2})).json()

    assert [result["source"] for result in answer["results"]] == ["keywords", "memory"]


@pytest.mark.parametrize("path", ["/api/recall", "/api/context/search", "/api/knowledge/search"])
async def test_all_sources_share_the_maximum_length_of_a_question(api: httpx.AsyncClient, path: str) -> None:
    longest = await api.get(path, params={"q": "x" * 4_096})
    longer = await api.get(path, params={"q": "x" * 4_097})

    assert (longest.status_code, longest.json()["degraded"]) == (200, [])
    assert (longer.status_code, longer.json()["errors"][0]["field"]) == (422, "q")


async def test_an_info_is_found_by_words_of_its_text_and_a_keyword_by_its_description(api: httpx.AsyncClient) -> None:
    top = await create_keyword(api, "Deployment", description="how the gateway is rolled out to Frankfurt")
    hanging = await create_info(api, "The certificate of the proxy expires in November", top["id"])

    by_info = (await api.get("/api/recall", params={"q": "when does the proxy certificate expire"})).json()["results"]
    by_text = (await api.get("/api/recall", params={"q": "rolled out to Frankfurt"})).json()["results"]

    assert [(item["kind"], item["id"], item["why"]) for item in by_info] == [
        ("info", hanging["id"], "its text fits the question")
    ]
    assert (by_text[0]["kind"], by_text[0]["id"]) == ("keyword", top["id"])
    assert 0 < by_info[0]["relevance"] <= 1


@pytest.mark.parametrize(
    "question",
    [
        "what is the name of the painter of this portrait",
        "where do the swallows go in winter",
        "明早喝哪一种茶",
        "孩子不肯睡觉",
    ],
)
async def test_a_tree_is_silent_about_what_it_does_not_have(api: httpx.AsyncClient, question: str) -> None:
    for name, alias, description in (
        ("Terms of use", "what is allowed", "the rules of the service"),
        ("Point in time recovery", "PITR", "where to go back to in the log"),
        ("早期预警", "一票否决", "不同种类的风险"),
        ("睡眠模式", "待机", "省电"),
    ):
        await create_keyword(api, name, aliases=[alias], description=description)

    assert (await api.get("/api/recall", params={"q": question})).json()["results"] == []


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("how do I tune a garbage collector for many short requests at night", "Garbage Collector"),
        ("our pipelines stopped after somebody moved the runner to gcp and back", "Google Cloud"),
        ("为什么我的火车票改签以后座位还是原来的那一个", "改签"),
        ("昨天在申城买的车票可以退吗", "上海"),
    ],
)
async def test_a_keyword_is_found_by_its_name_or_alias_within_a_question(
    api: httpx.AsyncClient, question: str, name: str
) -> None:
    for known, alias in (("Garbage Collector", "GC"), ("Google Cloud", "GCP"), ("改签", "换票"), ("上海", "申城")):
        await create_keyword(api, known, aliases=[alias])

    found = (await api.get("/api/recall", params={"q": question})).json()["results"]

    assert [item["title"] for item in found] == [name]
    assert found[0]["relevance"] > 0


async def test_keywords_of_one_name_are_told_apart_by_their_paths(api: httpx.AsyncClient) -> None:
    for parent in ("语言", "目的地"):
        await create_keyword(api, "Java", (await create_keyword(api, parent))["id"])

    several = (await api.get("/api/recall", params={"q": "java"})).json()["results"]
    one = (await api.get("/api/recall", params={"q": "目的地"})).json()["results"]

    assert [(item["title"], item["path"]) for item in several] == [("Java", "语言/Java"), ("Java", "目的地/Java")]
    assert one[0]["path"] == "目的地"


async def test_a_private_info_is_found_only_by_its_owner(api: httpx.AsyncClient) -> None:
    body = {"content": "the safe opens with seven turns", "scopes": ["user:ann"], "user_id": "ann"}
    assert (await api.post("/api/infos", json=body)).status_code == 201

    found = [
        (await api.get("/api/recall", params={"q": "how many turns open the safe", "user_id": name})).json()["count"]
        for name in ("ann", "bob")
    ]

    assert found == [1, 0]
