"""Builds KnowHub: settings in, a complete Hub out, closed in reverse order."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from knowhub.audit.service import AuditService
from knowhub.context.authoring import MemoryAuthoring
from knowhub.context.commit.commit_coordinator import CommitCoordinator
from knowhub.context.retrieval.search import MemorySearch
from knowhub.context.service import ContextService
from knowhub.core.allowances import TokenBuckets
from knowhub.core.background_writes import DecisionLog
from knowhub.core.cursors import CursorCodec
from knowhub.core.ids import RandomIds
from knowhub.core.job_board import InMemoryJobBoard
from knowhub.core.store_results import CompactionResult
from knowhub.identity.key_table import KeyTable
from knowhub.identity.model import API_KEYS, KEY_USES
from knowhub.identity.service import IdentityService
from knowhub.keywords.cache import Invalidation, RecentMatchesByReader, ResultCache
from knowhub.keywords.curate.curator import Curator
from knowhub.keywords.exchange import KeywordExchange
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.missed import MissedQueries
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.search.text_search import NearKeywords, TreeTextSearch
from knowhub.keywords.service import KeywordService
from knowhub.knowledge.evolve.evolution import Evolution
from knowhub.knowledge.evolve.similarity import SimilarRecords
from knowhub.knowledge.evolve.slimming import Slimming, SlimOptions
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.extract.extraction import ExtractionOptions, KnowledgeExtraction
from knowhub.knowledge.impressions import ImpressionLog
from knowhub.knowledge.outcomes import OutcomeService
from knowhub.knowledge.search.retrieval import KnowledgeRetrieval, SearchOptions
from knowhub.knowledge.search.routing import KnowledgeReranking, Router
from knowhub.knowledge.service import KnowledgeService
from knowhub.operations.erasure import ErasureService
from knowhub.operations.jobs import Jobs
from knowhub.operations.service import OperationsService
from knowhub.operations.snapshots import Snapshots
from knowhub.resources.service import ResourceService
from knowhub.search.analysis import simplify
from knowhub.settings import Settings, default_owner
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.directory_check import inspect
from knowhub.stores.files.doctor.findings import Finding
from knowhub.stores.files.doctor.repair import repair
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.snapshots.archive import Manifest
from knowhub.stores.files.snapshots.restore import unpack_directory
from knowhub.stores.files.subprocess_runner import run_in_subprocess
from knowhub.usecases.distill_session import Distillation
from knowhub.usecases.recall import RecallService
from knowhub.wiring.adapters import Adapters, Overrides, open_adapters
from knowhub.wiring.background import DAY_S, HOUR_S, BackgroundWork
from knowhub.wiring.collections import COLLECTIONS, row_checks
from knowhub.wiring.exports import projections_of
from knowhub.wiring.indexes import Indexes
from knowhub.wiring.models import chat_models_by_name

_log = structlog.get_logger("knowhub.recall")
_APPLY_FEEDBACK_EVERY_S = 600.0
_LEADER_POLL_S = 0.5


class Knowledge:
    """The services on knowledge records."""

    def __init__(
        self,
        adapters: Adapters,
        indexes: Indexes,
        decisions: DecisionLog,
        stack: AsyncExitStack,
    ) -> None:
        settings, clock, ids = adapters.settings, adapters.clock, adapters.ids
        store, chat, lexical = adapters.store, adapters.chat, indexes.records.lexical
        log_decision, budget_s = decisions.note, settings.llm_write_budget_s
        router, reranking = None, None
        if chat is not None and settings.routing_candidates:
            router = Router(chat, log_decision, settings.llm_budget_s, settings.routing_candidates)
        if adapters.reranker is not None:
            reranking = KnowledgeReranking(adapters.reranker, settings.rerank_budget_s)
        self.records = KnowledgeService(store, ids)
        self.impressions = ImpressionLog(store, clock)
        self.search = KnowledgeRetrieval(
            store,
            indexes.records.index,
            clock,
            SearchOptions(
                self.impressions,
                router,
                reranking,
                settings.relevance_floor,
                settings.evidence_half_life_days,
            ),
        )
        self.outcomes = OutcomeService(store, self.impressions)
        self.exchange = KnowledgeExchange(store, ids)
        self.evolution = Evolution(store, chat, budget_s, log_decision)
        open_by_name = chat_models_by_name(settings, chat, adapters.timing, adapters.token_budget)
        slim_options = SlimOptions(ids, open_by_name, budget_s, log_decision, indexes.records.find_similar)
        self.slimming = Slimming(store, lexical, slim_options)
        self.similarity = SimilarRecords(store, lexical)
        self.extraction = KnowledgeExtraction(
            store, lexical, ids, chat, ExtractionOptions(indexes.records.index, budget_s, simplify)
        )
        stack.push_async_callback(self.impressions.close)


class Keywords:
    """The services on the keyword tree and its infos."""

    def __init__(self, adapters: Adapters, indexes: Indexes, decisions: DecisionLog) -> None:
        settings, store, ids, text = adapters.settings, adapters.store, adapters.ids, adapters.text
        options = TreeOptions(
            max_candidates=settings.max_candidates,
            max_rounds=settings.descend_max_rounds,
            descent_budget_s=settings.descent_budget_s,
            write_budget_s=settings.llm_write_budget_s,
            describe_candidates=settings.describe_candidates,
            uncategorized_name=settings.uncategorized_name,
            auto_link_creates=settings.auto_link_creates,
        )
        capacity = settings.result_cache_entries if settings.result_cache else 0
        cache = ResultCache(adapters.clock, capacity, settings.result_cache_bytes)
        recent_matches = RecentMatchesByReader(settings.recent_keywords)
        store.subscribe(Invalidation(cache, recent_matches), [KEYWORDS, INFOS, LINKS])
        self.agent = KeywordAgent(adapters.chat, recent_matches, options, decisions.note, cache)
        near = NearKeywords(text, TreeTextSearch(indexes.tree.index, settings.relevance_floor))
        self.tree = KeywordService(store, near, ids, self.agent, options)
        self.infos = InfoService(store, text, ids, self.agent, options, cache)
        self.search = KeywordSearch(store, near, self.agent, options, cache, decisions)
        self.missed = MissedQueries(store, text)
        self.exchange = KeywordExchange(store, ids, self.tree, self.infos)
        self.curator = Curator(store, text, ids, self.agent, options)


class Memories:
    """The services on ctx:// nodes and sessions."""

    def __init__(self, adapters: Adapters, indexes: Indexes, work: BackgroundWork, records: KnowledgeService) -> None:
        settings, store, reranker = adapters.settings, adapters.store, adapters.reranker
        directories = work.exports.directories
        self.commits = CommitCoordinator(store, simplify, directories, work.extraction)
        search = MemorySearch(store, indexes.memories.index, adapters.clock, reranker, settings.rerank_budget_s)
        self.nodes = ContextService(store, search)
        self.authoring = MemoryAuthoring(store, directories, simplify)
        self.outbox = indexes.outbox
        self.extraction = work.extraction
        self.distillation = Distillation(store, records)


