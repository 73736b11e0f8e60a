"""The memory tool of Anthropic's SDK at a real server, called as the SDK calls it."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaAsyncLocalFilesystemMemoryTool  # its own implementation

from agent_tools.integrations.anthropic_memory import KnowHubMemoryTool
from agent_tools.integrations.documents import DocumentFolder

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

SCENE: list[dict[str, object]] = [
    {"command": "view", "path": "/memories/missing.txt"},
    {"command": "create", "path": "/memories/notes.txt", "file_text": "one\ntwo\nthree\n登录"},
    {"command": "create", "path": "/memories/projects/a.md", "file_text": "# A\n"},
    {"command": "view", "path": "/memories/notes.txt"},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [2, -1]},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [9, 12]},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "two", "new_str": "2\n2b"},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "five", "new_str": "5"},
    {"command": "str_replace", "path": "/memories/nowhere.txt", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 6, "insert_text": "last"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 99, "insert_text": "x"},
    {"command": "view", "path": "/memories/notes.txt"},
    {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/archive/notes.txt"},
    {"command": "view", "path": "/memories/notes.txt"},
    {"command": "view", "path": "/memories/archive/notes.txt"},
    {"command": "rename", "old_path": "/memories/projects", "new_path": "/memories/old"},
    {"command": "view", "path": "/memories/old/a.md"},
    {"command": "delete", "path": "/memories/old"},
    {"command": "delete", "path": "/memories/old"},
    {"command": "view", "path": "/memories/old"},
    {"command": "view", "path": "/etc/passwd"},
]
"""What both implementations must answer alike. Directories are left out: their sizes are those of a file system."""


@pytest.fixture
def memory(user: str) -> KnowHubMemoryTool:
    return KnowHubMemoryTool(user_id=user)


async def call(memory: BetaAsyncAbstractMemoryTool, **command: object) -> str:
    """Return the answer as a model reads it."""
    try:
        return str(await memory.call(command))
    except ToolError as error:
        return f"error: {error}"


async def test_it_answers_as_anthropics_own_implementation_does(
    memory: KnowHubMemoryTool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    local = BetaAsyncLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("files")))

    for command in SCENE:
        assert await call(memory, **command) == await call(local, **command), command


async def test_a_directory_shows_two_levels_without_hidden_files(memory: KnowHubMemoryTool) -> None:
    for path in ("b.txt", "a/one.txt", "a/deep/two.txt", "a/deep/deeper/three.txt", ".hidden", "a/.also"):
        await call(memory, command="create", path=f"/memories/{path}", file_text="x" * 1536)

    assert (await call(memory, command="view", path="/memories/")).split("\n")[1:] == [
        "6K\t/memories",
        "4.5K\t/memories/a/",
        "3K\t/memories/a/deep/",
        "1.5K\t/memories/a/one.txt",
        "1.5K\t/memories/b.txt",
    ]
    assert "/memories/a/deep/deeper/" in await call(memory, command="view", path="/memories/a")


async def test_a_new_memory_is_an_empty_directory(memory: KnowHubMemoryTool) -> None:
    assert (await call(memory, command="view", path="/memories")).split("\n")[1:] == ["0B\t/memories"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ({"command": "create", "path": "/memories/a.txt", "file_text": ""}, "error: /memories/a.txt already exists"),
        ({"command": "create", "path": "/memories/d", "file_text": ""}, "error: /memories/d already exists"),
        ({"command": "create", "path": "/memories", "file_text": ""}, "error: /memories already exists"),
        ({"command": "create", "path": "/memories/a.txt/b", "file_text": ""}, "a.txt is a file, not a directory"),
        ({"command": "create", "path": "/memories/../x", "file_text": ""}, "would escape /memories"),
        ({"command": "view", "path": "/memories2/x"}, "must start with /memories"),
        ({"command": "view", "path": "/memories/%2e%2e/x"}, "does not exist"),
        ({"command": "view", "path": ""}, "must start with /memories"),
        ({"command": "insert", "path": "/memories/d", "insert_line": 0, "insert_text": ""}, "is not a file"),
        ({"command": "str_replace", "path": "/memories/a.txt", "old_str": "a", "new_str": ""}, "Multiple occurrences"),
        ({"command": "str_replace", "path": "/memories/a.txt", "old_str": "", "new_str": "x"}, "did not appear"),
        ({"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/d"}, "already exists"),
        ({"command": "rename", "old_path": "/memories", "new_path": "/memories/e"}, "Cannot delete or rename"),
        ({"command": "delete", "path": "/memories"}, "Cannot delete or rename"),
        ({"command": "create", "path": "/memories/big", "file_text": "x" * 2**21}, "too large"),
        ({"command": "create", "path": "/memories/" + "x" * 600, "file_text": ""}, "error: KnowHub answered 422"),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_changes_nothing(
    memory: KnowHubMemoryTool, user: str, command: dict[str, object], answer: str
) -> None:
    for path in ("a.txt", "d/b.txt"):
        await call(memory, command="create", path=f"/memories/{path}", file_text="a a")
    before = await DocumentFolder("anthropic-memory", user).scan()

    assert answer in await call(memory, **command)

    assert await DocumentFolder("anthropic-memory", user).scan() == before


async def test_the_second_of_two_concurrent_edits_is_refused_or_sees_the_first(memory: KnowHubMemoryTool) -> None:
    await call(memory, command="create", path="/memories/a.txt", file_text="x\n")

    edits = [
        call(memory, command="insert", path="/memories/a.txt", insert_line=0, insert_text=f"{number}")
        for number in range(6)
    ]
    answers = await asyncio.gather(*edits)

    written = [answer for answer in answers if answer.endswith("has been edited.")]
    refused = [answer for answer in answers if "was changed meanwhile, and nothing was written" in answer]
    assert len(written) + len(refused) == 6
    assert len((await call(memory, command="view", path="/memories/a.txt")).split("\n")) == len(written) + 3


async def test_all_memory_of_a_user_is_cleared(memory: KnowHubMemoryTool, user: str) -> None:
    other = KnowHubMemoryTool(user_id=f"{user}2")
    for owned in (memory, other):
        await call(owned, command="create", path="/memories/a.txt", file_text="x")

    await memory.clear_all_memory()

    assert "does not exist" in await call(memory, command="view", path="/memories/a.txt")
    assert "x" in await call(other, command="view", path="/memories/a.txt")


@pytest.mark.parametrize("role", ["tool", "user"])
async def test_what_a_file_says_is_not_learnt_again_from_the_session_that_read_it(
    memory: KnowHubMemoryTool, user: str, url: str, role: str
) -> None:
    path = "/memories/me.md"
    await call(memory, command="create", path=path, file_text="Remember that I live in Rome.\nI prefer tabs.\n")
    viewed = await call(memory, command="view", path=path)
    edited = await call(memory, command="str_replace", path=path, old_str="tabs", new_str="tea")
    # Hosts that know two roles only send the result of a tool as a user's message.
    answers = [{"role": role, "content": text} for text in (viewed, edited)]
    said = {"role": "user", "content": "Remember that I work in Oslo."}
    async with httpx.AsyncClient(base_url=url) as api:
        for extract, body in (
            ("/api/context/sessions/commit", {"session_id": f"s-{user}", "messages": [*answers, said]}),
            ("/api/knowledge/extract", {"messages": [*answers, said], "trigger": "user_expression"}),
        ):
            (await api.post(extract, json={**body, "user_id": user})).raise_for_status()
        found = (await api.get("/api/recall", params={"q": "Rome Oslo tabs tea", "user_id": user, "top_k": 50})).json()

    texts = [item["text"] for item in found["results"] if "/sessions/" not in item["id"]]
    assert any("Oslo" in text for text in texts), found
    assert not any(word in text for text in texts for word in ("Rome", "tabs", "tea")), found


async def test_a_server_that_is_down_is_an_error_that_a_model_can_read(
    memory: KnowHubMemoryTool, unreachable_server: None
) -> None:
    assert "error: KnowHub is not reachable" in await call(memory, command="view", path="/memories")


@pytest.fixture
def unreachable_server(monkeypatch: pytest.MonkeyPatch, url: str) -> Iterator[None]:
    monkeypatch.setenv("KNOWHUB_API_URL", "http://127.0.0.1:9")
    yield
    monkeypatch.setenv("KNOWHUB_API_URL", url)
