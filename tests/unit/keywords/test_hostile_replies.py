"""Hostile replies: nothing raises, only shown keywords are chosen, and every outcome can be logged."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from knowhub.core.language_models import ChatReply, ChatRequest
from knowhub.core.operation import Row
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.curate.proposals import propose
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, TreeOptions
from knowhub.keywords.search.agent import DedupAction, KeywordAgent
from knowhub.keywords.search.descent import DescentResult
from knowhub.keywords.search.prompts import Goal, Intent
from knowhub.keywords.tree import find_keyword, list_keywords
from tests.builders import caller
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.queued_chat import QueuedChat, read_fenced

pytestmark = pytest.mark.anyio

ANN = caller(user_id="ann")
# Long enough for answers that do come, and short enough to meet many that do not.
BUDGET_S = 0.1
FAILURES = {None, "agent_failure", "agent_timeout", "invalid_jump"}


def hostile_tree() -> FakeKeywordView:
    """A tree with a branch that ann does not see, one keyword that is deleted, and more than one round shows."""
    view = tree_of(
        {
            "技术": {"编程语言": {"Python": {"Django": {}}, "Go": {}}, "网络": {"TCP": {}}},
            "生活": {"菜谱": {"家常": {}}},
            "wide": {f"leaf {number}": {} for number in range(20)},
        }
    )
    secret = view.put("secret", view.id_of("技术"), owner="user:bob", scopes=("user:bob",))
    view.put("below secret", secret.id, owner="user:bob", scopes=("user:bob",))
    view.drop(view.put("deleted").id)
    return view


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """The result of one question to the agent: a word for it, the chosen ids, and the calls to log."""

    outcome: str
    chosen: set[str]
    calls: Sequence[Row]
    failure: str | None


def check_outcome(ended: AgentOutcome, chat: QueuedChat, view: FakeKeywordView) -> None:
    named = set()
    for shown in map(read_fenced, chat.questions):
        named |= {candidate["name"] for candidate in shown.get("candidates", shown.get("nodes", []))}
    chosen = [find_keyword(view, keyword_id) for keyword_id in ended.chosen - {ROOT_ID}]
    assert ended.failure in FAILURES
    assert {node.name for node in chosen if node is not None} <= named - {"secret", "below secret", "deleted"}
    assert None not in chosen
    assert len(ended.calls) == len(chat.questions)
    # What a log line cannot hold would fail the write that it came with.
    assert len(orjson.dumps(ended.calls)) < 1_000_000


async def search(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    return outcome_of_descent(await agent.descend(ANN, lambda: view, Goal("蟒蛇"), BUDGET_S))


async def place(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    return outcome_of_descent(await agent.descend(ANN, lambda: view, Goal("蟒蛇", Intent.SUGGEST_PARENT), BUDGET_S))


def outcome_of_descent(found: DescentResult) -> AgentOutcome:
    assert (found.node_id is not None) == (found.outcome == "matched")
    assert found.failure is None or found.outcome == "missing"
    assert (found.suggested_parent_id is not None) == (found.outcome == "missing")
    chosen = {found.node_id, found.suggested_parent_id, *found.candidates, *found.path} - {None}
    # The ancestors of a match need not be listed in any prompt.
    chosen -= set(found.path[:-1])
    return AgentOutcome(found.outcome, {item for item in chosen if item is not None}, found.calls, found.failure)


async def choose(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    chosen = await agent.disambiguate(ANN, view, "x", pick_candidates(view), BUDGET_S)
    return AgentOutcome(
        "undecided" if chosen.node_id is None else "chosen",
        set() if chosen.node_id is None else {chosen.node_id},
        chosen.calls,
        chosen.failure,
    )


async def dedup(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    decided = await agent.dedup_check(ANN, view, NewKeyword("x"), pick_candidates(view), BUDGET_S)
    assert (decided.node_id is None) == (decided.action is DedupAction.CREATE_NEW)
    chosen = set() if decided.node_id is None else {decided.node_id}
    return AgentOutcome(decided.action.value, chosen, decided.calls, decided.failure)


async def link(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    links = await agent.link_info(ANN, view, "x", pick_candidates(view), BUDGET_S)
    assert len(links.suggested_names) <= 5
    chosen = {keyword_id for keyword_id, _ in links.links}
    return AgentOutcome("linked" if chosen else "unlinked", chosen, links.calls, links.failure)


async def ask_for_proposals(agent: KeywordAgent, view: FakeKeywordView) -> AgentOutcome:
    proposed = await propose(agent, ANN, view, pick_candidates(view), BUDGET_S)
    chosen = {ref.id for step in proposed.steps for ref in step.list_refs()}
    assert all(len(step.description) <= 500 for step in proposed.steps)
    return AgentOutcome("proposed" if chosen else "nothing", chosen, proposed.calls, proposed.failure)


def pick_candidates(view: FakeKeywordView) -> Sequence[Node]:
    return [*list(list_keywords(view))[:10], *list(list_keywords(view))[-2:]]


FUNCTIONS = (search, place, choose, dedup, link, ask_for_proposals)


class Raising(Mapping[str, object]):
    """A mapping that raises on every read."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getitem__(self, key: str) -> object:
        raise self._error

    def __iter__(self) -> Iterator[str]:
        raise self._error

    def __len__(self) -> int:
        raise self._error

    def get(self, key: str, default: object = None) -> object:
        raise self._error


