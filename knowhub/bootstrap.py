"""The only place that builds objects: settings in, a complete Hub out, closed in reverse."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from knowhub.audit.service import AuditService
from knowhub.audit.shown import ShownLately
from knowhub.context.index.outbox import Outbox
from knowhub.context.service import ContextService
from knowhub.core.chat import ChatModel
from knowhub.core.clock import Clock, SystemClock
from knowhub.core.cursors import Cursors
from knowhub.core.embedding import Embedder
from knowhub.core.ids import Ids, RandomIds
from knowhub.core.reranking import Reranker
from knowhub.identity.service import IdentityService
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.audit import DecisionLog
from knowhub.keywords.curator import Curator
from knowhub.keywords.finding import KeywordSearch
from knowhub.keywords.infos import InfoService
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.service import KeywordService
from knowhub.knowledge.evolution import Evolution
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.extraction import KnowledgeExtraction
from knowhub.knowledge.model import Head
from knowhub.knowledge.outcome import OutcomeService
from knowhub.knowledge.own_profile import OwnProfile
from knowhub.knowledge.retrieval import KnowledgeRetrieval
from knowhub.knowledge.service import KnowledgeService
from knowhub.knowledge.showings import Showings
from knowhub.knowledge.similarity import Similarity
from knowhub.knowledge.slimming import Slimming
from knowhub.operations.erasure import ErasureService
from knowhub.operations.jobs import Jobs
from knowhub.operations.model import Compacted
from knowhub.operations.service import OperationsService
from knowhub.operations.snapshots import Snapshots
from knowhub.resources.service import ResourceService
from knowhub.resources.shredding import Shredder
from knowhub.resources.vault import Vault
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.search.lexical import LexicalIndex
from knowhub.settings import Settings, default_owner
from knowhub.stores.files.apart import Apart, run_apart, run_here
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.derived.derived_maps import DerivedMaps
from knowhub.stores.files.derived.invalidation import Invalidation
from knowhub.stores.files.derived.records import RecordFiles
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.doctor.findings import Finding
from knowhub.stores.files.doctor.inspection import inspect
from knowhub.stores.files.doctor.repairing import repair
from knowhub.stores.files.filesystem import FileSystem, RealFileSystem
from knowhub.stores.files.keeper import Keeper
from knowhub.stores.files.open_store import Environment, open_store
from knowhub.stores.files.snapshots.snapshot_manifest import Manifest
from knowhub.stores.files.snapshots.snapshot_unpacking import unpack_directory
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.usecases.distill_session import Distillation
from knowhub.usecases.recall import Recall as RecallOfAll
from knowhub.wiring.ground import Ground, Models, models_of
from knowhub.wiring.identity import identity_on
from knowhub.wiring.knowledge import KnowledgeServices, knowledge_on
from knowhub.wiring.memories import MemoryServices, memories_on
from knowhub.wiring.memory_recall import MemoryRecall
from knowhub.wiring.recall import Recall
from knowhub.wiring.resources import ResourceServices, resources_on, vault_of
from knowhub.wiring.rules import DISCRETION, ERASE_RULES, UNDO_RULES
from knowhub.wiring.tree import TreeServices, kept_by, tree_on
from knowhub.wiring.upkeep import DAY_S, Means, upkeep_of

_REBUILD_BEFORE_SERVING = 10_000


@dataclass(frozen=True, slots=True)
class Hub:
    """Everything that a face of KnowHub needs, ready to use."""

    settings: Settings
    clock: Clock
    ids: Ids
    default_owner: str
    cursors: Cursors
    identity: IdentityService
    knowledge: KnowledgeService
    retrieval: KnowledgeRetrieval
    outcomes: OutcomeService
    own_profile: OwnProfile
    showings: Showings
    exchange: KnowledgeExchange
    evolution: Evolution
    slimming: Slimming
    similarity: Similarity
    extraction: KnowledgeExtraction
    keywords: KeywordService
    infos: InfoService
    resources: ResourceService
    vault: Vault
    memories: ContextService
    outbox: Outbox
    distill: Distillation
    recall_all: RecallOfAll
    keyword_search: KeywordSearch
    curator: Curator
    agent: KeywordAgent
    chat: ChatModel | None
    embedder: Embedder | None
    reranker: Reranker | None
    decisions: DecisionLog
    operations: OperationsService
    erasures: ErasureService
    audit: AuditService
    jobs: Jobs
    snapshots: Snapshots
    store: FileStore
    index: LexicalIndex[Head]
    recall: Recall[Head]
    memory_recall: MemoryRecall
    records: RecordFiles
    maps: DerivedMaps
    directories: NodeDirectories
    keeper: Keeper
    apart: Apart

    @property
    def index_lag(self) -> int:
        """How many records and memories a search does not find in an index yet, or not by their meaning."""
        return self.recall.lag + self.memory_recall.lag

    def quarantined(self) -> list[str]:
        """Name every file in quarantine/: what opening cut, and what a repair took out."""
        return list(map(str, DataDirectory(self.settings.data_dir).quarantined()))

    async def reindex(self, progress: Callable[[int, int], None], account: str | None = None) -> int:
        """Build what is derived of an account, or of all, anew, and every map; return how many records are found."""
        await self.store.refresh()
        self.maps.forget()
        records = await self.recall.rebuild(progress, account)
        records += await self.memory_recall.rebuild(
            lambda done, total: progress(records + done, records + total), account
        )
        await self.directories.rebuild(account)
        await self.keeper.run_once()
        return records

    async def compact(self, retention_days: float | None = None) -> Compacted:
        """Forget the operations that are older than the settings say, or this; every row stays. Raises as the store."""
        days = self.settings.undo_retention_days if retention_days is None else retention_days
        done = await self.store.compact(days * DAY_S, self.apart)
        # The record files drop old versions too; nobody waits for that.
        self.keeper.wake()
        return done


@dataclass(frozen=True, slots=True)
class World:
    """What a hub needs beside its settings; what is left out is the real thing.

    `llm`, `embedder` and `reranker` take the place of those that the settings name, and `text` of the rules by which
    names are read.
    """

    clock: Clock | None = None
    ids: Ids | None = None
    files: FileSystem | None = None
    llm: ChatModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    text: KeywordText | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """The verbs of every domain."""

    knowledge: KnowledgeServices
    tree: TreeServices
    resources: ResourceServices
    memories: MemoryServices


@asynccontextmanager
async def open_hub(settings: Settings, world: World | None = None, *, keep: bool = True) -> AsyncIterator[Hub]:
    """Open the data directory that `settings` name and build the Hub on it.

    With `keep` the directory is kept up in the background. Raises Unavailable when the directory is of a newer
    format or held by a stopped process, and OSError.
    """
    world = world or World()
    means = _means(settings, world)
    clock, ids = means.clock, means.ids
    async with contextlib.AsyncExitStack() as stack:
        given = Models(world.llm, world.embedder, world.reranker)
        models = await models_of(settings, given, clock, ids, stack)
        store = _store(means)
        stack.push_async_callback(store.close)
        kept = kept_by(settings, clock)
        store.subscribe(Invalidation(kept.answers, kept.recents))
        vault = vault_of(means)
        shredder = Shredder(store, vault, clock)
        upkeep = upkeep_of(store, replace(means, embedder=models.embedder), kept.answers, shredder, stack)
        for words in (upkeep.recall.lexical, upkeep.memories.recall.lexical):
            if words.lag > _REBUILD_BEFORE_SERVING:
                # So much could not be scanned at each search; the index is missing or was made for another log.
                await words.rebuild(lambda _done, _total: None)
        text = world.text or KeywordTextRules()
        decisions = DecisionLog(store, enabled=settings.log_agent_decisions)
        stack.push_async_callback(decisions.close)
        ground = Ground(settings, clock, ids, store, upkeep, models, decisions, ShownLately(clock))
        knowledge, tree = knowledge_on(ground, stack), tree_on(ground, text, kept)
        memories = memories_on(ground, knowledge, tree)
        identity = identity_on(store, settings, clock, ids, stack)
        # One full collection over everything just loaded would stall the loop: it is never looked at again.
        gc.freeze()
        if keep:
            await asyncio.to_thread(text.load)
            upkeep.keeper.start()
        resources = resources_on(store, vault, settings)
        yield _hub(ground, identity, Services(knowledge, tree, resources, memories), means.apart)


def _hub(ground: Ground, identity: IdentityService, services: Services, apart: Apart) -> Hub:
    knowledge, tree, resources, memories = services.knowledge, services.tree, services.resources, services.memories
    settings, clock, ids, store, upkeep = ground.settings, ground.clock, ground.ids, ground.store, ground.upkeep
    return Hub(
        settings=settings,
        clock=clock,
        ids=ids,
        default_owner=default_owner(settings),
        # Of all that names a log only this is in no answer, and each process that opens it knows it.
        cursors=Cursors(store.log_id),
        identity=identity,
        knowledge=knowledge.records,
        retrieval=knowledge.retrieval,
        outcomes=knowledge.outcomes,
        own_profile=knowledge.own_profile,
        showings=knowledge.showings,
        exchange=knowledge.exchange,
        evolution=knowledge.evolution,
        slimming=knowledge.slimming,
        similarity=knowledge.similarity,
        extraction=knowledge.extraction,
        keywords=tree.keywords,
        infos=tree.infos,
        resources=resources.resources,
        vault=resources.vault,
        memories=memories.memories,
        outbox=memories.outbox,
        distill=memories.distillation,
        recall_all=memories.recall,
        keyword_search=tree.search,
        curator=tree.curator,
        agent=tree.agent,
        chat=ground.models.chat,
        embedder=ground.models.embedder,
        reranker=ground.models.reranker,
        decisions=ground.decisions,
        operations=OperationsService(store, ids, UNDO_RULES, DISCRETION),
        erasures=ErasureService(store, upkeep.surroundings, ERASE_RULES, UNDO_RULES),
        audit=AuditService(store, clock, ground.shown),
        jobs=Jobs(clock, ids),
        snapshots=Snapshots(upkeep.archives, store, ids, UNDO_RULES, tree.keywords.make_root),
        store=store,
        index=upkeep.recall.lexical,
        recall=upkeep.recall,
        memory_recall=upkeep.memories,
        records=upkeep.records,
        maps=upkeep.maps,
        directories=upkeep.directories,
        keeper=upkeep.keeper,
        apart=apart,
    )


def examine(settings: Settings) -> list[Finding]:
    """Look at a data directory without opening it: what is damaged, torn, behind or in the way."""
    return inspect(RealFileSystem(), DataDirectory(settings.data_dir))


def mend(settings: Settings) -> list[Finding]:
    """Repair a data directory that nobody has open, see `repair`; return what was done."""
    return repair(RealFileSystem(), DataDirectory(settings.data_dir), RandomIds())


def unpack(archive: Path, settings: Settings) -> Manifest:
    """Lay a snapshot out as the data directory that `settings` name, which must be empty. Raises Conflict, OSError."""
    return unpack_directory(RealFileSystem(), archive, settings.data_dir, settings.snapshot_max_bytes)


def _means(settings: Settings, world: World) -> Means:
    return Means(
        settings=settings,
        files=world.files or RealFileSystem(),
        clock=world.clock or SystemClock(),
        ids=world.ids or RandomIds(),
        apart=run_apart if world.files is None else run_here(world.files),
    )


def _store(means: Means) -> FileStore:
    settings = means.settings
    options = StoreOptions(
        lock_timeout_s=settings.lock_timeout_s,
        segment_bytes=settings.segment_bytes,
        retry_key_lifetime_s=settings.retry_key_lifetime_s,
    )
    with _no_collection():
        environment = Environment(means.files, means.clock, means.ids, time.sleep)
        return open_store(means.directory.root, environment, options)


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
