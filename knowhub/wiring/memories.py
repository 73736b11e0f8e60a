"""The services on layered memories, and the journeys that cross from them to knowledge and keywords."""

from dataclasses import dataclass

import structlog

from knowhub.audit.pasted_secrets import withheld_secrets
from knowhub.context.commit.archive_builder import ArchiveBuilder
from knowhub.context.commit.candidate_pipeline import CandidatePipeline, PipelineOptions
from knowhub.context.commit.commit_coordinator import CommitCoordinator
from knowhub.context.commit.forgetting import Forgetting
from knowhub.context.commit.policy_router import PolicyRouter
from knowhub.context.index.outbox import Outbox
from knowhub.context.retrieval.memory_read_service import MemoryReadService
from knowhub.context.retrieval.reranking import Reranking
from knowhub.context.retrieval.search import MemorySearch
from knowhub.context.service import ContextService, Means
from knowhub.search.simplified import simplified
from knowhub.usecases.distill_session import Distillation
from knowhub.usecases.recall import Parts, Recall, RecallOptions
from knowhub.usecases.spoken_memories import KnowledgeSpeech
from knowhub.wiring.ground import Ground
from knowhub.wiring.knowledge import KnowledgeServices
from knowhub.wiring.tree import TreeServices

_log = structlog.get_logger("knowhub.recall")


@dataclass(frozen=True, slots=True)
class MemoryServices:
    """Everything that is done with memories."""

    memories: ContextService
    outbox: Outbox
    distillation: Distillation
    recall: Recall


def memories_on(ground: Ground, knowledge: KnowledgeServices, tree: TreeServices) -> MemoryServices:
    """Build the services."""
    settings, store, upkeep = ground.settings, ground.store, ground.upkeep
    pipeline = CandidatePipeline(
        KnowledgeSpeech(simplified),
        withheld_secrets,
        ground.models.chat,
        PipelineOptions(budget_s=settings.llm_write_budget_s),
    )
    commits = CommitCoordinator(store, pipeline, PolicyRouter(), upkeep.directories)
    reranker = ground.models.reranker
    reranking = Reranking(reranker, settings.rerank_budget_s) if reranker is not None else None
    search = MemorySearch(store, upkeep.memories.index, ground.clock, reranking)
    forgetting = Forgetting(ArchiveBuilder(pipeline.reader, pipeline.find_secrets))
    memories = ContextService(store, Means(commits, search, MemoryReadService(store), forgetting, upkeep.directories))
    return MemoryServices(
        memories=memories,
        outbox=upkeep.memories.outbox,
        distillation=Distillation(store, knowledge.records),
        recall=Recall(Parts(knowledge.retrieval, tree.search, memories), RecallOptions(note_failure=_note_failure)),
    )


def _note_failure(source: str, error: Exception) -> None:
    _log.warning("recall_source_failed", source=source, error=repr(error))
