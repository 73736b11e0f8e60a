"""Committing sessions over HTTP: messages are stored once, whole and in one operation, or refused with a reason."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.conversations.messages import WITHHELD
from tests.erasing import find_files_with
from tests.web.sessions import COMMIT, commit_session, get_node, search_memories, user_messages

pytestmark = pytest.mark.anyio

SESSION = "ctx://default/users/local/sessions/s-1"
LIMIT = 16 * 1024 * 1024


async def test_a_commit_answers_what_was_written_and_the_operation_that_wrote_it(api: httpx.AsyncClient) -> None:
    body = {"session_id": "s-1", "messages": user_messages("请以后都用中文回答我。", "谢谢")}

    response = await api.post(COMMIT, json=body)

    answer = response.json()
    assert (response.status_code, answer["status"]) == (201, "committed")
    assert answer["operation_id"] == response.headers["X-Operation-Id"]
    assert answer["archive"]["archive_uri"] == SESSION
    assert (await api.get(response.headers["Location"])).json()["uri"] == SESSION
    written = {result["uri"]: result for result in answer["write_results"]}
    assert (written[SESSION]["action"], written[SESSION]["created"]) == ("create", True)
    assert any("/memories/preferences/" in uri for uri in written), written
    assert answer["outbox_events"] != []
    assert answer["dropped"] == []
    assert answer["degraded"] == []


async def test_a_commit_reports_what_it_left_out(api: httpx.AsyncClient) -> None:
    body = {
        "session_id": "s-1",
        "messages": user_messages("I love oolong tea.", "I live in Rome. " + "It rains. " * 10_000),
        "used_contexts": ["I love oolong tea."],
    }

    first, again = [
        (await api.post(COMMIT, json={**body, "options": {"dry_run": dry}})).json() for dry in (True, False)
    ]

    unread = {"what": "messages", "why": "not_read", "count": 1}
    assert unread in first["dropped"]
    assert again["dropped"] == first["dropped"]
    assert {item["what"] for item in again["dropped"]} <= {"messages", "candidates"}


async def test_a_revealed_secret_is_in_no_transcript_and_no_file(
    api: httpx.AsyncClient, hub: Hub, tmp_path: Path
) -> None:
    secret = "correct-horse-battery-staple"
    await api.post("/api/resource", json={"id": "shop", "secure_body": secret})
    revealed = await api.get("/api/resource/shop", params={"reveal": "true"})
    shown = [revealed.text, f"A resource of kind text: shop.\n\n| id: shop\n| secure_body: {secret}"]
    messages = [{"role": "tool", "name": "resource_get", "content": text} for text in shown]
    body = {"session_id": "s-1", "messages": [*messages, {"role": "user", "content": "Thanks, I am logged in."}]}

    first, again = [await api.post(COMMIT, json=body) for _ in range(2)]
    await hub.maintenance.tick()

    assert secret in revealed.text
    assert (first.status_code, again.json()["status"]) == (201, "unchanged")
    transcript = (await get_node(api, SESSION))["content"]
    assert (transcript.count(WITHHELD), "Thanks, I am logged in." in transcript) == (2, True)
    assert secret not in first.text
    assert find_files_with(tmp_path / "data", secret) == []


async def test_the_transcript_is_kept_word_for_word_in_its_order(api: httpx.AsyncClient) -> None:
    texts = ("  indented\n\ttext ", "忽略\u200b以上", "x" * 5_000, "…")
    await commit_session(api, "s-1", *texts, options={"extract": False})

    kept = [await get_node(api, f"{SESSION}/m-{number}") for number in range(1, len(texts) + 1)]

    assert [item["content"] for item in kept] == list(texts)
    assert [item["metadata"]["number"] for item in kept] == [0, 1, 2, 3]
    assert [item["metadata"]["message_id"] for item in kept] == ["m-1", "m-2", "m-3", "m-4"]


async def test_an_empty_message_is_counted_but_not_stored(api: httpx.AsyncClient) -> None:
    messages = [{"role": "assistant", "content": None}, {"role": "user", "content": "x"}]

    answer = (await api.post(COMMIT, json={"session_id": "s-1", "messages": messages})).json()
    nothing = await api.post(COMMIT, json={"session_id": "s-2", "messages": messages[:1]})

    assert answer["stats"]["messages"]["blank"] == 1
    assert (nothing.status_code, nothing.json()["status"], nothing.json()["operation_id"]) == (200, "unchanged", None)
    assert (await api.get("/api/context/children", params={"uri": SESSION})).json()["count"] == 1


async def test_a_time_is_kept_as_it_was_sent(api: httpx.AsyncClient) -> None:
    message = {"role": "user", "content": "x", "message_id": "m-1", "timestamp": "2026-03-05T09:00:00+08:00"}
    await api.post(COMMIT, json={"session_id": "s-1", "messages": [message]})

    assert (await get_node(api, f"{SESSION}/m-1"))["metadata"]["timestamp"] == "2026-03-05T09:00:00+08:00"


async def test_a_commit_is_searchable_and_on_disk_when_it_is_answered(api: httpx.AsyncClient, tmp_path: Path) -> None:
    await commit_session(api, "s-1", "我们周三去西湖划船", "好")

    (first, *_) = await search_memories(api, "划船", categories="sessions")

    assert first["message_ids"][0] == "m-1"
    contents = [path.read_text(encoding="utf-8") for path in (tmp_path / "data").rglob("content.md")]
    assert any("我们周三去西湖划船" in text for text in contents)


async def test_committing_the_same_again_writes_nothing(api: httpx.AsyncClient, hub: Hub) -> None:
    await commit_session(api, "s-1", "I prefer dark themes.", "Thanks")
    before = hub.store.last_seq

    again = await commit_session(api, "s-1", "I prefer dark themes.", "Thanks", status=200)

    assert (again["status"], again["operation_id"]) == ("unchanged", None)
    assert again["stats"]["messages"] == {"received": 2, "blank": 0, "added": 0, "known": 2, "forgotten": 0}
    assert hub.store.last_seq == before


async def test_committing_again_adds_only_new_messages(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "one", "two")

    await commit_session(api, "s-1", "one", "two", "three")

    listed = (await api.get("/api/context/children", params={"uri": SESSION})).json()
    assert [result["name"] for result in listed["results"]] == ["m-1", "m-2", "m-3"]
    assert (await get_node(api, SESSION))["metadata"]["message_count"] == 3


async def test_messages_without_ids_are_recognized_and_repeats_are_kept(api: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "ok"}, {"role": "user", "content": "ok"}]
    first = await api.post(COMMIT, json={"session_id": "s-1", "messages": messages})

    again = await api.post(COMMIT, json={"session_id": "s-1", "messages": messages})

    assert (first.status_code, again.status_code) == (201, 200)
    assert (await api.get("/api/context/children", params={"uri": SESSION})).json()["count"] == 2


async def test_a_changed_message_is_a_conflict_and_nothing_is_written(api: httpx.AsyncClient, hub: Hub) -> None:
    await commit_session(api, "s-1", "one")
    before = hub.store.last_seq

    response = await api.post(COMMIT, json={"session_id": "s-1", "messages": user_messages("another", "new")})

    assert response.status_code == 409
    assert "m-1" in response.json()["detail"]
    assert hub.store.last_seq == before
    assert (await get_node(api, f"{SESSION}/m-1"))["content"] == "one"


async def test_a_dry_run_shows_the_plan_and_writes_nothing(api: httpx.AsyncClient, hub: Hub) -> None:
    before = hub.store.last_seq

    answer = await commit_session(api, "s-1", "请以后都用中文回答我。", status=200, options={"dry_run": True})

    assert (answer["status"], answer["operation_id"]) == ("dry_run", None)
    assert any("/memories/preferences/" in plan["target_uri"] for plan in answer["plans"])
    assert hub.store.last_seq == before
    assert (await api.get("/api/context/nodes", params={"uri": SESSION})).status_code == 404


async def test_without_extraction_the_transcript_alone_is_kept(api: httpx.AsyncClient) -> None:
    answer = await commit_session(api, "s-1", "请以后都用中文回答我。", options={"extract": False})

    assert [result["uri"] for result in answer["write_results"]] == [SESSION]


async def test_an_undo_removes_a_commit_and_a_new_commit_restores_it(api: httpx.AsyncClient) -> None:
    answer = await commit_session(api, "s-1", "请以后都用中文回答我。", "我们周三去西湖划船")
    uris = [result["uri"] for result in answer["write_results"]]

    undone = await api.post(f"/api/operations/{answer['operation_id']}/undo")

    assert undone.status_code == 200
    for uri in [*uris, f"{SESSION}/m-1"]:
        assert (await api.get("/api/context/nodes", params={"uri": uri})).status_code == 404
    assert await search_memories(api, "划船") == []
    again = await commit_session(api, "s-1", "请以后都用中文回答我。", "我们周三去西湖划船")
    assert sorted(result["uri"] for result in again["write_results"]) == sorted(uris)
    assert (await search_memories(api, "划船", categories="sessions"))[0]["message_ids"][0] == "m-2"


async def test_two_commits_of_one_session_at_once_lose_nothing(api: httpx.AsyncClient) -> None:
    bodies = [
        {"session_id": "s-1", "messages": user_messages(f"said by {who}", "请以后都用中文回答我。", prefix=who)}
        for who in ("a", "b", "c", "d")
    ]

    answers = await asyncio.gather(*(api.post(COMMIT, json=body) for body in bodies))

    assert {answer.status_code for answer in answers} == {201}
    listed = (await api.get("/api/context/children", params={"uri": SESSION})).json()
    assert {result["name"] for result in listed["results"]} == {f"{who}-{n}" for who in "abcd" for n in (1, 2)}
    assert (await get_node(api, SESSION))["metadata"]["message_count"] == 8


async def test_the_same_commit_twice_at_once_is_kept_once(api: httpx.AsyncClient) -> None:
    body = {"session_id": "s-1", "messages": user_messages("one", "two")}

    answers = await asyncio.gather(*(api.post(COMMIT, json=body) for _ in range(3)))

    assert sorted(answer.status_code for answer in answers) == [200, 200, 201]
    assert (await api.get("/api/context/children", params={"uri": SESSION})).json()["count"] == 2


async def test_calls_of_tools_feed_their_statistics(api: httpx.AsyncClient) -> None:
    used = [
        {"name": "site_login", "ok": False, "seconds": 1.5, "call_id": "c-1"},
        {"name": "site_login", "success": True, "seconds": 2.5, "call_id": "c-2"},
        {"name": "login", "kind": "skill"},
        "bash",
    ]
    await commit_session(api, "s-1", "hello", used_tools=used)

    tool = await get_node(api, "ctx://default/agents/~local/tools/site_login")
    await get_node(api, "ctx://default/agents/~local/skills/login")
    await get_node(api, "ctx://default/agents/~local/tools/bash")

    stats = tool["metadata"]["stats"]
    assert (stats["calls"], stats["success"], stats["failure"], stats["total_seconds"]) == (2, 1, 1, 4.0)


async def test_recalled_text_is_not_extracted_again(api: httpx.AsyncClient) -> None:
    answer = await commit_session(api, "s-1", "请以后都用中文回答我。", used_contexts=["请以后都用中文回答我。"])

    assert not any("/preferences/" in result["uri"] for result in answer["write_results"])


async def test_callers_have_separate_sessions(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "of li", user_id="li")
    await commit_session(api, "s-1", "of zhou", user_id="zhou")

    of_li = await get_node(api, "ctx://default/users/li/sessions/s-1/m-1", user_id="li")
    hidden = await api.get(
        "/api/context/nodes", params={"uri": "ctx://default/users/li/sessions/s-1/m-1", "user_id": "zhou"}
    )

    assert of_li["content"] == "of li"
    assert hidden.status_code == 404


async def test_a_name_of_any_script_is_a_session(api: httpx.AsyncClient) -> None:
    answer = await commit_session(api, "会议/../3月 🙂", "hello")

    assert answer["archive"]["archive_uri"] == "ctx://default/users/local/sessions/会议%2F..%2F3月%20%F0%9F%99%82"
    assert (await get_node(api, answer["archive"]["archive_uri"]))["metadata"]["session_id"] == "会议/../3月 🙂"


GOOD = {"session_id": "s-1", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "a\0"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "x", "id": "1"}]}, "messages.0.id"),
        ({"messages": [{"role": "user", "content": "x", "timestamp": "1:56 pm on 8 May"}]}, "messages.0.timestamp"),
        ({"messages": [{"role": "user", "content": "x", "message_id": ""}]}, "messages.0.message_id"),
        ({"messages": [{"role": "user", "content": "x", "message_id": "🙂" * 100}]}, "messages.0.message_id"),
        ({"messages": [GOOD["messages"][0]] * 2_001}, "messages"),
        ({"messages": [{"role": "user", "content": text, "message_id": "m"} for text in "ab"]}, "messages"),
        ({"messages": [{"role": "r" * 41, "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "x", "name": "n" * 201}]}, "messages.0.name"),
        ({"messages": [{"role": "user", "content": "x", "timestamp": "2" * 65}]}, "messages.0.timestamp"),
        ({"used_contexts": ["x"] * 2_001}, "used_contexts"),
        ({"used_tools": ["x"] * 2_001}, "used_tools"),
        ({"used_tools": [{"name": "x", "note": "n" * 1_001}]}, "used_tools.0"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "a\nb"}, "session_id"),
        ({"session_id": "x" * 201}, "session_id"),
        ({"session_id": "🙂" * 100}, "session_id"),
        ({"user_id": "🙂" * 200}, "user_id"),
        ({"used_tools": [{"name": "x", "kind": "robot"}]}, "used_tools.0.kind"),
        ({"used_tools": [{"name": "x", "seconds": -1}]}, "used_tools.0.seconds"),
        ({"used_tools": [{"name": "x", "ok": True, "success": False}]}, "used_tools.0"),
        ({"options": {"dry": True}}, "options.dry"),
        ({"owner": "user:li"}, "owner"),
        ({"session": "s"}, "session"),
    ],
)
async def test_an_invalid_session_is_refused_by_field(
    api: httpx.AsyncClient, hub: Hub, changed: dict[str, Any], field: str
) -> None:
    before = hub.store.last_seq

    response = await api.post(COMMIT, json=GOOD | changed)

    assert response.status_code == 422, response.text
    assert any(error["field"].startswith(field) for error in response.json()["errors"]), response.text
    assert hub.store.last_seq == before


async def test_the_documented_limits_are_enforced(api: httpx.AsyncClient) -> None:
    message = {"role": "r" * 40, "name": "n" * 200, "content": "x", "timestamp": "2026-03-05T12:00:00Z"}
    used = {"name": "t" * 200, "note": "n" * 1_000, "call_id": "c" * 200}
    at_most = {"messages": [message] * 2_000, "used_contexts": ["x"] * 2_000, "used_tools": [used] * 2_000}

    kept = await api.post(COMMIT, json=GOOD | at_most | {"options": {"dry_run": True, "extract": False}})
    schemas = (await api.get("/openapi.json")).json()["components"]["schemas"]

    assert kept.status_code == 200, kept.text
    body, part = schemas["CommitBody"]["properties"], schemas["SessionMessage"]["properties"]
    assert {body[name]["maxItems"] for name in at_most} == {2_000}
    assert part["role"]["maxLength"] == 40
    assert schemas["UsedToolPart"]["properties"]["note"]["maxLength"] == 1_000


async def test_a_session_that_is_too_long_is_refused_with_advice(api: httpx.AsyncClient) -> None:
    refused = await api.post(COMMIT, json={"session_id": "s-1", "messages": user_messages("x") * 2_001})

    assert refused.status_code == 422
    assert "2,000; commit a longer session in several turns" in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize("project", [{"project_id": "atlas"}, {"team_id": "web", "org_id": "x"}])
async def test_a_project_remembers_nothing(api: httpx.AsyncClient, project: dict[str, str]) -> None:
    response = await api.post(COMMIT, json=GOOD | project)

    assert response.status_code == 422
    assert "a session belongs to one of them" in response.json()["detail"]
