"""Import and export: JSON lines there and back, conflicts, undo of an import, the workspace archive."""

import asyncio
import gzip
import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.settings import Settings
from knowhub.web.schemas.knowledge import MAX_IMPORT_LINES
from tests.web.conftest import SaveRecord, open_server

pytestmark = pytest.mark.anyio

LINES = {"Content-Type": "application/x-ndjson"}
# A record as other servers export it.
PROFILE: dict[str, Any] = {
    "id": "profile_001",
    "type": "user_profile",
    "task": "用户编码风格偏好",
    "tags": {"category": "preference", "domain": "coding_style"},
    "scopes": ["user:123", "project:456"],
    "owner": "user:123",
    "visibility": "shared",
    "content": "用户偏好使用 TypeScript 而非 JavaScript，注重类型安全",
    "source": {"agent_id": "general_assistant", "trace_id": "trace-xxx", "timestamp": "2026-03-03"},
    "eval": {"helpful": 5, "harmful": 0, "confidence": 0.9},
}


def to_json_lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


async def import_records(api: httpx.AsyncClient, *records: dict[str, Any], **params: str) -> httpx.Response:
    return await api.post("/api/knowledge/import", content=to_json_lines(*records), headers=LINES, params=params)


async def test_a_record_of_another_server_is_imported_unchanged(api: httpx.AsyncClient) -> None:
    done = (await import_records(api, PROFILE)).json()

    record = (await api.get("/api/knowledge/profile_001")).json()
    assert (done["imported"], done["replaced"], done["skipped"]) == (1, 0, 0)
    for name in ("id", "type", "task", "tags", "scopes", "owner", "visibility", "content"):
        assert record[name] == PROFILE[name]
    assert record["types"] == ["user_profile"]
    assert record["source"]["trace_id"] == "trace-xxx"
    assert record["source"]["timestamp"] == "2026-03-03T00:00:00Z"
    assert record["eval"] == {
        "score": 3, "helpful": 5, "harmful": 0, "confidence": 0.9, "helpful_history": [], "harmful_history": [],
    }  # fmt: skip


async def test_an_export_imports_unchanged_into_another_hub(
    api: httpx.AsyncClient, save_record: SaveRecord, tmp_path: Path
) -> None:
    first = await save_record(
        "一", tags={"langs": ["go"]}, resource_ids=["code/a"], valid_to="2030-01-01", message_id="m"
    )
    await save_record("two", supersedes=first["id"], scopes=["public"], owner="agent:crawler", visibility="org")
    await api.put(f"/api/knowledge/{first['id']}", json={"add_helpful_case": {"outcome": "好", "query": "q"}})
    await api.delete(f"/api/knowledge/{(await save_record('deleted'))['id']}")
    exported = await api.get("/api/knowledge/export")
    settings = Settings(data_dir=tmp_path / "other", owner="user:else")

    async with open_server(settings) as other:
        await other.post("/api/knowledge/import", content=exported.content, headers=LINES)
        again = await other.get("/api/knowledge/export")

    assert exported.headers["content-type"] == "application/x-ndjson"
    mine, theirs = ([json.loads(line) for line in item.content.splitlines()] for item in (exported, again))
    assert [record["content"] for record in mine] == ["一", "two"]
    apart: dict[str, Any] = {"updated_at": None, "version": None}
    assert [record | apart for record in theirs] == [record | apart for record in mine]
    assert [record["version"] for record in theirs] == [1, 1]


async def test_taken_ids_fail_all_are_skipped_or_replaced(api: httpx.AsyncClient) -> None:
    old, new = PROFILE | {"content": "old"}, PROFILE | {"content": "new"}
    fresh = PROFILE | {"id": "profile_002", "content": "fresh"}
    await import_records(api, old)

    refused = await import_records(api, fresh, new)
    skipped = (await import_records(api, fresh, new, on_conflict="skip")).json()
    replaced = (await import_records(api, new, on_conflict="replace")).json()

    assert (refused.status_code, refused.json()["conflicts"]) == (409, ["profile_001"])
    assert (skipped["imported"], skipped["skipped"]) == (1, 1)
    assert (replaced["imported"], replaced["replaced"]) == (0, 1)
    record = (await api.get("/api/knowledge/profile_001")).json()
    assert (record["content"], record["version"]) == ("new", 2)


