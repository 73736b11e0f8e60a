"""The services on knowledge records, built on their ground."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from knowhub.audit.pasted_secrets import withheld_secrets
from knowhub.knowledge.evolution import Evolution
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.extraction import ExtractionOptions, KnowledgeExtraction
from knowhub.knowledge.outcome import OutcomeService
from knowhub.knowledge.own_profile import OwnProfile
from knowhub.knowledge.retrieval import Aids, KnowledgeRetrieval
from knowhub.knowledge.service import KnowledgeService
from knowhub.knowledge.showings import Showings
from knowhub.knowledge.similarity import Similarity
from knowhub.knowledge.slimming import SlimMeans, Slimming
from knowhub.search.simplified import simplified
from knowhub.wiring.finding import stages_of
from knowhub.wiring.ground import Ground
from knowhub.wiring.language_model import model_named


@dataclass(frozen=True, slots=True)
class KnowledgeServices:
    """Everything that is done with knowledge records."""

    records: KnowledgeService
    retrieval: KnowledgeRetrieval
    outcomes: OutcomeService
    own_profile: OwnProfile
    showings: Showings
    exchange: KnowledgeExchange
    evolution: Evolution
    slimming: Slimming
    similarity: Similarity
    extraction: KnowledgeExtraction


def knowledge_on(ground: Ground, stack: AsyncExitStack) -> KnowledgeServices:
    """Build the services; `stack` ends what they do in the background."""
    settings, clock, ids, store = ground.settings, ground.clock, ground.ids, ground.store
    chat, note, budget_s = ground.models.chat, ground.decisions.note, ground.settings.llm_write_budget_s
    words = ground.upkeep.recall.lexical
    showings, similarity = Showings(store, clock), Similarity(store, words)
    stack.push_async_callback(showings.close)
    store.subscribe(similarity)
    stack.push_async_callback(similarity.close)
    stages = stages_of(settings, chat, ground.models.reranker, note)
    slim_means = SlimMeans(ids, model_named(settings, chat, clock, ids), budget_s, note)
    extraction_options = ExtractionOptions(budget_s, simplified)
    return KnowledgeServices(
        records=KnowledgeService(store, ids),
        retrieval=KnowledgeRetrieval(
            store, ground.upkeep.recall.index, clock, Aids(stages, showings, ground.shown.note)
        ),
        outcomes=OutcomeService(store, showings),
        own_profile=OwnProfile(store, clock),
        showings=showings,
        exchange=KnowledgeExchange(store, ids),
        evolution=Evolution(store, chat, budget_s, note),
        slimming=Slimming(store, words, slim_means),
        similarity=similarity,
        extraction=KnowledgeExtraction(store, words, ids, chat, withheld_secrets, extraction_options),
    )
