"""What helps a search, as the settings name it: a model that routes, a reranker."""

from knowhub.core.chat import ChatModel
from knowhub.core.reranking import Reranker
from knowhub.knowledge.reranking import Reranking
from knowhub.knowledge.routing import NoteCalls, Router
from knowhub.knowledge.stages import Stages
from knowhub.settings import Settings


def stages_of(settings: Settings, chat: ChatModel | None, reranker: Reranker | None, note: NoteCalls) -> Stages:
    """Build the stages between recall and quality; without models there are none."""
    shown = settings.routing_candidates
    router = Router(chat, note, settings.llm_budget_s, shown) if chat is not None and shown else None
    return Stages(router, Reranking(reranker, settings.rerank_budget_s) if reranker is not None else None)
