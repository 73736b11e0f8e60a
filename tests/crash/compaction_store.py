"""A store with rows of every kind in many small segments, for tests of compaction."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.ids import RandomIds
from knowhub.core.store_results import CompactionResult
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import NewInfo, NewKeyword, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import KeywordService
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_manifest import MANIFEST
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import FakeClock, domain_on, local, new_knowledge, open_files
from tests.fakes.plain_text import PlainText

DAY_S = 24 * 3600.0
SMALL_SEGMENTS = StoreOptions(segment_bytes=4096)

Key = tuple[str, str]
State = Mapping[Key, bytes | None]


@dataclass(frozen=True, slots=True)
class FilledFolder:
    """A folder with rows of every kind: its keys, and one operation for each kind."""

    keys: list[Key]
    operation_id: str
    knowledge_id: str


@asynccontextmanager
async def open_store(
    folder: Path, clock: FakeClock | None = None, files: FileSystem | None = None
) -> AsyncIterator[FileStore]:
    store = open_files(folder, files, SMALL_SEGMENTS, clock=clock)
    try:
        yield store
    finally:
        await store.close()


async def fill(store: FileStore, count: int = 30) -> FilledFolder:
    """Save records, keywords and infos; change, delete and undo some."""
    ctx, ids, text, options = local(), RandomIds(), PlainText(), TreeOptions()
    hub, agent = domain_on(store), KeywordAgent(None, RecentMatchesByReader(), options)
    keywords, infos = (
        KeywordService(store, NearKeywords(text), ids, agent, options),
        InfoService(store, text, ids, agent, options),
    )
    saved = [await hub.knowledge.records.save(ctx, new_knowledge(f"记录 {number}")) for number in range(count)]
    for done in saved[::3]:
        patched = await hub.knowledge.records.patch(ctx, done.record["id"], {"content": f"changed {done.record['id']}"})
    await hub.knowledge.records.delete(ctx, saved[1].record["id"])
    await hub.operations.log.undo(ctx, saved[2].operation_id or "")
    made = await keywords.create_batch(ctx, [NewKeyword(f"keyword {number}") for number in range(5)])
    keyword_ids = [str(saved.record["id"]) for saved in made.records]
    for number in range(count):
        await infos.create(ctx, NewInfo(f"info {number}", keyword_ids=[keyword_ids[number % 5], keyword_ids[0]]))
    keys: dict[Key, None] = {}
    async for operation in store.operations("default"):
        keys |= {(change.collection, change.id): None for change in operation.changes}
    return FilledFolder(list(keys), patched.operation_id or "", saved[0].record["id"])


def state_of(store: FileStore, known: FilledFolder) -> State:
    state = store.account("default")
    return {key: state.table(key[0]).text(key[1]) for key in known.keys}


async def compact(store: FileStore, retention_s: float = 0.0, files: FileSystem | None = None) -> CompactionResult:
    return await store.compact(retention_s, run_in_process(files or FileSystem()))


def list_log_files(folder: Path) -> list[str]:
    """Return the names of the files of the log but the manifest."""
    return sorted(path.name for path in (folder / "change_log").iterdir() if path.name != MANIFEST)


def list_unpublished(folder: Path) -> list[str]:
    """Return the files that a rewrite has made and that no manifest names yet."""
    active = ChangeLog(FileSystem(), folder / "change_log")
    return [str(name) for name in active.list_unused() if name.generation > active.generation]
