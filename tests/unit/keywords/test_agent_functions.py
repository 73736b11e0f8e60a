"""Decisions of the model besides the descent: each answer within the shown keywords, each failure with a default."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from knowhub.core.language_models import ChatFailed, ChatRequest, FailureReason
from knowhub.core.model_calls import MAX_RECORDED_TEXT, make_recordable
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.curate.proposals import propose
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, RelationType, TreeOptions
from knowhub.keywords.search.agent import DedupAction, KeywordAgent
from knowhub.keywords.search.prompts import MAX_SUMMARY, Goal
from knowhub.keywords.tree import BY_NAME, list_keywords
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.queued_chat import QueuedChat, read_fenced

pytestmark = pytest.mark.anyio

BUDGET_S = 5.0
FAILED = ChatFailed(FailureReason.FAILURE, "down")


@pytest.fixture
def view() -> FakeKeywordView:
    view = tree_of({"水果": {"苹果": {}}, "公司": {"苹果": {}}, "语言": {"Python": {}, "Go": {}}})
    view.put("Rust", view.id_of("语言"), description="A language without a collector.")
    return view


def make_agent(*answers: object, **options: Any) -> tuple[KeywordAgent, QueuedChat]:  # noqa: ANN401 -- any option
    chat = QueuedChat(answers)
    return KeywordAgent(chat, RecentMatchesByReader(), TreeOptions(**options)), chat


def find_apples(view: FakeKeywordView) -> Sequence[Node]:
    return view.lookup(BY_NAME, "苹果")


async def test_a_namesake_is_chosen_by_its_idx(view: FakeKeywordView) -> None:
    agent, chat = make_agent({"node_id": 2, "reason": "they make phones"})

    chosen = await agent.disambiguate(local(), view, "苹果", find_apples(view), BUDGET_S)

    assert (chosen.node_id, chosen.reason, chosen.failure) == (find_apples(view)[1].id, "they make phones", None)
    assert chat.read_prompt()["candidates"] == [
        {"idx": 1, "name": "苹果", "path": "水果 / 苹果"},
        {"idx": 2, "name": "苹果", "path": "公司 / 苹果"},
    ]
    assert [call["function"] for call in chosen.calls] == ["disambiguate_same_name"]


class WordlessError(Exception):
    """An error of a caller's own client that has no text."""

    def __str__(self) -> str:
        raise ValueError


async def test_every_function_has_a_default_if_the_model_fails(view: FakeKeywordView) -> None:
    for answer, failure in (
        (FAILED, "agent_failure"),
        (TimeoutError(), "agent_timeout"),
        (WordlessError(), "agent_failure"),
        ([1], "agent_failure"),
    ):
        agent, _ = make_agent(*[answer] * 4)
        nodes = find_apples(view)

        chosen = await agent.disambiguate(local(), view, "苹果", nodes, BUDGET_S)
        dedup = await agent.dedup_check(local(), view, NewKeyword("苹果"), nodes, BUDGET_S)
        links = await agent.link_info(local(), view, "苹果好吃", nodes, BUDGET_S)
        proposed = await propose(agent, local(), view, nodes, BUDGET_S)

        assert (chosen.node_id, chosen.failure, len(chosen.calls)) == (None, failure, 1)
        assert (dedup.action, dedup.node_id, dedup.failure) == (DedupAction.CREATE_NEW, None, failure)
        assert (links.links, links.suggested_names, links.failure) == ((), (), failure)
        assert (proposed.steps, proposed.failure) == ((), failure)


class BareClient:
    """A caller's own client: it returns the answer without a `ChatReply` around it."""

    model = "bare"

    async def chat(self, question: ChatRequest, timeout_s: float) -> Any:  # noqa: ANN401 -- what the port forbids
        return {"node_id": 1, "reason": "the first"}


async def test_a_client_that_returns_no_reply_is_a_failure(view: FakeKeywordView) -> None:
    agent = KeywordAgent(BareClient(), RecentMatchesByReader(), TreeOptions())

    chosen = await agent.disambiguate(local(), view, "苹果", find_apples(view), BUDGET_S)

    assert (chosen.node_id, chosen.failure) == (None, "agent_failure")
    assert [call["detail"] for call in chosen.calls] == ["the model's client returned a dict"]


