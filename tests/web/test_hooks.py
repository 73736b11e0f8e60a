"""Hooks, with payloads and transcripts of Claude Code 2.1.197 and Codex 0.169.0; those of Cursor are as documented."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.language_models import Vector
from knowhub.core.request_context import Role
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.keys import issue_key_text, key_headers, make_keyed_settings
from tests.web.conftest import SaveRecord, client_of, open_server

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parents[1] / "data" / "hosts"
PAYLOADS: dict[str, dict[str, dict[str, Any]]] = json.loads((DATA / "payloads.json").read_text("utf-8"))
HOSTS = sorted(PAYLOADS)
ENDS = {"claude": "Stop", "codex": "Stop", "cursor": "stop"}
STARTS = {"claude": "SessionStart", "codex": "SessionStart", "cursor": "sessionStart"}
SAID = "Remember that I prefer tabs over spaces."
USER = "?user=li"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    # A busy machine may take longer than the default.
    return Settings(
        data_dir=tmp_path / "data", owner="user:local", hook_budget_s=30, hook_transcripts=(tmp_path / "transcripts",)
    )


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    return folder


def make_payload(host: str, event: str, **fields: object) -> dict[str, Any]:
    """Return a recorded payload with other fields."""
    return {**PAYLOADS[host][event], **fields}


def read_transcript(host: str) -> str:
    return (DATA / f"{host}.jsonl").read_text("utf-8")


async def send_hook(
    api: httpx.AsyncClient, host: str, event: str, /, query: str = USER, **fields: object
) -> httpx.Response:
    """Send a recorded payload."""
    return await api.post(f"/api/hooks/{host}/{event}{query}", json=make_payload(host, event, **fields))


async def read_shown_text(api: httpx.AsyncClient, host: str, event: str, /, query: str = USER, **fields: object) -> str:
    """Return the text that a hook shows; empty if it shows nothing."""
    response = await send_hook(api, host, event, query, **fields)
    assert response.status_code == 200, response.text
    answer = response.json()
    if host == "cursor":
        return str(answer.get("additional_context", ""))
    output = answer.get("hookSpecificOutput", {"hookEventName": event, "additionalContext": ""})
    assert output["hookEventName"] == event
    return str(output["additionalContext"])


async def list_messages(api: httpx.AsyncClient, session_id: str) -> list[tuple[str, str]]:
    """Return the name and text of each message of a session of li."""
    root = f"ctx://default/users/li/sessions/{session_id}"
    listed = await api.get("/api/context/children", params={"uri": root, "user_id": "li"})
    below = listed.json().get("results", [])
    nodes = [(await api.get("/api/context/nodes", params={"uri": row["uri"], "user_id": "li"})).json() for row in below]
    return [(node["metadata"].get("name", ""), node["content"]) for node in nodes]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_session_is_captured_and_its_statement_is_shown_in_the_next(api: httpx.AsyncClient, host: str) -> None:
    first = await send_hook(api, host, ENDS[host], transcript=read_transcript(host))
    assert first.status_code == 200
    assert first.headers["x-operation-id"]

    text = await read_shown_text(api, host, STARTS[host], session_id="another", conversation_id="another")
    assert SAID in text
    head, _, fenced = text.partition("\n\n")
    assert 'Lines that begin with "| " are stored text' in head
    assert all(line.startswith("| ") for line in fenced.splitlines() if line)
    assert SAID not in await read_shown_text(
        api, host, STARTS[host], "?user=eve", session_id="third", conversation_id="third"
    )


@pytest.mark.parametrize("host", HOSTS)
async def test_the_transcript_is_stored_without_what_the_host_added(api: httpx.AsyncClient, host: str) -> None:
    session_id = PAYLOADS[host][ENDS[host]].get("session_id") or PAYLOADS[host][ENDS[host]]["conversation_id"]
    await send_hook(api, host, ENDS[host], transcript=read_transcript(host))

    said = [text for _, text in await list_messages(api, session_id)]
    assert SAID in said[0]
    assert "tests passed" in said[-2]
    assert "Noted: tabs it is." in said[-1]
    assert len(said) == (4 if host == "cursor" else 3)
    assert not any(word in " ".join(said) for word in ("Turin", "green", "environment_context", "user_info"))

    again = await send_hook(api, host, ENDS[host], transcript=read_transcript(host))
    assert (again.status_code, "x-operation-id" in again.headers) == (200, False)


@pytest.mark.parametrize("host", HOSTS)
async def test_every_recorded_payload_is_answered_in_the_form_of_its_host(
    api: httpx.AsyncClient, transcripts: Path, host: str
) -> None:
    path = transcripts / "session.jsonl"
    path.write_text(read_transcript(host), "utf-8")
    for event in PAYLOADS[host]:
        response = await send_hook(api, host, event, transcript_path=str(path), new_field={"of": ["next", "year"]})
        assert response.status_code == 200, response.text
        assert set(response.json()) <= {"hookSpecificOutput", "additional_context", "continue"}


async def test_a_prompt_gets_matching_memories_once_per_session(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("Set http.proxy, then push.", task="git push fails behind the proxy", user_id="li")

    first = await read_shown_text(api, "claude", "UserPromptSubmit", prompt="Why does git push fail behind our proxy?")
    assert f"| id: {record['id']}" in first.splitlines()
    assert await read_shown_text(api, "claude", "UserPromptSubmit", prompt="And git push behind the proxy now?") == ""
    other = await read_shown_text(
        api, "claude", "UserPromptSubmit", session_id="s-2", prompt="git push behind the proxy?"
    )
    assert record["id"] in other

    # After a compaction, what was shown is gone from the context.
    await read_shown_text(api, "claude", "SessionStart", source="resume")
    assert await read_shown_text(api, "claude", "UserPromptSubmit", prompt="git push behind the proxy?") == ""
    await read_shown_text(api, "claude", "SessionStart", source="compact")
    assert record["id"] in await read_shown_text(api, "claude", "UserPromptSubmit", prompt="git push behind the proxy?")


async def test_a_prompt_about_something_else_is_answered_with_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("Set http.proxy, then push.", task="git push fails behind the proxy", user_id="li")
    await send_hook(api, "claude", "Stop", transcript=read_transcript("claude"), session_id="earlier")

    for prompt in ("Write a sonnet about autumn rain", "continue", "   ", "Suggest names for a rescue kitten"):
        assert await read_shown_text(api, "codex", "UserPromptSubmit", prompt=prompt) == ""


async def test_a_memory_that_shares_a_common_word_with_a_prompt_is_not_shown(
    settings: Settings, tmp_path: Path
) -> None:
    said = ("The deploy goes through Jenkins.", "Fix the failing test in tests/test_login.py, the captcha times out.")
    entries = [{"type": "user", "uuid": f"u-{n}", "message": {"content": text}} for n, text in enumerate(said)]
    prompt = "Fix the indentation of nested JSON arrays in the encoder of the exporter"
    shows = {}
    for floor in (0.01, 0.3):
        changed = {"data_dir": tmp_path / str(floor), "hook_relevance_floor": floor}
        own = settings.model_copy(update=changed)
        async with open_server(own, maintain=False) as api:
            await send_hook(
                api, "claude", "Stop", session_id="here", transcript="\n".join(map(json.dumps, entries)) + "\n"
            )
            asked = await read_shown_text(api, "claude", "UserPromptSubmit", prompt="Why does the captcha time out?")
            shows[floor] = (
                "captcha" in asked,
                await read_shown_text(api, "codex", "UserPromptSubmit", prompt=prompt) != "",
            )
    assert shows == {0.01: (True, True), 0.3: (True, False)}


async def test_statements_of_a_session_are_not_shown_to_it_again(api: httpx.AsyncClient) -> None:
    said = '{"type":"user","uuid":"u-1","message":{"content":"The staging cluster runs in Oslo."}}\n'
    await send_hook(api, "claude", "Stop", session_id="here", transcript=said)

    prompt = "Where does the staging cluster run?"
    assert "Oslo" not in await read_shown_text(api, "claude", "UserPromptSubmit", session_id="here", prompt=prompt)
    assert "Oslo" in await read_shown_text(api, "claude", "UserPromptSubmit", session_id="there", prompt=prompt)


async def test_a_start_shows_the_profile_and_the_records_of_the_project(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("Answers in German, please.", types=["user_profile"], user_id="li")
    await save_record(
        "Releases are tagged by the night build.", scopes=["project:atlas"], user_id="li", project_id="atlas"
    )
    await save_record("Nobody may see this.", scopes=["project:other"], user_id="eve", project_id="other")

    text = await read_shown_text(api, "claude", "SessionStart", "?user=li&project=atlas", cwd="/home/li/work")
    assert text.index("Answers in German") < text.index("tagged by the night build")
    assert "Nobody" not in text
    assert "night build" not in await read_shown_text(api, "claude", "SessionStart", "?user_id=li", session_id="s-2")


async def test_a_start_shows_the_current_memories_of_the_caller(api: httpx.AsyncClient) -> None:
    for number, indent in enumerate(("spaces", "tabs")):
        said = [{"role": "user", "content": f"Remember that I prefer {indent} for indentation."}]
        body = {"session_id": f"earlier-{number}", "user_id": "li", "messages": said}
        assert (await api.post("/api/context/sessions/commit", json=body)).status_code == 201

    text = await read_shown_text(api, "claude", "SessionStart", "?user=li", session_id="s-3")
    assert "prefer tabs for indentation" in text
    assert "prefer tabs" not in await read_shown_text(api, "claude", "SessionStart", "?user=eve", session_id="s-4")


async def test_the_tokens_that_are_shown_are_bounded_and_counted(
    settings: Settings, hub: Hub, save_record: SaveRecord
) -> None:
    for number in range(20):
        await save_record(f"Advice {number}: " + "rotate the staging credentials on Mondays. " * 12, user_id="li")
    async with client_of(create_app(settings.model_copy(update={"hook_tokens": 300}), hub)) as api:
        text = await read_shown_text(api, "claude", "UserPromptSubmit", prompt="rotate the staging credentials")
        figures = (await api.get("/metrics")).text

    # The hub has the settings with which it was opened.
    counted = float(figures.split('knowhub_hook_tokens_total{event="UserPromptSubmit",host="claude"} ')[1].split()[0])
    assert 300 < counted <= 1000
    assert counted == pytest.approx(len(text) / 4, rel=0.1)


@pytest.mark.parametrize("name", ["mcp__memory__recall", "mcp__knowhub__recall", "mcp__notes__read", "recall"])
async def test_recalled_text_is_not_stored_under_any_server_name(
    api: httpx.AsyncClient, save_record: SaveRecord, name: str
) -> None:
    record = await save_record("Remember that the launch code is 4711.", user_id="li")
    call = {"name": "recall", "arguments": {"query": "launch code"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = await api.post("/mcp?user=li", json=asked, headers={"accept": "application/json, text/event-stream"})
    result = answer.json()["result"]
    found = result["content"][0]["text"]
    assert record["id"] in found
    quoted = "\n".join(f"> {line}" for line in found.splitlines())
    rows = "\n".join(f"    {line}" for line in found.partition("\n\n")[2].splitlines())
    used = {"type": "tool_use", "id": "t-1", "name": name, "input": {"query": "launch code"}}
    entries = [
        {"type": "user", "uuid": "u-1", "message": {"content": "What is the code of the launch?"}},
        {"type": "assistant", "uuid": "u-2", "message": {"content": [used]}},
        {"type": "user", "uuid": "u-3", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "t-1", "content": [{"type": "text", "text": found}]}]}},
        *({"type": "user", "uuid": "u-8", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "t-1", "content": json.dumps(part)}]}}
          for part in (result["content"], result["structuredContent"])),
        {"type": "user", "uuid": "u-4", "message": {"content": f"KnowHub recalls this for you. {found}"}},
        {"type": "user", "uuid": "u-5", "message": {"content": f"It says:\n{quoted}"}},
        {"type": "assistant", "uuid": "u-6", "message": {"content": f"```\n{found}\n```"}},
        {"type": "assistant", "uuid": "u-7", "message": {"content": rows}},
    ]  # fmt: skip
    await send_hook(api, "claude", "Stop", session_id="s-1", transcript="\n".join(map(json.dumps, entries)) + "\n")

    stored = [text for _, text in await list_messages(api, "s-1")]
    assert stored == ["What is the code of the launch?", "It says:"]
    blocks = (await api.get("/api/context/search", params={"q": "launch code", "user_id": "li"})).json()["blocks"]
    assert not any("4711" in block["abstract"] for block in blocks)


async def test_an_unfenced_recall_answer_is_not_stored(api: httpx.AsyncClient) -> None:
    used = {"type": "tool_use", "id": "t-1", "name": "mcp__knowhub__recall", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t-1", "content": "The launch code is 4711."}
    entries = [
        {"type": "assistant", "uuid": "u-1", "message": {"content": [{"type": "text", "text": "I look it up."}, used]}},
        {"type": "user", "uuid": "u-2", "message": {"content": [answer]}},
    ]
    await send_hook(api, "claude", "Stop", session_id="s-1", transcript="\n".join(map(json.dumps, entries)) + "\n")

    assert [text for _, text in await list_messages(api, "s-1")] == ["I look it up."]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("claude/Stop", {}, 422, "session_id: is missing; this is not what claude sends"),
        ("claude/SessionStart", PAYLOADS["cursor"]["beforeSubmitPrompt"], 422, "session_id: is missing"),
        ("cursor/stop", PAYLOADS["claude"]["Stop"], 422, "conversation_id: is missing"),
        ("codex/Stop", PAYLOADS["codex"]["UserPromptSubmit"], 422, "hook_event_name: is 'UserPromptSubmit'"),
        ("claude/UserPromptSubmit", {"session_id": "s"}, 422, "prompt: is missing"),
        ("claude/Stop", {"session_id": "s"}, 422, "transcript_path: is missing"),
        ("claude/Stop", {"session_id": "s", "transcript_path": "../x"}, 422, "must be an absolute path"),
        ("claude/Stop", {"session_id": "a\0b", "transcript": ""}, 422, "session_id"),
        ("claude/Stop", {"session_id": 7, "transcript": ""}, 422, "session_id"),
        ("claude/Stop?role=root", {"session_id": "s", "transcript": ""}, 422, "role"),
        ("claude/Stop?user=li&user_id=eve", {"session_id": "s", "transcript": ""}, 422, "mean the same"),
        ("claude/Unknown", {"session_id": "s"}, 404, "known are SessionStart"),
        ("emacs/Stop", {"session_id": "s"}, 404, "known are claude, codex, cursor"),
    ],
)
async def test_an_invalid_call_gets_a_message_that_names_the_error(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    response = await api.post(f"/api/hooks/{path}", json=body)

    assert (response.status_code, said in response.text) == (status, True), response.text


async def test_only_transcripts_below_the_folders_of_hosts_are_read(
    api: httpx.AsyncClient, transcripts: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text(read_transcript("claude"), "utf-8")
    (transcripts / "link.jsonl").symlink_to(secret)
    for path in (secret, transcripts / "link.jsonl", transcripts / ".." / "secret.jsonl", tmp_path / "no-such-file"):
        refused = await send_hook(api, "claude", "Stop", transcript_path=str(path))
        assert (refused.status_code, "KNOWHUB_HOOK_TRANSCRIPTS" in refused.text) == (403, True)
    missing = await send_hook(api, "claude", "Stop", transcript_path=str(transcripts / "gone.jsonl"))
    assert missing.status_code == 404
    folder = await send_hook(api, "claude", "Stop", transcript_path=str(transcripts))
    assert folder.status_code == 422


async def test_a_file_is_read_for_local_callers_without_keys_only(
    app: FastAPI, transcripts: Path, tmp_path: Path
) -> None:
    path = transcripts / "session.jsonl"
    path.write_text(read_transcript("claude"), "utf-8")
    transport = httpx.ASGITransport(app, client=("203.0.113.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as far:
        refused = await send_hook(far, "claude", "Stop", transcript_path=str(path))
    assert (refused.status_code, "on this machine" in refused.text) == (422, True)

    settings = make_keyed_settings(tmp_path / "keyed").model_copy(
        update={"hook_transcripts": (transcripts,), "hook_budget_s": 30}
    )
    async with open_hub(settings, maintain=False) as hub:
        guarded = create_app(settings, hub)
        async with client_of(guarded, key_headers(await issue_key_text(hub, "li"))) as li:
            assert (await send_hook(li, "claude", "Stop", "", transcript_path=str(path))).status_code == 403
            assert (await send_hook(li, "claude", "Stop", "", transcript=read_transcript("claude"))).headers[
                "x-operation-id"
            ]
            assert SAID in await read_shown_text(li, "claude", "SessionStart", "", session_id="s-2")
            assert (await send_hook(li, "claude", "SessionStart", "?user=eve")).status_code == 403
        async with client_of(guarded, key_headers(await issue_key_text(hub, "eve", Role.READER))) as eve:
            assert SAID not in await read_shown_text(eve, "claude", "SessionStart", "", session_id="s-3")
            assert (await send_hook(eve, "claude", "Stop", "", transcript=read_transcript("claude"))).status_code == 403


async def test_a_transcript_is_read_on_from_its_last_position(api: httpx.AsyncClient, transcripts: Path) -> None:
    path = transcripts / "growing.jsonl"
    written = [
        f'{{"type":"user","uuid":"u-{n}","message":{{"content":"The answer to {n} is {n * 7}."}}}}' for n in range(6)
    ]
    # A line that is no JSON, and a last line that is still being written.
    whole = "\n".join([written[0], "no JSON", *written[1:]]) + "\n"
    for end, count in ((90, 1), (250, 3), (len(whole), 6)):
        path.write_text(whole[:end], "utf-8")
        await send_hook(api, "claude", "Stop", session_id="s-1", transcript_path=str(path))
        said = [text for _, text in await list_messages(api, "s-1")]
        assert len(said) == count

    # A file that became shorter is read from its beginning.
    path.write_text(written[0] + '\n{"type":"user","uuid":"v","message":{"content":"Anew."}}\n', "utf-8")
    await send_hook(api, "claude", "SessionEnd", session_id="s-1", transcript_path=str(path))
    assert [text for _, text in await list_messages(api, "s-1")] == [*said, "Anew."]


async def test_only_the_newest_part_of_a_large_transcript_is_read(api: httpx.AsyncClient, transcripts: Path) -> None:
    path = transcripts / "large.jsonl"
    output = json.dumps({"type": "user", "uuid": "u-0", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "x" * 1_000_000}]}})  # fmt: skip
    entry = '{"type":"user","uuid":"last","message":{"content":"The last word."}}\n'
    path.write_text(f"{output}\n" * 11 + entry, "utf-8")

    answer = await send_hook(api, "claude", "Stop", session_id="s-1", transcript_path=str(path))
    assert answer.headers["x-operation-id"]
    said = [text for _, text in await list_messages(api, "s-1")]
    assert "The last word." in said[-1]
    assert max(map(len, said)) < 10_000

    sent = await send_hook(api, "claude", "Stop", session_id="s-2", transcript=path.read_text("utf-8"))
    assert sent.status_code == 200
    refused = await send_hook(api, "claude", "Stop", session_id="s-3", transcript="x" * (17 * 1024 * 1024))
    assert refused.status_code == 413


class StuckEmbedder(HashingEmbedder):
    """Answers no query."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        if query:
            await asyncio.sleep(60)
        return await super().embed(texts, timeout_s, query=query)