async def test_an_import_that_skips_everything_writes_nothing(api: httpx.AsyncClient) -> None:
    await import_records(api, PROFILE)

    answer = (await import_records(api, PROFILE, on_conflict="skip")).json()

    assert answer == {
        "imported": 0, "replaced": 0, "skipped": 1, "import_id": None, "operation_ids": [], "operation_id": None,
    }  # fmt: skip


async def test_an_import_of_several_operations_is_undone_as_one_and_redone(api: httpx.AsyncClient) -> None:
    records = [{"id": f"k-{number}", "content": f"number {number}"} for number in range(2001)]
    done = (await import_records(api, *records)).json()

    undone = (await api.post(f"/api/operations/{done['import_id']}/undo")).json()

    assert (done["imported"], len(done["operation_ids"])) == (2001, 3)
    assert undone["undone"] == done["operation_ids"]
    assert len(undone["operation_ids"]) == 3
    assert len(undone["changes"]) == 2001
    assert (await api.get("/api/knowledge")).json()["count"] == 0
    group = (await api.get(f"/api/operations/{undone['operation_id']}")).json()["group_id"]
    assert (await api.post(f"/api/operations/{group}/undo")).status_code == 200
    assert (await api.get("/api/knowledge", params={"limit": 1000})).json()["count"] == 1000


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"not json", "lines.2"),
        (b"[1]", "lines.2"),
        (b'{"content":"x","score":9}', "lines.2.score"),
        (b'{"content":" "}', "lines.2"),
        (b'{"content":"x","eval":{"helpful":-1}}', "lines.2.eval.helpful"),
        (b'{"content":"x","eval":{"helpful":1e3}}', "lines.2.eval.helpful"),
        (b'{"content":"x","eval":{"helpful":18446744073709551615}}', "lines.2.eval.helpful"),
        (b'{"content":"x","eval":{"confidence":1.5}}', "lines.2.eval.confidence"),
        (b'{"content":"x","eval":{"confidence":NaN}}', "lines.2"),
        (b'{"content":"x","id":"a\\u0000b"}', "lines.2.id"),
        (b'{"content":"x","id":"search"}', "lines.2.id"),
        (b'{"content":"x","deleted":true}', "lines.2.deleted"),
        (b'{"content":"\\ud800"}', "lines.2"),
        (b'{"content":"\xff"}', "lines.2"),
        (b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "lines.2"),
    ],
)
async def test_a_wrong_line_is_named_and_nothing_is_imported(api: httpx.AsyncClient, line: bytes, field: str) -> None:
    body = b'{"content":"good"}\n' + line

    response = await api.post("/api/knowledge/import", content=body, headers=LINES)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert (await api.get("/api/knowledge")).json()["count"] == 0


@pytest.mark.parametrize("body", [b"", b"\n\n", b"  \r\n"])
async def test_an_import_of_nothing_says_so(api: httpx.AsyncClient, body: bytes) -> None:
    response = await api.post("/api/knowledge/import", content=body, headers=LINES)

    assert response.status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b'{"content":"w1"}\n' * (MAX_IMPORT_LINES + 1),
        b'{"content":"w1"}\n' * 734_000,
        b"{}\n" * 5_000_000,
        b"\n" * (2 * MAX_IMPORT_LINES) + b'{"content":"behind blank lines"}',
    ],
    ids=["one too many", "16 MiB of small records", "16 MiB of wrong lines", "blank lines"],
)
async def test_an_import_of_too_many_lines_is_refused_before_it_is_parsed(api: httpx.AsyncClient, body: bytes) -> None:
    started = time.perf_counter()
    response = await api.post("/api/knowledge/import", content=body, headers=LINES)
    took = time.perf_counter() - started

    assert response.status_code == 413
    assert "split the file" in response.json()["detail"]
    assert took < 2
    assert (await api.get("/api/knowledge")).json()["count"] == 0