class TextlessValue:
    """An object whose `str()` raises."""

    def __str__(self) -> str:
        raise ValueError("nobody may ask for the text of this")

    __repr__ = object.__repr__


class TextlessError(TextlessValue, Exception):
    """An error without a text."""


def make_nested(depth: int) -> object:
    deep: list[object] = []
    for _ in range(depth):
        deep = [deep]
    return deep


FIELDS = ("action", "node_id", "node_ids", "reason", "links", "suggested_names", "moves", "splits")


@pytest.mark.parametrize("ask", FUNCTIONS)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Raising(RuntimeError("get")), id="raises"),
        pytest.param(Raising(RecursionError("get")), id="recurses"),
        pytest.param(Raising(KeyError("action")), id="KeyError"),
        pytest.param(TextlessError(), id="an error without a text"),
    ],
)
async def test_an_answer_that_raises_when_read_is_a_failure(
    ask: Callable[[KeywordAgent, FakeKeywordView], Awaitable[AgentOutcome]], answer: object
) -> None:
    view, chat = hostile_tree(), QueuedChat([answer])

    ended = await ask(KeywordAgent(chat, RecentMatchesByReader(), TreeOptions(max_candidates=12)), view)

    check_outcome(ended, chat, view)
    assert ended.failure == "agent_failure"
    assert [call["failure"] for call in ended.calls] == ["agent_failure"]


@pytest.mark.parametrize("ask", FUNCTIONS)
@pytest.mark.parametrize("field", FIELDS)
async def test_unprintable_or_endless_fields_are_handled(
    ask: Callable[[KeywordAgent, FakeKeywordView], Awaitable[AgentOutcome]], field: str
) -> None:
    good: dict[str, object] = {"action": "match", "node_id": 1, "links": [{"keyword_id": 1, "relation": "PRIMARY"}]}
    for strange in (make_nested(100_000), TextlessValue(), [TextlessValue()], [Raising(RuntimeError("get"))]):
        view, chat = hostile_tree(), QueuedChat([good | {field: strange}])

        ended = await ask(KeywordAgent(chat, RecentMatchesByReader(), TreeOptions(max_candidates=12)), view)

        check_outcome(ended, chat, view)


async def test_a_missing_reply_is_a_failure() -> None:
    class Mute(QueuedChat):
        async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
            await super().chat(question, timeout_s)
            nothing: Any = None
            reply: ChatReply = nothing
            return reply

    chat, view = Mute(), hostile_tree()

    ended = await search(KeywordAgent(chat, RecentMatchesByReader(), TreeOptions()), view)

    check_outcome(ended, chat, view)
    assert ended.failure == "agent_failure"
