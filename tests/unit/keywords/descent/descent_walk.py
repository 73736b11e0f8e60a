"""A tree, a model that answers in turn, and the agent that descends the tree with it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.model import ROOT_ID, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.descent import DescentResult
from knowhub.keywords.search.prompts import Goal, Intent
from tests.builders import local
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of
from tests.fakes.queued_chat import QueuedChat

SHAPE: Shape = {"技术": {"编程语言": {"Python": {}, "Go": {}}, "网络": {"TCP": {}}}, "生活": {"菜谱": {}}}
BUDGET_S = 5.0


@dataclass
class Descent:
    """A tree, a model, and the agent between them."""

    answers: Iterable[object]
    view: FakeKeywordView = field(default_factory=lambda: tree_of(SHAPE))
    options: TreeOptions = field(default_factory=TreeOptions)
    ctx: RequestContext = field(default_factory=local)
    budget_s: float = BUDGET_S
    recents: RecentMatchesByReader = field(default_factory=RecentMatchesByReader)

    def __post_init__(self) -> None:
        self.chat = QueuedChat(self.answers)
        self.agent = KeywordAgent(self.chat, self.recents, self.options)

    async def down(self, query: str = "蟒蛇", intent: Intent = Intent.SEARCH) -> DescentResult:
        return await self.agent.descend(self.ctx, lambda: self.view, Goal(query, intent), self.budget_s)

    def path(self, *names: str) -> list[str]:
        return [ROOT_ID, *(self.view.id_of(name) for name in names)]


def chat_failure(reason: FailureReason = FailureReason.FAILURE) -> ChatFailed:
    return ChatFailed(reason, "down")