async def test_blank_lines_do_not_count_as_records(api: httpx.AsyncClient) -> None:
    body = b'\r\n{"content":"w1"}\r\n' * 6_000 + b"\n" * 20_000

    response = await api.post("/api/knowledge/import", content=body, headers=LINES)

    assert response.json()["imported"] == 6_000


@pytest.mark.parametrize("line", [b"{}", b"not json", b"[" * 65])
async def test_the_first_hundred_wrong_lines_are_named(api: httpx.AsyncClient, line: bytes) -> None:
    body = b'{"content":"good"}\n' + (line + b"\n") * 9_000

    response = await api.post("/api/knowledge/import", content=body, headers=LINES)

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [f"lines.{number}" for number in range(2, 102)]


async def test_a_line_with_very_many_wrong_fields_is_named_as_a_whole(api: httpx.AsyncClient) -> None:
    response = await import_records(api, {"content": "x"} | {f"k{number}": 1 for number in range(20_000)})

    expected = [{"field": "lines.1", "message": "20000 fields are wrong; they are too many to name"}]
    assert (response.status_code, response.json()["errors"]) == (422, expected)


async def test_the_first_hundred_repeated_ids_are_named(api: httpx.AsyncClient) -> None:
    response = await import_records(api, *[PROFILE] * 500)

    assert (response.status_code, len(response.json()["errors"])) == (422, 100)


async def test_other_requests_are_answered_while_a_large_import_runs(api: httpx.AsyncClient) -> None:
    body = to_json_lines(*({"content": f"w{number}"} for number in range(10_000)))
    waits: list[float] = []
    running = asyncio.create_task(api.post("/api/knowledge/import", content=body, headers=LINES))

    started = time.perf_counter()
    while not running.done():
        asked = time.perf_counter()
        assert (await api.get("/health")).status_code == 200
        waits.append(time.perf_counter() - asked)
        await asyncio.sleep(0.001)
    took = time.perf_counter() - started

    assert running.result().json()["imported"] == 10_000
    assert len(waits) > 10
    assert max(waits) < max(0.5, took * 0.8)


async def test_an_id_twice_in_one_import_is_refused(api: httpx.AsyncClient) -> None:
    response = await import_records(api, PROFILE, {"content": "between"}, PROFILE)

    assert response.status_code == 422
    assert response.json()["errors"] == [{"field": "lines.3.id", "message": "'profile_001' occurs in the import twice"}]


@pytest.mark.parametrize(
    ("edges", "field"),
    [
        ({"alone": "alone"}, "lines.1.supersedes"),
        ({"north": "south", "other": None, "south": "north"}, "lines.3.supersedes"),
        ({"third": "second", "first": "third", "second": "first"}, "lines.3.supersedes"),
        ({"stored": "new", "new": "stored"}, "lines.2.supersedes"),
        ({"new": "later", **{f"n{number}": None for number in range(1_000)}, "later": "new"}, "lines.1002.supersedes"),
    ],
)
async def test_records_that_supersede_each_other_in_a_circle_are_refused(
    api: httpx.AsyncClient, edges: dict[str, str | None], field: str
) -> None:
    await import_records(api, {"id": "stored", "content": "of before"})

    lines = [{"id": item, "content": f"{item} says so", "supersedes": older} for item, older in edges.items()]
    response = await import_records(api, *lines, on_conflict="replace")

    assert response.status_code == 422, response.text
    problem = response.json()
    assert [item["field"] for item in problem["errors"]] == [field]
    assert "in a circle" in problem["detail"]
    assert (await api.get("/api/knowledge")).json()["count"] == 1


async def test_a_chain_that_no_line_closes_is_imported(api: httpx.AsyncClient) -> None:
    edges = {"a": "b", "b": "c", "c": "never stored", "d": "b"}
    lines = [{"id": item, "content": f"{item} says so", "supersedes": older} for item, older in edges.items()]

    assert (await import_records(api, *lines)).json()["imported"] == 4
    found = (await api.get("/api/knowledge/search", params={"q": "says"})).json()["results"]
    assert {item["id"] for item in found} == {"a", "d"}