@pytest.mark.parametrize(
    ("answer", "action", "index"),
    [
        ({"action": "alias_of", "node_id": 1}, DedupAction.ALIAS_OF, 0),
        ({"action": "merge", "node_id": "2"}, DedupAction.MERGE, 1),
        ({"action": "create_new", "node_id": 1}, DedupAction.CREATE_NEW, None),
        ({"action": "alias_of", "node_id": 3}, DedupAction.CREATE_NEW, None),
        ({"action": "merge"}, DedupAction.CREATE_NEW, None),
        ({"action": "delete", "node_id": 1}, DedupAction.CREATE_NEW, None),
        ({"action": ["merge"], "node_id": 1}, DedupAction.CREATE_NEW, None),
    ],
)
async def test_dedup_returns_a_shown_keyword_or_a_new_one(
    view: FakeKeywordView, answer: object, action: DedupAction, index: int | None
) -> None:
    agent, chat = make_agent(answer)
    new = NewKeyword("苹果", view.id_of("公司"), aliases=["Apple"], description="a company")

    dedup = await agent.dedup_check(local(), view, new, find_apples(view), BUDGET_S)

    assert (dedup.action, dedup.node_id) == (action, None if index is None else find_apples(view)[index].id)
    assert chat.read_prompt()["new"] == {
        "name": "苹果",
        "aliases": ["Apple"],
        "description": "a company",
        "parent_path": "公司",
    }


async def test_an_info_is_linked_to_shown_keywords_once_each_and_weakly_in_doubt(view: FakeKeywordView) -> None:
    python, go, rust = (view.lookup(BY_NAME, name)[0] for name in ("python", "go", "rust"))
    links = [
        {"keyword_id": 1, "relation": "EXAMPLE"},
        {"keyword_id": "2", "relation": "source"},
        {"keyword_id": 3, "relation": "OWNER"},
        {"keyword_id": 1, "relation": "PRIMARY"},
        {"keyword_id": 4, "relation": "PRIMARY"},
        {"relation": "PRIMARY"},
        "3",
    ]
    agent, chat = make_agent({"links": links, "suggested_names": ["  Zig\n", 7, "", "Zig", *"abcdef"]})

    chosen = await agent.link_info(local(), view, "x" * 5_000 + "end", [python, go, rust], BUDGET_S)

    assert chosen.links == [
        (python.id, RelationType.EXAMPLE),
        (go.id, RelationType.SOURCE),
        (rust.id, RelationType.RELATED),
    ]
    assert chosen.suggested_names == ["Zig", "a", "b", "c", "d"]
    assert len(chat.read_prompt()["info"]) == MAX_SUMMARY
    assert chat.read_prompt()["info"].endswith("xend")


async def test_a_missing_link_list_is_a_failure_and_an_empty_one_is_not(view: FakeKeywordView) -> None:
    agent, _ = make_agent({"suggested_names": ["Zig"]}, {"links": []})

    failed = await agent.link_info(local(), view, "x", find_apples(view), BUDGET_S)
    none = await agent.link_info(local(), view, "x", find_apples(view), BUDGET_S)

    assert (failed.failure, failed.calls[0]["failure"]) == ("agent_failure", "agent_failure")
    assert (none.links, none.failure) == ([], None)


async def test_prompts_show_only_visible_keywords_up_to_the_limit(view: FakeKeywordView) -> None:
    view.edit(find_apples(view)[0].id, owner="user:bob", scopes=("user:bob",))
    agent, chat = make_agent({"node_id": 1}, {"links": []}, max_candidates=2)

    chosen = await agent.disambiguate(caller(user_id="ann"), view, "苹果", find_apples(view), BUDGET_S)
    await agent.link_info(local(), view, "x", list(list_keywords(view)), BUDGET_S)

    assert chosen.node_id == find_apples(view)[1].id
    assert [len(read_fenced(question)["candidates"]) for question in chat.questions] == [1, 2]


async def test_prompts_have_a_bounded_size() -> None:
    view = FakeKeywordView()
    above = ROOT_ID
    for _ in range(300):
        above = view.put("n" * 200, above).id
    agent, chat = make_agent({"action": "jump", "node_id": 50})

    await agent.descend(local(), lambda: view, Goal("q" * 100_000), BUDGET_S)

    assert len(chat.questions) == 2
    assert all(len(question.messages[1]["content"]) < 50 * 700 + 6_000 for question in chat.questions)


def test_recorded_answers_are_json_of_bounded_size() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    plain = {"half": "\ud800", "big": 10**30, "plain": [1, 2.5, None, True, "中"]}

    assert make_recordable(plain) == {**plain, "half": "?", "big": "1" + "0" * 30}
    assert [make_recordable(odd) for odd in ({"nan": float("nan")}, {7: b"bytes"}, deep)] == [
        "a dict that is no JSON",
        "a dict that is no JSON",
        "a list that is no JSON",
    ]
    assert make_recordable(json.loads("[" * 100 + "]" * 100)) == "[" * 100 + "]" * 100 + "…"
    assert len(make_recordable(["x" * 10**6] * 100)) <= MAX_RECORDED_TEXT + 1
    assert len(make_recordable(list(range(10**5)))) <= MAX_RECORDED_TEXT + 1
