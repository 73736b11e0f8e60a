"""Searching, reading and looking through memories over HTTP, and what every wrong URI is answered."""

import asyncio
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from tests.web.sessions import NODES, commit_session, get_node, search_memories

pytestmark = pytest.mark.anyio

READ, SEARCH, CHILDREN = "/api/context/read", "/api/context/search", "/api/context/children"
SESSION = "ctx://default/users/local/sessions/s-1"
TEXTS = ("请以后都用中文回答我。", "我们周三去西湖划船", "The gateway answers 429 above ten requests a second.")
MALFORMED = (
    "",
    "/etc/passwd",
    "http://default/users/li",
    "ctx:/default/users/li",
    "ctx://",
    "ctx://default/users/../agents/x",
    "ctx://default/users/%2e%2e/memories/profile",
    "ctx://default/users/%2E%2E/../../x",
    "ctx://default/users/li/memories/..",
    "ctx://default/users/li/memories/preferences/a%2fb",
    "ctx://default/users/li/memories/preferences/%FF",
    "ctx://default/users/li/memories/preferences/a b",
    "ctx://default/users/li/memories/wishes/a",
    "ctx://default/users/li/skills/a",
    "ctx://default/users//memories/profile",
    "ctx://default/users/li/sessions/s/m/n",
    "ctx://default/projects/atlas",
    "ctx://default/users/li/memories/profile/",
    "ctx://default/users/li\\..\\x",
    "ctx://default/users/ＡＢ/memories/profile",
    "CTX://default/users/li",
    "ctx:///users/li",
    "ctx://default/users/li/.meta.json",
    "ctx://default/agents/web/memories/profile",
    "ctx://default/agents/web/tools/a/b",
    "ctx://default/users/li\x00",
    "ctx://default/users/li?level=L2",
    "ctx://~default/users/li",
    "ctx://default/users/li/memories/events/~x",
    "ctx://" + "x" * 3_000,
)


@pytest.fixture
async def session_commit(api: httpx.AsyncClient) -> dict[str, Any]:
    return await commit_session(api, "s-1", *TEXTS)


@pytest.mark.usefixtures("session_commit")
async def test_a_search_answers_its_plan_its_seeds_and_blocks_that_name_their_messages(api: httpx.AsyncClient) -> None:
    response = await api.get(SEARCH, params={"q": "划船", "categories": "sessions"})

    answer = response.json()
    assert answer.keys() == {"query_plan", "seed_hits", "blocks", "total", "degraded", "index_lag"}
    assert answer["query_plan"][0]["categories"] == ["sessions"]
    first = answer["blocks"][0]
    assert (first["uri"], first["category"], first["level_hit"]) == (f"{SESSION}/m-2", "sessions", "L0")
    assert first["message_ids"][0] == "m-2"
    assert (first["overview"], first["content_excerpt"]) == (None, None)
    assert first["match_reason"]
    assert 0 < answer["seed_hits"][0]["relevance"] <= 1
    assert answer["total"] == len(answer["blocks"])


async def test_a_search_explains_how_each_block_was_found(api: httpx.AsyncClient) -> None:
    said = [{"role": "user", "content": "Remember that I always deploy from the blue laptop."}]
    await api.post("/api/context/sessions/commit", json={"session_id": "s", "user_id": "li", "messages": said})

    asked = {"q": "blue laptop", "user_id": "li"}
    plain = (await api.get("/api/context/search", params=asked)).json()["blocks"]
    explained = (await api.get("/api/context/search", params={**asked, "explain": "true"})).json()["blocks"]

    assert [{**block, "why": None} for block in explained] == [{**block, "why": None} for block in plain]
    assert all("why" not in block for block in plain)
    stages = explained[0]["why"]["stages"]
    assert [(stage["stage"], stage["rank"]) for stage in stages] == [("lexical", 1)]
    assert all(block["why"]["rules"] for block in explained)


@pytest.mark.usefixtures("session_commit")
async def test_an_extracted_memory_names_its_messages(api: httpx.AsyncClient) -> None:
    blocks = await search_memories(api, "用中文回答", categories="preferences")

    assert [block["category"] for block in blocks] == ["preferences"]
    assert blocks[0]["message_ids"] == ["m-1"]