async def test_an_id_of_any_characters_is_read_again(api: httpx.AsyncClient) -> None:
    ids = ["a/b", "a?b#c", "中文 id", "..", "50%", "%2F", "a&b=c"]
    await import_records(api, *({"id": item, "content": item} for item in ids))

    for item in ids:
        path = "/api/knowledge/" + "".join(f"%{byte:02X}" for byte in item.encode())
        assert (await api.get(path)).json()["content"] == item
        assert (await api.get(f"{path}/history")).json()["count"] == 1
        assert (await api.put(path, json={"update_score": 5})).json()["version"] == 2


async def test_an_import_cannot_replace_records_of_others(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    theirs = await save_record("hers", user_id="li", scopes=["public"])
    deleted = await save_record("her secret", user_id="li")
    await api.delete(f"/api/knowledge/{deleted['id']}", params={"user_id": "li"})
    mine = {"content": "mine"}

    taken = await import_records(api, mine | {"id": theirs["id"]}, user_id="chen", on_conflict="replace")
    revived = await import_records(api, mine | {"id": deleted["id"]}, user_id="chen")
    hiding = await import_records(api, mine | {"supersedes": theirs["id"]}, user_id="chen")
    given = await import_records(api, mine | {"owner": "user:li"}, user_id="chen")
    own = await import_records(api, mine | {"id": "mine"}, user_id="chen")

    assert [item.status_code for item in (taken, revived, hiding, given, own)] == [409, 409, 403, 403, 200]
    assert (await api.get(f"/api/knowledge/{theirs['id']}")).json()["content"] == "hers"
    assert (await api.get("/api/knowledge/mine")).json()["owner"] == "user:chen"


async def test_an_export_contains_only_visible_records(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("hers", user_id="li")
    await save_record("everybody's", scopes=["public"])

    text = (await api.get("/api/knowledge/export", params={"user_id": "chen"})).text

    assert [json.loads(line)["content"] for line in text.splitlines()] == ["everybody's"]


async def test_a_workspace_archive_has_the_documented_tree(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await import_records(api, PROFILE)
    await save_record("agent's", owner="agent:crawler", scopes=["agent:crawler"], type="strategy")
    await save_record("global", scopes=["public"], type="tool")
    await save_record("habit", owner="user:王 小明", type="user_profile", tags={"category": "habit"})

    response = await api.get("/api/knowledge/export", params={"layout": "workspace"})

    assert response.headers["content-type"] == "application/gzip"
    assert "knowledge.tar.gz" in response.headers["content-disposition"]
    files = unpack_archive(response.content)
    assert set(files) == {
        "knowledge/agents/crawler/strategies.json",
        "knowledge/global/tools.json",
        "knowledge/users/123/preferences.json",
        "knowledge/users/%E7%8E%8B%20%E5%B0%8F%E6%98%8E/habits.json",
    }
    assert files["knowledge/users/123/preferences.json"][0]["id"] == "profile_001"
    assert response.content == (await api.get("/api/knowledge/export", params={"layout": "workspace"})).content


@pytest.mark.parametrize(
    "name", ["../../etc", "..", ".", "/etc", "a\\b", "a/../../b", "．．/x", "C:x", "~", "-rf", " "]
)
async def test_an_owner_cannot_name_a_path_outside_the_archive(
    api: httpx.AsyncClient, save_record: SaveRecord, name: str
) -> None:
    owners = [f"{kind}:{name}" for kind in ("user", "agent") if name.strip()]
    for owner in owners:
        await save_record(f"of {owner}", owner=owner, scopes=["team:x"], type="user_profile")

    response = await api.get("/api/knowledge/export", params={"layout": "workspace"})

    parts = [path.split("/") for path in unpack_archive(response.content)]
    assert len(parts) == len(owners)
    for path in parts:
        assert len(path) == 4
        assert path[0] == "knowledge"
        assert not {"", ".", ".."} & set(path)
        assert "\\" not in path[2]


def unpack_archive(archive: bytes) -> dict[str, Any]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as members:
        return {
            member.name: json.load(file)
            for member in members.getmembers()
            if (file := members.extractfile(member)) is not None
        }