class Operations:
    """The services on what was done: history, undo, erase, snapshots, jobs."""

    def __init__(self, adapters: Adapters, work: BackgroundWork, tree: KeywordService) -> None:
        store, ids = adapters.store, adapters.ids
        self.log = OperationsService(store, ids, COLLECTIONS)
        self.erasure = ErasureService(store, work.derived_files, COLLECTIONS)
        self.snapshots = Snapshots(work.archives, store, ids, COLLECTIONS, tree.make_root)
        self.jobs = Jobs(adapters.clock, ids, InMemoryJobBoard())


class Hub:
    """Everything that the HTTP API and the CLI use, grouped by domain."""

    def __init__(self, adapters: Adapters, stack: AsyncExitStack) -> None:
        self.settings = adapters.settings
        self.clock = adapters.clock
        self.ids = adapters.ids
        self.store = adapters.store
        self.vault = adapters.vault
        self.chat = adapters.chat
        self.embedder = adapters.embedding.embedder
        self.reranker = adapters.reranker
        self.run_subprocess = adapters.run_subprocess
        self.default_owner = default_owner(adapters.settings)
        # Cursors are signed with the log's id: no answer contains it, and every process of this log knows it.
        self.cursors = CursorCodec(self.store.log_id)
        self.decisions = DecisionLog(self.store, enabled=self.settings.log_agent_decisions)
        stack.push_async_callback(self.decisions.close)

        self.indexes = Indexes(adapters, stack)
        self.keywords = Keywords(adapters, self.indexes, self.decisions)
        work = BackgroundWork(adapters, self.indexes, stack)
        self.maintenance = work.maintenance
        self.exports = work.exports
        self.knowledge = Knowledge(adapters, self.indexes, self.decisions, stack)
        self.memories = Memories(adapters, self.indexes, work, self.knowledge.records)
        reveals = self.settings.reveals_per_hour
        self.resources = ResourceService(
            self.store, self.vault, TokenBuckets(reveals, HOUR_S, time.monotonic) if reveals else None
        )
        self.operations = Operations(adapters, work, self.keywords.tree)
        self.audit = AuditService(self.store, self.clock)
        self.recall = RecallService(
            self.knowledge.search, self.keywords.search, self.memories.nodes, _log_failed_source
        )
        key_collections = [API_KEYS, KEY_USES]
        key_table = KeyTable(self.store.read_rows(key_collections))
        self.store.subscribe(key_table, key_collections)
        self.identity = IdentityService(self.store, key_table, self.clock, self.ids, self.settings.root_key)
        stack.push_async_callback(self.identity.uses.close)

    def list_quarantined(self) -> list[str]:
        """Return the files in quarantine/: what was cut from the log at start, and what a repair took out."""
        return list(map(str, DataDirectory(self.settings.data_dir).list_quarantine()))

    async def reindex(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Rebuild the indexes of an account, or of all, and every exported file; return the number of rows indexed."""
        await self.store.refresh(account)
        rows = await self.indexes.rebuild(progress, account)
        await self.exports.request_rebuild()
        await self.maintenance.tick()
        return rows

    async def compact(self, retention_days: float | None = None) -> CompactionResult:
        """Forget operations older than `retention_days`, or the setting's; every row stays. Raises as the store."""
        days = self.settings.undo_retention_days if retention_days is None else retention_days
        compacted = await self.store.compact(days * DAY_S, self.run_subprocess)
        # The record files drop old versions too; nobody waits for that.
        self.maintenance.wake()
        return compacted


@asynccontextmanager
async def open_hub(
    settings: Settings, overrides: Overrides | None = None, *, maintain: bool = True
) -> AsyncIterator[Hub]:
    """Open the data directory of the settings and build the Hub on it.

    With `maintain` the background work runs. Raises Unavailable when the directory is of a newer format or held by a
    stopped process, InvalidInput for settings that cannot be used, and OSError.
    """
    async with AsyncExitStack() as stack:
        adapters = await open_adapters(settings, overrides or Overrides(), stack)
        hub = Hub(adapters, stack)
        await hub.indexes.rebuild_outdated()
        # The rows just loaded are left out of later collections: one over all of them would stall the event loop.
        gc.freeze()
        if maintain:
            await asyncio.to_thread(adapters.text.load)
            hub.maintenance.start()
            measuring = asyncio.create_task(hub.indexes.embedding.measure(), name="measuring the embedder")
            stack.callback(measuring.cancel)
            if hub.chat is not None:
                applying = asyncio.create_task(_apply_pending_feedback(hub), name="applying pending feedback")
                stack.callback(applying.cancel)
        yield hub


def check_directory(settings: Settings) -> list[Finding]:
    """Check a data directory without opening it: what is damaged, torn, behind or in the way."""
    files, directory = FileSystem(), DataDirectory(settings.data_dir)
    projections = projections_of(files, directory, run_in_subprocess, settings)
    return inspect(files, directory, COLLECTIONS, projections, row_checks())


def repair_directory(settings: Settings) -> list[Finding]:
    """Repair a data directory that no process has open; return what was done. Raises as `repair`."""
    files, directory = FileSystem(), DataDirectory(settings.data_dir)
    projections = projections_of(files, directory, run_in_subprocess, settings)
    return repair(files, directory, RandomIds(), COLLECTIONS, projections)


def unpack_snapshot(archive: Path, settings: Settings) -> Manifest:
    """Unpack a snapshot into the empty data directory of the settings. Raises Conflict, OSError."""
    return unpack_directory(FileSystem(), archive, settings.data_dir, settings.snapshot_max_bytes)


async def _apply_pending_feedback(hub: Hub) -> None:
    while True:
        if hub.maintenance.is_leader:
            await hub.knowledge.evolution.apply_pending_feedback(hub.store.accounts)
        await asyncio.sleep(_APPLY_FEEDBACK_EVERY_S if hub.maintenance.is_leader else _LEADER_POLL_S)


def _log_failed_source(source: str, error: Exception) -> None:
    _log.warning("recall_source_failed", source=source, error=repr(error))