@pytest.mark.usefixtures("session_commit")
async def test_every_block_can_be_read_by_its_uri(api: httpx.AsyncClient) -> None:
    blocks = await search_memories(api, "中文 划船 gateway 429")

    assert len(blocks) >= 3
    for block in blocks:
        for level in ("L0", "L1", "L2", "l2", "0", "1", "2"):
            read = await api.get(READ, params={"uri": block["uri"], "level": level})
            answer = f"L{level[-1]}"
            assert (read.status_code, read.json()["level_hit"]) == (200, answer), block["uri"]


@pytest.mark.usefixtures("session_commit")
async def test_each_level_has_more_text(api: httpx.AsyncClient) -> None:
    levels = {level: (await api.get(READ, params={"uri": SESSION, "level": level})).json() for level in ("L0", "L2")}
    default = (await api.get(READ, params={"uri": SESSION})).json()

    assert levels["L0"]["abstract"]
    assert (levels["L0"]["overview"], levels["L0"]["content"]) == (None, None)
    assert (default["level_hit"], default["content"]) == ("L1", None)
    assert default["overview"]
    assert all(text in levels["L2"]["content"] for text in TEXTS)


@pytest.mark.parametrize("level", ["L3", "3", "-1", "L", "content", "", "L0,L1"])
@pytest.mark.usefixtures("session_commit")
async def test_an_unknown_level_is_refused_by_name(api: httpx.AsyncClient, level: str) -> None:
    response = await api.get(READ, params={"uri": SESSION, "level": level})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "level"


