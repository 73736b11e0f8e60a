"""Texts and logs of items in folders of resources, at a real server."""

import asyncio
from typing import Any

import httpx
import pytest

from agent_tools.integrations import documents
from agent_tools.integrations.documents import PART_CHARS, DocumentFolder, ItemLog, to_json
from agent_tools.results import ToolFailure

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

NAMES = ["", ".", "..", "a/b", "a%2Fb", "=", "=3D", "=41", "登录", "\0", "\ud800", "½", "℀", "٪", "a b", "ｆ", "f", "F"]


async def test_any_names_are_paths_and_stay_apart(user: str) -> None:
    folder = DocumentFolder("notes", user)

    for name in NAMES:
        assert await folder.create(("x", name), to_json(name))

    assert [document.parse() for document in await folder.scan(("x",))] == [
        document.path[1] for document in await folder.scan(("x",))
    ]
    assert {document.parse() for document in await folder.scan()} == set(NAMES)
    for name in NAMES:
        found = await folder.read(("x", name))
        assert found is not None
        assert (found.path, found.parse()) == (("x", name), name)


async def test_a_folder_lists_neither_its_neighbours_nor_other_users(user: str) -> None:
    for name, owner in [("notes", user), ("notes-2", user), ("notes", f"{user}0")]:
        await DocumentFolder(name, owner).create(("a",), f"{name} of {owner}")
    folder = DocumentFolder("notes", user)
    await folder.create(("ab", "c"), "not below a")

    assert [document.text for document in await folder.scan()] == [f"notes of {user}", "not below a"]
    assert await folder.scan(("a",)) == []


async def test_another_user_reads_nothing_of_a_folder(url: str, user: str) -> None:
    await DocumentFolder("notes", user).create(("a",), "mine")

    async with httpx.AsyncClient(base_url=url) as anybody:
        answer = await anybody.get(f"/api/resource/notes/{user}/a", params={"user_id": "wang"})

    assert answer.status_code == 404


async def test_a_path_is_taken_once_and_a_change_needs_the_version_that_was_read(user: str) -> None:
    folder = DocumentFolder("notes", user)

    assert await folder.create(("a",), "first")
    assert not await folder.create(("a",), "second")
    read = await folder.read(("a",))
    assert read is not None
    assert await folder.change(read, body="third")
    assert not await folder.change(read, body="fourth")

    current = await folder.read(("a",))
    assert current is not None
    assert current.text == "third"
    assert await folder.delete(("a",))
    assert not await folder.delete(("a",))
    assert not await folder.change(current, body="fifth")
    assert await folder.read(("a",)) is None


async def test_more_documents_than_a_page_are_listed(user: str) -> None:
    folder = DocumentFolder("notes", user)
    names = [f"{number:04d}" for number in range(documents.PAGE + 2)]
    await asyncio.gather(*(folder.create((name,), "") for name in names))

    assert [document.path[0] for document in await folder.scan()] == names
    assert [document.path[0] for document in await folder.scan(after=names[-3])] == names[-2:]


async def test_a_folder_needs_a_user() -> None:
    with pytest.raises(ValueError, match="user"):
        DocumentFolder("notes", "")


async def test_a_log_returns_any_json_in_the_order_in_which_it_was_added(user: str) -> None:
    log = ItemLog(DocumentFolder("logs", user), ("s",))
    batches: list[list[Any]] = [[{"a": [1, 2.5, None, True]}, "登录"], ["\0\ud800", {"": {}}], [[]]]

    for batch in batches:
        await log.append(batch)

    assert await log.read() == [item for batch in batches for item in batch]


async def test_an_item_over_the_limit_of_a_request_is_stored_in_parts(user: str) -> None:
    item = {"image": '"\\' * 600_000, "text": "登" * 100_000}
    log = ItemLog(DocumentFolder("logs", user), ("s",))

    await log.append(["before"])
    await log.append([item])
    await log.append(["after"])

    assert await ItemLog(DocumentFolder("logs", user), ("s",)).read() == ["before", item, "after"]
    assert [await log.pop(), await log.pop(), await log.pop(), await log.pop()] == ["after", item, "before", None]


async def test_a_batch_that_lacks_a_part_is_left_out(user: str) -> None:
    folder = DocumentFolder("logs", user)
    log = ItemLog(folder, ("s",))
    await log.append(["whole"])
    await log.append(["x" * PART_CHARS])
    assert await folder.delete(("s", "00000001-0001"))

    assert await ItemLog(folder, ("s",)).read() == ["whole"]
    await ItemLog(folder, ("s",)).append(["next"])
    assert await log.read() == ["whole", "next"]


async def test_processes_that_append_at_once_lose_nothing(user: str) -> None:
    logs = [ItemLog(DocumentFolder("logs", user), ("s",)) for _ in range(4)]

    async def append(log: ItemLog, writer: int) -> None:
        for number in range(5):
            await log.append([[writer, number]])

    await asyncio.gather(*(append(log, writer) for writer, log in enumerate(logs)))

    found = await logs[0].read()
    assert sorted(found) == [[writer, number] for writer in range(4) for number in range(5)]
    for writer in range(4):
        assert [item for item in found if item[0] == writer] == [[writer, number] for number in range(5)]


async def test_items_are_taken_from_the_end_once_by_whoever_asks(user: str) -> None:
    logs = [ItemLog(DocumentFolder("logs", user), ("s",)) for _ in range(3)]
    await logs[0].append([1, 2])
    await logs[0].append([3])

    taken = await asyncio.gather(*(log.pop() for log in logs))

    assert sorted(taken) == [1, 2, 3]
    assert await logs[0].pop() is None
    await logs[1].append([4])
    assert await logs[2].read() == [4]


async def test_a_damaged_text_is_named(user: str) -> None:
    folder = DocumentFolder("logs", user)
    log = ItemLog(folder, ("s",))
    await log.append([1])
    document = (await folder.scan(("s",)))[0]
    await folder.change(document, body="no JSON {")

    with pytest.raises(ToolFailure, match=r"s/00000000-0000 is no JSON"):
        await log.read()