async def test_a_late_hook_is_answered_and_its_capture_continues(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "slow", owner="user:local", hook_budget_s=0.001)
    async with open_server(settings, Overrides(embedder=StuckEmbedder())) as api:
        answer = await send_hook(api, "claude", "Stop", session_id="s-1", transcript=read_transcript("claude"))
        assert (answer.status_code, answer.json(), "x-operation-id" in answer.headers) == (200, {}, False)
        for _ in range(100):
            if await list_messages(api, "s-1"):
                break
            await asyncio.sleep(0.05)
        assert len(await list_messages(api, "s-1")) == 3

        started = time.perf_counter()
        assert await read_shown_text(api, "claude", "UserPromptSubmit", prompt="tabs or spaces?") == ""
        assert time.perf_counter() - started < 20
        figures = (await api.get("/metrics")).text
    assert 'knowhub_hooks_late_total{event="Stop",host="claude"} 1.0' in figures
    assert 'knowhub_hooks_late_total{event="UserPromptSubmit",host="claude"} 1.0' in figures


async def test_a_long_transcript_is_not_waited_for_and_captured_all_the_same(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "long", owner="user:local", hook_budget_s=60)
    async with open_server(settings, maintain=False) as api:
        # An output of a tool that is cut: most of the bytes are read and not stored.
        block = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 2**20}
        line = {"type": "user", "uuid": "u", "message": {"role": "user", "content": [block]}}
        transcript = read_transcript("claude") + json.dumps(line) + "\n"
        answer = await send_hook(api, "claude", "Stop", session_id="s-1", transcript=transcript)
        assert (answer.status_code, answer.json(), "x-operation-id" in answer.headers) == (200, {}, False)
        for _ in range(600):
            if len(await list_messages(api, "s-1")) == 4:
                break
            await asyncio.sleep(0.05)
        assert len(await list_messages(api, "s-1")) == 4
        figures = (await api.get("/metrics")).text
    assert 'knowhub_hooks_late_total{event="Stop",host="claude"} 1.0' not in figures