@pytest.mark.usefixtures("session_commit")
async def test_a_target_limits_the_search_to_its_subtree(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-2", "我们周四也去西湖划船")

    everywhere = await search_memories(api, "划船", categories="sessions")
    below = await search_memories(
        api, "划船", categories="sessions", target_uri="ctx://default/users/local/sessions/s-2"
    )
    user = await search_memories(api, "划船", categories="sessions", target_uri="ctx://default/users/local")

    assert {item["uri"].split("/")[-2] for item in everywhere} == {"s-1", "s-2"}
    assert user == everywhere
    assert {item["uri"].split("/")[-2] for item in below} == {"s-2"}


@pytest.mark.usefixtures("session_commit")
async def test_a_node_is_answered_whole_with_its_version_as_etag(api: httpx.AsyncClient) -> None:
    response = await api.get(NODES, params={"uri": SESSION})

    answer = response.json()
    assert (response.headers["ETag"], answer["version"]) == ('"1"', 1)
    assert (answer["parent_uri"], answer["context_type"], answer["category"], answer["owner_space"]) == (
        "ctx://default/users/local/sessions",
        "session",
        "sessions",
        "users/local",
    )
    assert all(text in answer["content"] for text in TEXTS)
    assert answer["metadata"]["session_id"] == "s-1"


@pytest.mark.usefixtures("session_commit")
async def test_children_are_listed_level_by_level_and_messages_as_they_were_said(api: httpx.AsyncClient) -> None:
    top = (await api.get(CHILDREN)).json()
    messages = (await api.get(CHILDREN, params={"uri": SESSION})).json()
    two_down = (await api.get(CHILDREN, params={"depth": 2})).json()
    whole = (await api.get(CHILDREN, params={"recursive": "true"})).json()

    assert [result["uri"] for result in top["results"]] == ["ctx://default/users"]
    assert [result["name"] for result in messages["results"]] == ["m-1", "m-2", "m-3"]
    assert not any(result["is_dir"] for result in messages["results"])
    assert [result["uri"] for result in two_down["results"]] == ["ctx://default/users", "ctx://default/users/local"]
    assert {SESSION, f"{SESSION}/m-1"} <= {result["uri"] for result in whole["results"]}
    assert (whole["count"], whole["next_cursor"], whole["truncated"]) == (len(whole["results"]), None, False)


@pytest.mark.parametrize("uri", MALFORMED)
@pytest.mark.usefixtures("session_commit")
async def test_an_invalid_uri_is_refused_by_name_on_every_route(api: httpx.AsyncClient, uri: str) -> None:
    asked = [("GET", READ, "uri"), ("GET", NODES, "uri"), ("DELETE", NODES, "uri"), ("GET", CHILDREN, "uri")]

    for method, path, field in asked:
        response = await api.request(method, path, params={field: uri})
        assert response.status_code == 422, (path, response.text)
        assert response.json()["errors"][0]["field"] == field, path
    targeted = await api.get(SEARCH, params={"q": "x", "target_uri": uri})
    patched = await api.patch(NODES, params={"uri": uri}, json={"abstract": "x"})
    assert (targeted.status_code, patched.status_code) == (422, 422)


@pytest.mark.usefixtures("session_commit")
async def test_a_node_that_is_deleted_while_it_is_read_is_answered_whole_or_not_at_all(api: httpx.AsyncClient) -> None:
    reads = [api.get(READ, params={"uri": SESSION, "level": "L2"}) for _ in range(20)]
    wholes = [api.get(NODES, params={"uri": SESSION}) for _ in range(20)]
    delete = api.delete(NODES, params={"uri": SESSION})

    *answers, deleted = await asyncio.gather(*reads[:10], *wholes[:10], *reads[10:], *wholes[10:], delete)

    assert deleted.status_code == 200
    for answer in answers:
        assert answer.status_code in {200, 404}
        assert answer.status_code == 404 or all(text in answer.json()["content"] for text in TEXTS)
    assert (await api.get(READ, params={"uri": SESSION})).status_code == 404


@pytest.mark.usefixtures("session_commit")
async def test_an_edge_leads_from_a_memory_to_its_message(api: httpx.AsyncClient) -> None:
    (block, *_) = await search_memories(api, "用中文回答", categories="preferences")
    asked = {"uri": block["uri"], "expand_relations": "true"}

    expanded = (await api.get(READ, params=asked)).json()
    plain = (await api.get(READ, params={"uri": block["uri"]})).json()
    bounded = (await api.get(READ, params={**asked, "max_relations": 1})).json()

    edges = (await get_node(api, block["uri"]))["relations"]
    assert edges != []
    assert (plain["relations"], expanded["relations"]) == ([], edges)
    assert bounded["relations"] == edges[:1]


@pytest.mark.parametrize("user_id", ["🙂" * 200, "..", ".", "a/b", "%2e"])
async def test_a_caller_name_of_any_script_is_answered(api: httpx.AsyncClient, hub: Hub, user_id: str) -> None:
    before = hub.store.last_seq

    for path, params in [
        (CHILDREN, {}),
        (SEARCH, {"q": "x"}),
        ("/api/context/outbox", {}),
        ("/api/recall", {"q": "x"}),
    ]:
        response = await api.get(path, params={"user_id": user_id, **params})
        assert response.status_code in {200, 422}, (path, response.text)
    assert hub.store.last_seq == before


async def test_the_profile_lists_current_lines_with_day_and_evidence(api: httpx.AsyncClient) -> None:
    said = [
        ("2026-03-05T10:00:00Z", "I live in Rome."),
        ("2026-03-05T10:01:00Z", "I love oolong tea."),
        ("2026-03-05T10:02:00Z", "From now on answer in English."),
        ("2026-03-06T10:00:00Z", "I live in Oslo."),
    ]
    messages = [
        {"role": "user", "content": text, "timestamp": moment, "message_id": f"m{number}"}
        for number, (moment, text) in enumerate(said)
    ]
    await api.post("/api/context/sessions/commit", json={"session_id": "s1", "messages": messages, "user_id": "ana"})

    whole = (await api.get("/api/context/profile", params={"user_id": "ana"})).json()
    short = (await api.get("/api/context/profile", params={"user_id": "ana", "max_tokens": 12})).json()
    nobody = (await api.get("/api/context/profile", params={"user_id": "zhou"})).json()

    assert whole["text"].splitlines() == [
        "- I live in Oslo. (2026-03-06)",
        "- From now on answer in English. (2026-03-05)",
        "- I love oolong tea. (2026-03-05)",
    ]
    assert [(line["category"], line["message_ids"]) for line in whole["lines"]] == [
        ("profile", ["m3"]),
        ("preferences", ["m2"]),
        ("preferences", ["m1"]),
    ]
    assert (short["text"], short["left_out"]) == ("- I live in Oslo. (2026-03-06)", 2)
    assert nobody == {"text": "", "lines": [], "left_out": 0}


async def test_the_nearest_instruction_comes_behind_the_best_three_and_the_next_one_last(
    api: httpx.AsyncClient,
) -> None:
    said = [
        "Always state the price in euros and the number of the invoice when I ask about the bills of the club.",
        "Always state the name of the member and the number of the key when I ask about the house of the club.",
        *(f"Always write {food} with a small letter." for food in ("tea", "bread", "rice", "corn")),
        *(f"The boat number {n} is red." for n in range(12)),
    ]
    messages = [{"role": "user", "content": text, "message_id": f"m{number}"} for number, text in enumerate(said)]
    await api.post("/api/context/sessions/commit", json={"session_id": "s1", "messages": messages, "user_id": "ana"})

    params = {"q": "which red number has a boat", "user_id": "ana"}
    blocks = (await api.get("/api/context/search", params=params)).json()["blocks"]

    fourth, first_standing = blocks[3], blocks[-2]
    assert {tuple(block["message_ids"]) for block in (fourth, first_standing)} == {("m0",), ("m1",)}
    assert [block["standing"] for block in blocks] == [False] * 8 + [True] * 2
    assert [block["score"] for block in blocks[:8]] == sorted((block["score"] for block in blocks[:8]), reverse=True)


async def test_standing_instructions_come_last_whatever_was_asked_and_within_top_k(api: httpx.AsyncClient) -> None:
    said = [
        "From now on answer in English.",
        "I love oolong tea.",
        *(f"The boat number {n} is red." for n in range(12)),
    ]
    messages = [{"role": "user", "content": text, "message_id": f"m{number}"} for number, text in enumerate(said)]
    await api.post("/api/context/sessions/commit", json={"session_id": "s1", "messages": messages, "user_id": "ana"})

    async def search(**named: Any) -> list[tuple[str, bool]]:  # noqa: ANN401 -- any parameter
        params = {"q": "which boat is red", "user_id": "ana", **named}
        blocks = (await api.get("/api/context/search", params=params)).json()["blocks"]
        return [(block["abstract"], block["standing"]) for block in blocks]

    five, ten = await search(top_k=5), await search(top_k=10)

    assert (len(five), five[-1]) == (5, ("From now on answer in English.", True))
    assert ten[-2:] == [("From now on answer in English.", True), ("I love oolong tea.", True)]
    assert not any(standing for _, standing in [*five[:-1], *ten[:-2], *await search(top_k=4)])
    assert not any(standing for _, standing in await search(top_k=10, categories="sessions"))


async def test_standing_instructions_fill_places_that_are_left_over(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s1", "Always quote prices in Swiss francs.", "I love oolong tea.", user_id="ana")

    async def search(top_k: int) -> list[str]:
        params: dict[str, str | int] = {"q": "what does a bike cost", "user_id": "ana", "top_k": top_k}
        blocks = (await api.get("/api/context/search", params=params)).json()["blocks"]
        return [block["abstract"] for block in blocks if block["standing"]]

    assert await search(1) == ["Always quote prices in Swiss francs."]
    assert len(await search(3)) == 2


@pytest.mark.parametrize(
    ("said", "question", "other"),
    [
        ("我住在南京。", "我住在哪里", "我叫什么名字"),
        ("我住在南京。", "我家在哪个城市？", "我的生日是哪天"),
        ("我叫周晓棠。", "我叫什么名字", "我住在哪里"),
        ("My name is Wanda Frost.", "Who am I?", "Who am I meeting?"),
        ("I work at Siemens.", "What's my job?", "What's my time zone?"),
        ("My time zone is CET.", "What’s my timezone?", "how old am I"),
    ],
)
async def test_a_question_for_a_fact_of_the_profile_finds_it_whatever_its_words(
    api: httpx.AsyncClient, said: str, question: str, other: str
) -> None:
    await commit_session(api, "s1", said, user_id="ana")

    found = await search_memories(api, question, user_id="ana")

    assert (found[0]["category"], found[0]["abstract"]) == ("profile", said)
    assert [block for block in await search_memories(api, other, user_id="ana") if block["category"] == "profile"] == []
