"""The lexical index and its tail: saved rows are found at once, stale and hidden ones never."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.job_board import JobStatus
from knowhub.core.request_context import RequestContext, local_context
from knowhub.engine.account import SearchableRows
from knowhub.knowledge.model import KnowledgeSummary, ListQuery, NewKnowledge, Order, SearchQuery
from knowhub.knowledge.table import SEARCHED_TEXTS
from knowhub.search.analysis import index_terms
from knowhub.search.full_text import FullText
from knowhub.search.lexical import AccountLexicalIndex
from knowhub.search.texts import KnowledgeTexts
from knowhub.settings import Settings
from tests.builders import local, new_knowledge
from tests.hubs import open_search_hub, save_record

pytestmark = pytest.mark.anyio

ALL = SearchQuery("", top_k=200, order=Order.RELEVANCE, min_relevance=0.0)


async def search_ids(hub: Hub, text: str, ctx: RequestContext | None = None, query: SearchQuery = ALL) -> list[str]:
    answer = await hub.knowledge.search.search(ctx or local(), replace(query, text=text))
    return [str(record["id"]) for record in answer.records]


class ImpatientTexts(KnowledgeTexts):
    search_wait_s = 0


async def test_rows_not_analysed_in_time_are_left_out_and_reported(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        zebra = await save_record(hub, new_knowledge("zebra stripes"))
        rows = SearchableRows[KnowledgeSummary](hub.store.account("default"), SEARCHED_TEXTS)
        index = AccountLexicalIndex(tmp_path / "late", rows, ImpatientTexts(), hub.store)

        early = await index.search("zebra", [], lambda _summary: True, 5)
        await index.index_pending(10)
        later = await index.search("zebra", [], lambda _summary: True, 5)

    assert (early.hits, early.index_lag, early.degraded) == ([], 1, ("index",))
    assert ([hit.summary.id for hit in later.hits], later.index_lag, later.degraded) == ([zebra], 0, ())


async def test_rows_in_both_index_and_tail_are_found_once(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, index_batch=1) as keeper, open_search_hub(tmp_path) as reader:
        batch = await keeper.knowledge.records.save_batch(
            local(), [new_knowledge(f"zebra {number}") for number in range(3)]
        )
        ids = sorted(str(record.record["id"]) for record in batch.records)
        # One of three rows of an operation is absorbed: the metadata cannot name that, and says less than there is.
        await keeper.indexes.records.lexical.index_pending(1)
        await search_ids(reader, "zebra")
        reader.indexes.records.lexical.reload()

        assert sorted(await search_ids(keeper, "zebra")) == ids
        assert sorted(await search_ids(reader, "zebra")) == ids


async def test_what_is_saved_while_the_index_is_written_waits_for_the_next_time(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        lexical, saved = hub.indexes.records.lexical, 0
        await save_record(hub, new_knowledge("zebra stripes"))
        writing = asyncio.create_task(lexical.catch_up())
        while not writing.done() and saved < 500:
            await save_record(hub, new_knowledge(f"lion mane {saved}"))
            saved += 1

        assert writing.done()
        assert lexical.lag > 0
        await lexical.catch_up()
        assert lexical.lag == 0


async def test_another_hub_takes_over_when_the_leader_closes(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as second:
        async with open_search_hub(tmp_path) as first:
            await first.maintenance.tick()
            await second.maintenance.tick()
            roles = (first.maintenance.is_leader, second.maintenance.is_leader)
            zebra = await save_record(first, new_knowledge("zebra stripes"))
        await save_record(second, new_knowledge("lion mane"))

        await second.maintenance.tick()

        assert roles == (True, False)
        assert second.maintenance.is_leader
        assert second.maintenance.failures == {}
        assert second.indexes.records.lexical.lag == 0
        assert await search_ids(second, "zebra") == [zebra]


async def build_other_index(folder: Path, words: str) -> Path:
    async with open_search_hub(folder) as hub:
        for number in range(5):
            await save_record(hub, new_knowledge(f"{words} {number}"))
    return folder / "indexes"


FOREIGN = "an index of another log"
CHANGED_METADATA: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    FOREIGN: lambda _built: {},
    "another checksum": lambda _built: {"checksum": "00000000"},
    "ahead of the log": lambda built: {"seq": built["seq"] + 1},
    "an older layout": lambda _built: {"layout": 0},
    "no such build": lambda _built: {"build": 77},
}


@pytest.mark.parametrize("change", CHANGED_METADATA)
async def test_an_index_that_does_not_match_the_log_is_rebuilt(tmp_path: Path, change: str) -> None:
    foreign = await build_other_index(tmp_path / "other", "walrus")
    own = tmp_path / "own"
    await build_other_index(own, "zebra")
    if change == FOREIGN:
        shutil.rmtree(own / "indexes")
        shutil.copytree(foreign, own / "indexes")
    metadata = next((own / "indexes").glob("lexical/*/built.json"))
    built = orjson.loads(metadata.read_bytes())
    metadata.write_bytes(orjson.dumps(built | CHANGED_METADATA[change](built)))

    async with open_search_hub(own) as hub:
        before = (await search_ids(hub, "walrus"), len(await search_ids(hub, "zebra")), hub.indexes.records.lexical.lag)
        await hub.maintenance.tick()
        after = (await search_ids(hub, "walrus"), len(await search_ids(hub, "zebra")), hub.indexes.records.lexical.lag)
        hub.indexes.records.lexical.reload()
        failures = dict(hub.maintenance.failures)

        assert before == ([], 5, 5)
        assert after == ([], 5, 0)
        assert failures == {}


def whole_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def the_build(folder: Path) -> None:
    shutil.rmtree(next(folder.glob("lexical/*/build-*")))


def files_of_the_build(folder: Path) -> None:
    for path in folder.glob("lexical/*/build-*/*"):
        path.unlink()


@pytest.mark.parametrize("with_news", [False, True])
@pytest.mark.parametrize("delete", [whole_folder, the_build, files_of_the_build])
async def test_an_index_deleted_under_a_running_hub_is_rebuilt(
    tmp_path: Path, delete: Callable[[Path], None], with_news: bool
) -> None:
    async with open_search_hub(tmp_path) as hub, open_search_hub(tmp_path) as other:
        ids = [await save_record(hub, new_knowledge("zebra one"))]
        await hub.maintenance.tick()
        await other.maintenance.tick()
        delete(tmp_path / "indexes")
        if with_news:
            ids.append(await save_record(hub, new_knowledge("zebra two")))
        meanwhile = await search_ids(hub, "zebra")

        await hub.maintenance.tick()
        await other.maintenance.tick()

        assert hub.maintenance.failures == {}
        assert (
            sorted(meanwhile)
            == sorted(await search_ids(hub, "zebra"))
            == sorted(await search_ids(other, "zebra"))
            == sorted(ids)
        )
        assert (hub.indexes.records.lexical.lag, other.indexes.records.lexical.lag) == (0, 0)
        assert FullText(next((tmp_path / "indexes").glob("lexical/*"))).load(lambda _built: True)


def builds_of(folder: Path, number: int) -> list[Path]:
    return list(folder.glob(f"indexes/*/*/build-{number}"))


async def test_a_rebuild_whose_folder_is_deleted_fails_and_the_next_works(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        for number in range(300):
            await save_record(hub, new_knowledge(f"zebra {number}"))
        await hub.maintenance.tick()

        async def work(progress: Callable[[int, int], None]) -> dict[str, Any]:
            return {"records": await hub.reindex(progress)}

        job = await hub.operations.jobs.start("reindex", "default", work)
        async with asyncio.timeout(10):
            while not builds_of(tmp_path, 2):  # noqa: ASYNC110 -- nothing reports a new folder
                await asyncio.sleep(0)
        # Moved away in one step: to delete it while files come into it would be a race.
        (tmp_path / "indexes").rename(tmp_path / "gone")
        await hub.operations.jobs.finish(job)

        again = await hub.operations.jobs.finish(await hub.operations.jobs.start("reindex", "default", work))

        assert (job.status, again.status) == (JobStatus.FAILED, JobStatus.DONE)
        assert "could not be written" in (job.error or "")
        assert again.result == {"records": 300}
        assert (len(await search_ids(hub, "zebra")), hub.indexes.records.lexical.lag) == (200, 0)


async def test_a_rebuild_beside_the_leader_leaves_both_correct(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as keeper, open_search_hub(tmp_path) as other:
        ids = [await save_record(keeper, new_knowledge("zebra one"))]
        await keeper.maintenance.tick()
        ids.append(await save_record(keeper, new_knowledge("zebra two")))

        count = await other.reindex(lambda _done, _of: None)
        ids.append(await save_record(keeper, new_knowledge("zebra three")))
        await keeper.maintenance.tick()
        await other.maintenance.tick()

        assert count == 2
        assert keeper.maintenance.failures == {}
        for hub in (keeper, other):
            assert sorted(await search_ids(hub, "zebra")) == sorted(ids)
            assert hub.indexes.records.lexical.lag == 0


async def test_a_deleted_record_leaves_the_index_on_disk_too(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        kept = await save_record(hub, new_knowledge("zebra kept"))
        deleted = await save_record(hub, new_knowledge("zebra deleted"))
        await hub.maintenance.tick()
        await hub.knowledge.records.delete(local(), deleted)
        await hub.maintenance.tick()

        disk = FullText(next((tmp_path / "indexes").glob("lexical/*")))
        assert disk.load(lambda _built: True)
        assert len(list(disk.search([(index_terms("zebra")[0], 1.0)], [], 10))) == 1
        assert await search_ids(hub, "zebra") == [kept]


async def test_reading_unknown_accounts_keeps_nothing_in_memory(tmp_path: Path) -> None:
    async with open_hub(Settings(data_dir=tmp_path)) as hub:
        newcomer = local_context("user:li", "newcomer")
        for number in range(10):
            await hub.knowledge.search.search(local_context("user:li", f"nobody-{number}"), SearchQuery("登录"))
            await hub.knowledge.records.page(local_context("user:li", f"nobody-{number}"), ListQuery())
        before = (await hub.knowledge.search.search(newcomer, SearchQuery("登录"))).records
        remembered = list(hub.store.accounts)

        await hub.knowledge.records.save(newcomer, NewKnowledge(content="登录网站"))

        assert (before, remembered) == ([], [])
        assert len((await hub.knowledge.search.search(newcomer, SearchQuery("登录"))).records) == 1
