"""The only place that builds objects: settings in, a complete Hub out, closed in reverse."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from knowhub.core.chat import ChatModel
from knowhub.core.clock import Clock, SystemClock
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, RandomIds
from knowhub.keywords import caches as keyword_caches
from knowhub.keywords import decisions as keyword_decisions
from knowhub.keywords import info_decisions
from knowhub.keywords import model as keywords
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.audit import DecisionLog
from knowhub.keywords.caches import Picks, ResultCache
from knowhub.keywords.curator import Curator
from knowhub.keywords.finding import KeywordSearch
from knowhub.keywords.infos import InfoService
from knowhub.keywords.model import Options
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.recent import Recents
from knowhub.keywords.service import KeywordService
from knowhub.knowledge import decisions as knowledge_decisions
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.retrieval import KnowledgeRetrieval
from knowhub.knowledge.service import KnowledgeService
from knowhub.operations.jobs import Jobs
from knowhub.operations.service import OperationsService
from knowhub.providers import http
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.http import Timing
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.search.lexical import LexicalIndex
from knowhub.settings import Settings, default_owner
from knowhub.stores.files.cache_files import CacheFiles
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem, RealFileSystem
from knowhub.stores.files.inspection import Finding, inspect
from knowhub.stores.files.keeper import Job, Keeper
from knowhub.stores.files.log_line import RawChange
from knowhub.stores.files.open_store import Environment, open_store
from knowhub.stores.files.records import RecordFiles
from knowhub.stores.files.state import SearchableRecords
from knowhub.stores.files.store import FileStore, StoreOptions

_REBUILD_BEFORE_SERVING = 10_000
_CACHE_KINDS = {"descend_cache.json": "descend:", "agent_decision.json": "agent:pick:"}
UNDO_RULES = {
    knowledge.COLLECTION: knowledge_decisions.UNDO_RULES,
    keywords.KEYWORDS: keyword_decisions.KEYWORD_RULES,
    keywords.INFOS: info_decisions.INFO_RULES,
    keywords.LINKS: info_decisions.LINK_RULES,
}


@dataclass(frozen=True, slots=True)
class Hub:
    """Everything that a face of KnowHub needs, ready to use."""

    settings: Settings
    clock: Clock
    ids: Ids
    default_owner: str
    knowledge: KnowledgeService
    retrieval: KnowledgeRetrieval
    exchange: KnowledgeExchange
    keywords: KeywordService
    infos: InfoService
    keyword_search: KeywordSearch
    curator: Curator
    agent: KeywordAgent
    chat: ChatModel | None
    decisions: DecisionLog
    operations: OperationsService
    jobs: Jobs
    store: FileStore
    index: LexicalIndex
    records: RecordFiles
    keeper: Keeper

    async def reindex(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build the indexes of one account anew, or of all; return how many records they hold."""
        await self.store.refresh()
        return await self.index.rebuild(progress, account)


@dataclass(frozen=True, slots=True)
class World:
    """What a hub needs beside its settings; what is left out is the real thing.

    `llm` takes the place of the model that the settings name, and `text` of the rules by which names are read.
    """

    clock: Clock | None = None
    ids: Ids | None = None
    files: FileSystem | None = None
    llm: ChatModel | None = None
    text: KeywordText | None = None


@asynccontextmanager
async def open_hub(settings: Settings, world: World | None = None, *, keep: bool = True) -> AsyncIterator[Hub]:
    """Open the data directory that `settings` name and build the Hub on it.

    With `keep` the directory is kept up in the background. Raises Unavailable when the directory is of a newer
    format or held by a stopped process, and OSError.
    """
    world = world or World()
    clock, ids, files = world.clock or SystemClock(), world.ids or RandomIds(), world.files or RealFileSystem()
    directory = DataDirectory(settings.data_dir)
    async with contextlib.AsyncExitStack() as stack:
        chat = world.llm or await stack.enter_async_context(chat_model(settings, clock=clock, ids=ids))
        with _no_collection():
            store = open_store(directory.root, Environment(files, clock, ids, time.sleep), _options(settings))
            stack.push_async_callback(store.close)
        index = _index(directory, store)
        cache = _result_cache(settings, clock)
        recents = Recents(settings.recent_keywords)
        store.subscribe(_Invalidation(cache, recents))
        records = RecordFiles(directory.records, store.history, store.log_id)
        store.subscribe(records)
        kept: dict[str, Job] = {"indexes": _absorbing(index, settings.index_batch), "records": records.bring_up}
        if cache is not None:
            kept["caches"] = _keeping(cache, CacheFiles(directory.cache, store.history, store.log_id, _CACHE_KINDS))
        keeper = _keeper(settings, files, store, index, kept)
        stack.push_async_callback(keeper.close)
        if index.lag > _REBUILD_BEFORE_SERVING:
            # So much could not be scanned at each search; the index is missing or was made for another log.
            await index.rebuild(lambda _done, _total: None)
        text = world.text or KeywordTextRules()
        options = _tree_options(settings)
        agent = KeywordAgent(chat, recents, options, Picks(cache) if cache is not None else None)
        decisions = DecisionLog(store, enabled=settings.log_agent_decisions)
        stack.push_async_callback(decisions.close)
        # One full collection over everything just loaded would stall the loop: it is never looked at again.
        gc.freeze()
        if keep:
            await asyncio.to_thread(text.load)
            keeper.start()
        yield Hub(
            settings=settings,
            clock=clock,
            ids=ids,
            default_owner=default_owner(settings),
            knowledge=KnowledgeService(store, ids),
            retrieval=KnowledgeRetrieval(store, index, clock),
            exchange=KnowledgeExchange(store, ids),
            keywords=KeywordService(store, text, ids, agent, options),
            infos=InfoService(store, text, ids, agent, options, cache),
            keyword_search=KeywordSearch(store, text, agent, options, cache, decisions),
            curator=Curator(store, text, ids, agent, options, decisions),
            agent=agent,
            chat=chat,
            decisions=decisions,
            operations=OperationsService(store, ids, UNDO_RULES),
            jobs=Jobs(clock, ids),
            store=store,
            index=index,
            records=records,
            keeper=keeper,
        )


