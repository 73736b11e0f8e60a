"""What a model was paid for survives a restart, and is dropped where anything says that it may no longer hold."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, World, open_hub
from knowhub.core.operation import Draft, Write
from knowhub.keywords.model import INFOS, Found, NewInfo, NewKeyword, SearchStatus
from knowhub.settings import Settings
from knowhub.stores.files.derived.cache_files import CacheFiles
from knowhub.stores.files.log.log_line import parsed, seal
from knowhub.stores.files.store import FileStore
from tests.builders import OWNER, FakeClock, local, open_files
from tests.fakes.plain_text import PlainText
from tests.fakes.scripted_chat import ScriptedChat, match

pytestmark = pytest.mark.anyio

QUERY = "蟒蛇"
DESCENTS, PICKS = "cache/descend_cache.json", "cache/agent_decision.json"


@asynccontextmanager
async def hub_on(
    folder: Path, chat: ScriptedChat | None = None, clock: FakeClock | None = None
) -> AsyncIterator[tuple[Hub, ScriptedChat]]:
    chat = chat or ScriptedChat()
    world = World(llm=chat, text=PlainText(), clock=clock or FakeClock())
    async with open_hub(Settings(data_dir=folder, owner=OWNER), world, keep=False) as hub:
        yield hub, chat


async def created(hub: Hub, name: str, parent_id: str = "root") -> str:
    written = await hub.keywords.create(local(), NewKeyword(name, parent_id), auto_place=False)
    return str(written.row["id"])


async def found_once(folder: Path) -> dict[str, str]:
    """Let a model find a keyword three levels deep, close the hub, and return the ids of what there is."""
    async with hub_on(folder, ScriptedChat([match("Python")])) as (hub, chat):
        ids = {"技术": await created(hub, "技术")}
        ids["Python"] = await created(hub, "Python", ids["技术"])
        ids["Go"] = await created(hub, "Go")
        ids["elsewhere"] = await created(hub, "elsewhere", ids["Go"])
        info = await hub.infos.create(local(), NewInfo("import this", keyword_ids=[ids["Python"]]))
        ids["info"] = str(info.row["id"])
        found = await hub.keyword_search.search(local(), QUERY)
        assert found.status is SearchStatus.MATCHED
        assert len(chat.questions) == 1
    return ids


async def searched(folder: Path, chat: ScriptedChat | None = None) -> tuple[Found, int]:
    """Open a hub, search, and return what was found and how often the model was asked."""
    async with hub_on(folder, chat) as (hub, asked):
        found = await hub.keyword_search.search(local(), QUERY)
        return found, len(asked.questions)


async def test_a_restarted_hub_answers_without_the_model_and_with_the_rows_of_now(tmp_path: Path) -> None:
    ids = await found_once(tmp_path)

    found, asked = await searched(tmp_path)

    assert asked == 0
    assert found.status is SearchStatus.MATCHED
    assert [orjson.loads(one)["id"] for one in found.path] == ["root", ids["技术"], ids["Python"]]
    assert [orjson.loads(info)["content"] for info in found.infos] == ["import this"]


async def test_it_survives_many_restarts_in_which_nothing_was_asked(tmp_path: Path) -> None:
    await found_once(tmp_path)

    for _ in range(3):
        assert (await searched(tmp_path))[1] == 0


async def test_when_its_time_is_over_the_model_is_asked_again(tmp_path: Path) -> None:
    await found_once(tmp_path)
    clock = FakeClock()
    clock.advance(7 * 3600)

    async with hub_on(tmp_path, clock=clock) as (hub, chat):
        await hub.keyword_search.search(local(), QUERY)

    assert len(chat.questions) == 1


@pytest.mark.parametrize("changed", ["技术", "Python"])
async def test_what_another_process_changed_on_the_path_is_asked_again(tmp_path: Path, changed: str) -> None:
    ids = await found_once(tmp_path)
    await changed_elsewhere(tmp_path, lambda hub: hub.keywords.update(local(), ids[changed], {"description": "new"}))

    _, asked = await searched(tmp_path)

    assert asked == 1


async def test_what_another_process_changed_elsewhere_leaves_it(tmp_path: Path) -> None:
    ids = await found_once(tmp_path)
    await changed_elsewhere(
        tmp_path, lambda hub: hub.keywords.update(local(), ids["elsewhere"], {"description": "new"})
    )

    found, asked = await searched(tmp_path)

    assert asked == 0
    assert found.status is SearchStatus.MATCHED


async def test_a_keyword_that_was_deleted_meanwhile_is_not_answered(tmp_path: Path) -> None:
    ids = await found_once(tmp_path)
    await changed_elsewhere(tmp_path, lambda hub: hub.keywords.delete(local(), ids["Python"]))

    found, asked = await searched(tmp_path)

    assert asked == 1
    assert found.status is SearchStatus.NOT_FOUND


async def changed_elsewhere(folder: Path, change: Callable[[Hub], Any]) -> None:
    """Change something in a process that keeps no caches, as `KeywordTree` and the command line do."""
    settings = Settings(data_dir=folder, owner=OWNER, result_cache=False)
    async with open_hub(settings, World(text=PlainText(), clock=FakeClock()), keep=False) as hub:
        await change(hub)


async def test_what_is_changed_between_the_answer_and_the_saving_is_asked_again(tmp_path: Path) -> None:
    # The file names the operation up to which its entries hold; what comes while it is written is looked at later.
    async with hub_on(tmp_path, ScriptedChat([match("Python")])) as (hub, _):
        python = await created(hub, "Python")
        await hub.keyword_search.search(local(), QUERY)
        await hub.keeper.run_once()
        kept = [(tmp_path / name).read_bytes() for name in (DESCENTS, PICKS)]
        await hub.keywords.update(local(), python, {"description": "new"})
    for name, data in zip((DESCENTS, PICKS), kept, strict=True):
        # As when the process was killed before it saved again.
        (tmp_path / name).write_bytes(data)

    _, asked = await searched(tmp_path)

    assert asked == 1


async def test_what_is_written_while_a_thread_saves_is_looked_at_after_a_restart(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as (hub, _):
        python, other = await created(hub, "Python"), await created(hub, "Go")
        # Written one after another: the last of them long after the operation that comes meanwhile.
        kinds = {f"{number:02}.json": f"{number:02}:" for number in range(30)}
        files = CacheFiles(tmp_path / "cache", hub.store.history, hub.store.log_id, hub.store, kinds)
        entries = [
            {"key": f"{kind}{used}", "value": "x" * 500_000, "uses": [["default", used]], "expires_at": 2e9}
            for kind in kinds.values()
            for used in (python, other)
        ]

        saving = asyncio.ensure_future(files.save(entries))
        await asyncio.sleep(0)
        await hub.keywords.update(local(), python, {"description": "new"})
        await saving

        kept = files.load(lambda account, changes: {(account, change["id"]) for change in changes})
        assert [entry["key"] for entry in kept] == [f"{kind}{other}" for kind in kinds.values()]


async def test_an_unchanged_file_is_not_written_again(tmp_path: Path) -> None:
    async with hub_on(tmp_path, ScriptedChat([match("Python")])) as (hub, _):
        await created(hub, "Python")
        await hub.keyword_search.search(local(), QUERY)
        await hub.keeper.run_once()
        (tmp_path / DESCENTS).unlink()
        await created(hub, "elsewhere")

        await hub.keeper.run_once()

        assert not (tmp_path / DESCENTS).exists() or b"descend:" not in (tmp_path / DESCENTS).read_bytes()


async def test_the_file_of_another_log_holds_nothing(tmp_path: Path) -> None:
    for name in ("one", "other"):
        await found_once(tmp_path / name)
    for name in (DESCENTS, PICKS):
        (tmp_path / "other" / name).write_bytes((tmp_path / "one" / name).read_bytes())

    _, asked = await searched(tmp_path / "other")

    assert asked == 1


async def test_a_file_that_is_ahead_of_a_restored_log_holds_nothing(tmp_path: Path) -> None:
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"
    async with hub_on(tmp_path) as (hub, _):
        await created(hub, "技术")
    older = segment.read_bytes()
    async with hub_on(tmp_path, ScriptedChat([match("技术")])) as (hub, _):
        await created(hub, "Go")
        await hub.keyword_search.search(local(), QUERY)
    # A backup is put back: what was acknowledged after it is gone, the caches are not.
    segment.write_bytes(older)
    (tmp_path / "LOCK").unlink()
    (tmp_path / "records" / "checkpoint.json").unlink()

    _, asked = await searched(tmp_path)

    assert asked == 1


def flipped(data: bytes) -> bytes:
    spoilt = bytearray(data)
    spoilt[len(spoilt) // 2] ^= 1
    return bytes(spoilt)


def reshaped(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Spoil the object of a file, and close it with a checksum that is right."""

    def spoil(data: bytes) -> bytes:
        kept = parsed(data)
        assert kept is not None
        del kept["crc"]
        changed = change(kept)
        return seal(orjson.dumps(kept if changed is None else changed)[:-1])

    return spoil


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _data: b"",
    "a flipped byte": flipped,
    "cut off": lambda data: data[: len(data) // 2],
    "no JSON": lambda _data: b"\x00\xff not json",
    "no object": lambda _data: b"[]\n",
    "entries are no list": reshaped(lambda kept: kept.update(entries={"a": 1})),
    "entries are no objects": reshaped(lambda kept: kept.update(entries=[1, None, "a"])),
    "entries without uses": reshaped(lambda kept: kept["entries"][0].pop("uses")),
    "uses are no pairs": reshaped(lambda kept: kept["entries"][0].update(uses=[1])),
    "uses hold lists": reshaped(lambda kept: kept["entries"][0].update(uses=[["default", ["a"]]])),
    "entries without a key": reshaped(lambda kept: [entry.pop("key") for entry in kept["entries"]] and None),
    "an end that is no number": reshaped(lambda kept: kept["entries"][0].update(expires_at="soon")),
    "another log's name": reshaped(lambda kept: kept.update(log_id="0" * 32)),
    "no seq": reshaped(lambda kept: kept.pop("seq") and None),
    "a negative seq": reshaped(lambda kept: kept.update(seq=-1)),
    "a seq beyond the log": reshaped(lambda kept: kept.update(seq=10_000)),
    "another checksum": reshaped(lambda kept: kept.update(checksum="00000000")),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
async def test_a_damaged_file_or_one_of_another_shape_is_only_asked_again(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    await found_once(tmp_path)
    for name in (DESCENTS, PICKS):
        path = tmp_path / name
        path.write_bytes(spoil(path.read_bytes()))

    found, asked = await searched(tmp_path, ScriptedChat([match("Python")]))

    assert asked == 1
    assert found.status is SearchStatus.MATCHED


async def test_a_spoilt_file_is_written_whole_again(tmp_path: Path) -> None:
    await found_once(tmp_path)
    (tmp_path / DESCENTS).write_bytes(b"spoilt")
    (tmp_path / PICKS).unlink()

    await searched(tmp_path, ScriptedChat([match("Python")]))

    assert parsed((tmp_path / DESCENTS).read_bytes()) is not None
    assert (await searched(tmp_path))[1] == 0


async def test_what_was_kept_before_an_erasing_is_written_anew_and_not_read(tmp_path: Path) -> None:
    async with hub_on(tmp_path, ScriptedChat([match("Python")])) as (hub, _):
        await created(hub, "Python")
        info = await hub.infos.create(local(), NewInfo("to be erased"))
        await hub.keyword_search.search(local(), QUERY)
        await hub.keeper.run_once()
        kept = [(tmp_path / name).read_bytes() for name in (DESCENTS, PICKS)]
        done = await hub.erasures.erase(local(), INFOS, str(info.row["id"]))

        assert done.pending == []
        assert [orjson.loads((tmp_path / name).read_bytes())["entries"] for name in (DESCENTS, PICKS)] == [[], []]
    for name, data in zip((DESCENTS, PICKS), kept, strict=True):
        # As when a process that is slow writes what it had read before.
        (tmp_path / name).write_bytes(data)

    _, asked = await searched(tmp_path)

    assert asked == 1


async def test_a_process_that_keeps_no_caches_removes_those_of_before_an_erasing(tmp_path: Path) -> None:
    ids = await found_once(tmp_path)
    before = [(tmp_path / name).exists() for name in (DESCENTS, PICKS)]

    await changed_elsewhere(tmp_path, lambda hub: hub.erasures.erase(local(), INFOS, ids["info"]))

    assert (before, [(tmp_path / name).exists() for name in (DESCENTS, PICKS)]) == ([True, True], [False, False])


ENTRY = {"key": "descend:snake", "value": "Python", "uses": [["default", "python"]], "expires_at": 2e9}


async def note(store: FileStore, count: int) -> None:
    """Write operations that touch nothing that an entry uses."""
    draft = Draft("save_note", [Write("notes", "n", {"id": "n", "text": "said", "version": 1})])
    await store.commit_group("default", OWNER, [lambda _view: draft] * count)


def found_in(folder: Path, store: FileStore) -> list[Any]:
    files = CacheFiles(folder / "cache", store.history, store.log_id, store, {"descend_cache.json": "descend:"})
    return list(files.load(lambda account, changes: {(account, change["id"]) for change in changes}))


async def kept_in(folder: Path, store: FileStore) -> None:
    files = CacheFiles(folder / "cache", store.history, store.log_id, store, {"descend_cache.json": "descend:"})
    await files.save([ENTRY])


async def test_what_would_be_dearer_to_hold_against_the_log_than_to_ask_again_holds_nothing(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    await note(store, 1)
    await kept_in(tmp_path, store)

    await note(store, 10_000)
    at_the_limit = found_in(tmp_path, store)
    await note(store, 1)

    assert (at_the_limit, found_in(tmp_path, store)) == ([ENTRY], [])
    await store.close()


async def test_behind_a_line_that_does_not_read_back_nothing_holds(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    await note(store, 1)
    await kept_in(tmp_path, store)
    await note(store, 2)
    before = found_in(tmp_path, store)
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"

    segment.write_bytes(segment.read_bytes().replace(b'"said"', b'"sa1d"'))

    assert (before, found_in(tmp_path, store)) == ([ENTRY], [])
    await store.close()
