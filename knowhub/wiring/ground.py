"""What every service stands on: the store, what follows it, the models, and what is kept of their decisions."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from knowhub.audit.shown import ShownLately
from knowhub.core.chat import ChatModel
from knowhub.core.clock import Clock
from knowhub.core.embedding import Embedder
from knowhub.core.ids import Ids
from knowhub.core.reranking import Reranker
from knowhub.keywords.audit import DecisionLog
from knowhub.settings import Settings
from knowhub.stores.files.store import FileStore
from knowhub.wiring.embedder import embedder_of
from knowhub.wiring.language_model import chat_model
from knowhub.wiring.reranker import reranker_of
from knowhub.wiring.upkeep import Upkeep


@dataclass(frozen=True, slots=True)
class Models:
    """What thinks for a hub; each is None where the settings name none."""

    chat: ChatModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """An open store with all that services need beside it."""

    settings: Settings
    clock: Clock
    ids: Ids
    store: FileStore
    upkeep: Upkeep
    models: Models
    decisions: DecisionLog
    shown: ShownLately


async def models_of(settings: Settings, given: Models, clock: Clock, ids: Ids, stack: AsyncExitStack) -> Models:
    """Build the models that the settings name, save those that are given; `stack` closes them. Raises InvalidInput."""
    enter = stack.enter_async_context
    return Models(
        given.chat or await enter(chat_model(settings, clock=clock, ids=ids)),
        given.embedder or await enter(embedder_of(settings, clock=clock, ids=ids)),
        given.reranker or await enter(reranker_of(settings, clock=clock, ids=ids)),
    )