@asynccontextmanager
async def chat_model(
    settings: Settings,
    *,
    model: str | None = None,
    has_breaker: bool = True,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[ChatModel | None]:
    """Build the language model that the settings name, or another `model` at the same place; None without a place.

    Without its breaker it asks every question, however many failed before.
    Raises InvalidInput when the place, the proxy or the certificates cannot be used.
    """
    if settings.llm_base_url is None:
        yield None
        return
    options = ChatOptions(
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=model or settings.llm_model,
        attempt_timeout_s=settings.llm_timeout_s,
        max_attempts=settings.llm_attempts,
        max_answer_bytes=settings.llm_max_answer_bytes,
        tokens_per_hour=settings.llm_tokens_per_hour,
        breaker_failures=settings.llm_breaker_failures if has_breaker else 0,
        breaker_cool_down_s=settings.llm_breaker_cool_down_s,
    )
    try:
        client = http.client(settings.llm_proxy, settings.llm_ca_file)
        chat = ChatClient(options, client, Timing(clock or SystemClock(), ids or RandomIds()))
    except (ValueError, OSError) as problem:
        raise InvalidInput.of("KNOWHUB_LLM_*", str(problem)) from problem
    async with client:
        yield chat


def examine(settings: Settings) -> list[Finding]:
    """Look at a data directory without opening it: what is damaged, torn, behind or in the way."""
    return inspect(RealFileSystem(), DataDirectory(settings.data_dir))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Load without the garbage collector, which would look at a growing million of objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Invalidation:
    """Drops what a cache holds of what an operation touched, and what went away of what was matched lately."""

    cache: ResultCache | None
    recents: Recents

    def follow(self, account: str, _seq: int, changes: Sequence[RawChange]) -> None:
        for change in changes:
            if change.collection == keywords.KEYWORDS and _has_gone(change):
                self.recents.forget(account, change.id)
        if self.cache is not None:
            self.cache.touch(account, _touched(changes))


def _has_gone(change: RawChange) -> bool:
    before, after = change.before_row, change.after_row
    return before is not None and bool(after.get("deleted") or after["parent_id"] != before["parent_id"])


def _touched(changes: Sequence[RawChange]) -> set[str]:
    return {name for one in changes for name in keyword_caches.touched(one.collection, one.before_row, one.after_row)}


def _touched_since(account: str, changes: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {
        (account, name)
        for one in changes
        for name in keyword_caches.touched(one["collection"], one["before"], one["after"])
    }


def _options(settings: Settings) -> StoreOptions:
    return StoreOptions(
        lock_timeout_s=settings.lock_timeout_s,
        segment_bytes=settings.segment_bytes,
        retry_key_lifetime_s=settings.retry_key_lifetime_s,
    )


def _index(directory: DataDirectory, store: FileStore) -> LexicalIndex:
    index = LexicalIndex(directory.indexes / "lexical", store, lambda name: SearchableRecords(store.state(name)))
    for account in store.accounts:
        index.account(account)
    store.subscribe(index)
    return index


def _result_cache(settings: Settings, clock: Clock) -> ResultCache | None:
    if not settings.result_cache:
        return None
    return ResultCache(clock, settings.result_cache_entries, settings.result_cache_bytes)


def _tree_options(settings: Settings) -> Options:
    return Options(
        max_candidates=settings.max_candidates,
        max_rounds=settings.descend_max_rounds,
        recent_capacity=settings.recent_keywords,
        descent_budget_s=settings.descent_budget_s,
        write_budget_s=settings.llm_write_budget_s,
        describe_candidates=settings.describe_candidates,
        uncategorized_name=settings.uncategorized_name,
        auto_link_creates=settings.auto_link_creates,
    )


def _absorbing(index: LexicalIndex, limit: int) -> Job:
    async def absorb() -> None:
        while await index.absorb(limit):
            continue

    return absorb


def _keeping(cache: ResultCache, files: CacheFiles) -> Job:
    """Take back what was kept over the restart, and return the job that keeps it from now on."""
    cache.restore(files.load(_touched_since))

    async def save() -> None:
        await files.save(cache.persistable())

    return save


def _keeper(
    settings: Settings, files: FileSystem, store: FileStore, index: LexicalIndex, kept: Mapping[str, Job]
) -> Keeper:
    async def reload() -> None:
        index.reload()

    always: dict[str, Job] = {"refresh": store.refresh, "room": store.resume}
    path = DataDirectory(settings.data_dir).keeper
    keeper = Keeper(files, path, settings.index_interval_s, {**always, **kept}, {**always, "indexes": reload})
    index.wake_at(settings.index_batch, keeper.wake)
    return keeper
