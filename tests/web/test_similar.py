"""What nearly says the same is named where a record is read, and is never in the way of saving it."""

import httpx
import pytest

from tests.web.conftest import OpenServer, SaveRecord
from tests.web.test_slimming import LONG, LONGER, read_record

pytestmark = pytest.mark.anyio


async def list_similar(api: httpx.AsyncClient, row_id: str, **params: str) -> list[tuple[str, float]]:
    answer = (await api.get(f"/api/knowledge/{row_id}", params=params)).json()
    return [(item["id"], item["similarity"]) for item in answer["similar"]]


async def test_near_duplicates_name_each_other(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first = (await save_record(LONG))["id"]
    alone = await list_similar(api, first)
    second, other = (
        (await save_record(LONGER))["id"],
        (await save_record("Use pnpm here, and never npm or yarn."))["id"],
    )

    assert alone == []
    assert await list_similar(api, first) == [(second, 0.84)]
    assert await list_similar(api, second) == [(first, 0.84)]
    assert await list_similar(api, other) == []


async def test_a_short_copy_has_similarity_one(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first, second = (await save_record("pnpm!"))["id"], (await save_record("PNPM!", dedup=False))["id"]

    assert await list_similar(api, first) == [(second, 1.0)]


async def test_similar_records_are_found_after_a_restart_and_by_other_processes(
    api: httpx.AsyncClient, open_second_server: OpenServer, save_record: SaveRecord
) -> None:
    first, second = (await save_record(LONG))["id"], (await save_record(LONGER))["id"]

    async with open_second_server() as later:
        assert [item for item, _ in await list_similar(later, first)] == [second]
        third = (await later.post("/api/knowledge", json={"content": LONG, "dedup": False})).json()["id"]
        assert [item for item, _ in await list_similar(later, third)] == [first, second]


async def test_changed_deleted_and_merged_records_are_no_longer_similar(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first, second, third = [(await save_record(LONG, dedup=False))["id"] for _ in range(3)]
    before = await list_similar(api, first)

    await api.patch(f"/api/knowledge/{second}", json={"content": "Use pnpm here, and never npm or yarn."})
    await api.delete(f"/api/knowledge/{third}")
    assert [item for item, _ in before] == sorted([second, third])
    assert await list_similar(api, first) == []
    assert await list_similar(api, second) == []
    fourth = (await save_record(LONG, dedup=False))["id"]
    await api.post("/api/knowledge/slim", json={})
    assert (await read_record(api, fourth))["merged_into"] == first
    assert await list_similar(api, first) == []
    assert await list_similar(api, fourth) == []


async def test_only_visible_records_are_named_as_similar(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    shared = (await save_record(LONG, scopes=["team:web"], owner="user:li"))["id"]
    await save_record(LONGER, owner="user:wang")
    seen = (await save_record(LONGER, scopes=["team:web"], owner="user:wang"))["id"]
    named = await list_similar(api, shared, user_id="li", team_id="web")

    assert [item for item, _ in named] == [seen]
    assert len(await list_similar(api, shared)) == 2


@pytest.mark.parametrize("is_asked_before", [True, False])
async def test_hidden_records_do_not_change_the_similar_list(
    api: httpx.AsyncClient, save_record: SaveRecord, is_asked_before: bool
) -> None:
    first = (await save_record(f"{LONG} One.", owner="user:li"))["id"]
    before = await list_similar(api, first, user_id="li") if is_asked_before else []
    for number in range(30):
        await save_record(f"{LONG} {number}", owner="user:wang")
    second = (await save_record(f"{LONG} Two.", owner="user:li"))["id"]
    named = [[item for item, _ in await list_similar(api, row_id, user_id="li")] for row_id in (first, second)]

    assert before == []
    assert named == [[second], [first]]


async def test_a_record_made_visible_later_is_named_as_similar(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first = (await save_record(LONG, owner="user:li"))["id"]
    second = (await save_record(LONGER, owner="user:wang"))["id"]
    named = [await list_similar(api, first, user_id="li")]

    for scopes in (["public"], ["user:wang"], ["public"]):
        await api.patch(f"/api/knowledge/{second}", json={"scopes": scopes})
        named.append(await list_similar(api, first, user_id="li"))

    assert [len(item) for item in named] == [0, 1, 0, 1]


async def test_lists_and_saves_have_no_similar_field(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first = await save_record(LONG)
    await save_record(LONGER)

    rows = (await api.get("/api/knowledge")).json()["results"]

    assert all("similar" not in row for row in (first, *rows))
