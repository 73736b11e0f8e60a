"""Decisions that were recorded, asked again: what another model would have decided, and what counts as the same."""

import json
from typing import Any

import pytest

from knowhub.core.chat import ChatFailed, FailureReason, NotAsked
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Operation, Row
from knowhub.core.replaying import UNUSABLE
from knowhub.keywords import prompts
from knowhub.keywords.agent import KeywordAgent
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.model import NewKeyword, Options
from knowhub.keywords.recent import Recents
from knowhub.keywords.replay import FUNCTIONS, Difference, ScriptedModel, meaning, recorded_calls, replay
from tests.builders import START, local
from tests.fakes.keyword_view import tree_of
from tests.fakes.queued_chat import QueuedChat

pytestmark = pytest.mark.anyio

CHOICES = {"1": "k0", "2": "k1", "10": "k9"}
TEN = {str(idx): f"k{idx}" for idx in range(1, 11)}


def operation_with(*calls: Row) -> Operation:
    return Operation(1, "op-1", "agent_decision", "default", "user:local", START, [], agent_io=calls)


async def recorded_search(*answers: object) -> Operation:
    """Record a search of a small tree, as the agent writes its calls down."""
    view = tree_of({"语言": {"Python": {}}, "工具": {}})
    agent = KeywordAgent(QueuedChat(answers), Recents(), Options())
    found = await agent.descend(local(), lambda: view, "蟒蛇语言", Intent.SEARCH, 5.0)
    return operation_with(*found.calls)


async def replayed(operation: Operation, *lines: object) -> list[Difference]:
    script = ScriptedModel(json.dumps(line) for line in lines)
    return [one async for one in replay(recorded_calls([operation]), script, 5.0)]


async def test_the_same_choice_for_another_reason_is_the_same() -> None:
    operation = await recorded_search({"action": "match", "node_id": 2, "reason": "it is a language"})
    (call,) = recorded_calls([operation])

    (difference,) = await replayed(operation, {"action": "match", "node_ids": ["2"], "reason": "别的理由"})

    assert difference.same
    assert difference.was == difference.now == {"action": "match", "node_ids": [call.choices["2"]]}
    assert (difference.operation_id, difference.function, difference.asked) == ("op-1", "pick_branch", "蟒蛇语言")


async def test_another_choice_is_a_difference_that_names_both() -> None:
    operation = await recorded_search({"action": "match", "node_id": 1})

    (difference,) = await replayed(operation, {"action": "match", "node_id": 2})

    assert not difference.same
    assert difference.was != difference.now
    named = {difference.names[row["node_ids"][0]] for row in (difference.was, difference.now)}
    assert len(named) == 2
    assert named <= {"语言", "Python", "工具"}


async def test_each_call_of_an_operation_is_asked_with_its_own_words_and_schema() -> None:
    operation = await recorded_search({"action": "jump", "node_id": 1}, {"action": "missing", "suggest_name": "蟒蛇"})
    chat = QueuedChat([{"action": "missing"}, {"action": "missing", "suggest_name": "蟒蛇"}])

    found = [one async for one in replay(recorded_calls([operation]), chat, 7.0)]

    assert [one.same for one in found] == [False, True]
    assert [(one.tokens, one.seconds) for one in found] == [(15, 0.01)] * 2
    assert chat.budgets == [7.0, 7.0]
    assert [question.messages for question in chat.questions] == [call["messages"] for call in operation.agent_io or ()]
    assert {question.schema["required"][0] for question in chat.questions} == {"action"}


async def test_a_call_that_fails_is_a_difference_that_says_so() -> None:
    operation = await recorded_search({"action": "match", "node_id": 1})

    late, exhausted = await replayed(operation, {"failure": "agent_timeout"}), await replayed(operation)

    assert (late[0].now, late[0].same, late[0].tokens) == ({"failure": "agent_timeout"}, False, None)
    assert (exhausted[0].now, exhausted[0].detail) == ({"failure": "agent_failure"}, "the script has no answer left")


async def test_what_failed_when_it_was_recorded_is_the_same_only_when_it_fails_alike() -> None:
    operation = await recorded_search(ChatFailed(FailureReason.TIMEOUT, "late"))

    assert [one.same for one in await replayed(operation, {"failure": "agent_timeout"})] == [True]
    assert [one.same for one in await replayed(operation, {"failure": "agent_failure"})] == [False]
    assert [one.same for one in await replayed(operation, {"action": "match", "node_id": 1})] == [False]


@pytest.mark.parametrize("recorded", [{"action": "match", "node_id": 1}, ChatFailed(FailureReason.FAILURE, "down")])
async def test_a_call_that_was_never_sent_is_told_apart_from_one_that_differs_or_fails_alike(recorded: object) -> None:
    operation = await recorded_search(recorded)
    refusing = QueuedChat([NotAsked(FailureReason.FAILURE, "the spend limit is reached")])
    failing = QueuedChat([ChatFailed(FailureReason.FAILURE, "down")])

    (unasked,) = [one async for one in replay(recorded_calls([operation]), refusing, 5.0)]
    (failed,) = [one async for one in replay(recorded_calls([operation]), failing, 5.0)]

    assert (unasked.was_asked, unasked.same, unasked.detail) == (False, False, "the spend limit is reached")
    assert failed.was_asked
    assert failed.same is isinstance(recorded, ChatFailed)


async def test_a_script_that_is_over_was_not_asked() -> None:
    operation = await recorded_search({"action": "match", "node_id": 1})

    (exhausted,), (late,) = await replayed(operation), await replayed(operation, {"failure": "agent_timeout"})

    assert (exhausted.was_asked, late.was_asked) == (False, True)


async def test_a_dedup_check_is_about_the_new_name() -> None:
    view = tree_of({"Python": {}})
    agent = KeywordAgent(QueuedChat([{"action": "alias_of", "node_id": 1}]), Recents(), Options())
    decided = await agent.dedup_check(local(), view, NewKeyword("python3"), list(view.nodes()), 5.0)

    (difference,) = await replayed(operation_with(*decided.calls), {"action": "create_new", "node_id": 1})

    assert (difference.asked, difference.names) == ("python3", {"k0": "Python"})
    assert (difference.was, difference.now) == (
        {"action": "alias_of", "node_id": "k0"},
        {"action": "create_new"},
    )


def test_calls_of_other_domains_and_operations_without_any_are_passed_over() -> None:
    quiet = Operation(2, "op-2", "move_keyword", "default", "user:local", START, [])

    calls = list(recorded_calls([quiet, operation_with({"function": "evolve", "messages": []})]))

    assert calls == []


@pytest.mark.parametrize(
    ("function", "one", "other"),
    [
        (prompts.PICK_BRANCH, {"action": "match", "node_ids": [2, 1]}, {"action": "match", "node_ids": ["1", "k1"]}),
        (prompts.PICK_BRANCH, {"action": "missing", "node_id": 1}, {"action": "missing", "suggest_name": " "}),
        (
            prompts.PICK_BRANCH,
            {"action": "ambiguous", "candidate_ids": [1, 2]},
            {"action": "ambiguous", "candidate_ids": [2, 1], "jump_depth": 4},
        ),
        (prompts.DISAMBIGUATE, {"node_id": 1, "reason": "a"}, {"node_id": "k0", "reason": "b"}),
        (prompts.DEDUP_CHECK, {"action": "create_new", "node_id": 1}, {"action": "create_new", "node_id": None}),
        (
            prompts.LINK_INFO,
            {"links": [{"keyword_id": 1, "relation": "PRIMARY"}, {"keyword_id": 2, "relation": "RELATED"}]},
            {"links": [{"keyword_id": "2", "relation": "RELATED"}, {"keyword_id": "1", "relation": "PRIMARY"}]},
        ),
        (
            prompts.REORGANIZE,
            {"moves": [{"node_id": 1, "new_parent_id": 2}], "descriptions": [{"node_id": 1, "description": "a"}]},
            {"moves": [{"node_id": "1", "new_parent_id": "2"}], "descriptions": [{"node_id": 1, "description": "b"}]},
        ),
        (
            prompts.REORGANIZE,
            {
                "splits": [
                    {"node_id": 1, "groups": [{"name": "b", "node_ids": [2]}, {"name": "a", "node_ids": [10, 1]}]}
                ]
            },
            {
                "splits": [
                    {"node_id": 1, "groups": [{"name": "a", "node_ids": [1, 10]}, {"name": "b", "node_ids": [2]}]}
                ]
            },
        ),
    ],
)
def test_answers_that_mean_the_same_are_the_same(function: str, one: Row, other: Row) -> None:
    assert meaning(FUNCTIONS[function], one, CHOICES) == meaning(FUNCTIONS[function], other, CHOICES) != UNUSABLE


@pytest.mark.parametrize(
    ("function", "one", "other"),
    [
        (prompts.PICK_BRANCH, {"action": "match", "node_id": 1}, {"action": "jump", "node_id": 1}),
        (prompts.PICK_BRANCH, {"action": "match", "node_id": 1}, {"action": "match", "node_ids": [1, 99]}),
        (prompts.PICK_BRANCH, {"action": "missing", "suggest_name": "a"}, {"action": "missing", "suggest_name": "b"}),
        (prompts.DISAMBIGUATE, {"node_id": 1}, {"node_id": None}),
        (prompts.DEDUP_CHECK, {"action": "alias_of", "node_id": 1}, {"action": "merge", "node_id": 1}),
        (
            prompts.LINK_INFO,
            {"links": [{"keyword_id": 1, "relation": "PRIMARY"}]},
            {"links": [{"keyword_id": 1, "relation": "RELATED"}]},
        ),
        (prompts.LINK_INFO, {"links": []}, {"links": [], "suggested_names": ["a"]}),
        (prompts.REORGANIZE, {"merges": [{"node_id": 1, "into_id": 2}]}, {"merges": [{"node_id": 2, "into_id": 1}]}),
        (prompts.REORGANIZE, {"moves": []}, {"descriptions": [{"node_id": 1, "description": "a"}]}),
    ],
)
def test_answers_that_decide_otherwise_differ(function: str, one: Row, other: Row) -> None:
    assert meaning(FUNCTIONS[function], one, CHOICES) != meaning(FUNCTIONS[function], other, CHOICES)


def test_an_idx_stands_for_the_keyword_that_the_prompt_gave_it_beyond_nine_too() -> None:
    shuffled = dict(sorted(TEN.items()))

    assert meaning(FUNCTIONS[prompts.DISAMBIGUATE], {"node_id": 10}, shuffled) == {"node_id": "k10"}
    assert meaning(FUNCTIONS[prompts.DISAMBIGUATE], {"node_id": 2}, shuffled) == {"node_id": "k2"}


@pytest.mark.parametrize("function", sorted(prompts.SCHEMAS))
@pytest.mark.parametrize(
    "output",
    [None, [], "match", {}, {"action": 7, "links": 7, "moves": "x", "splits": [1, {"groups": {}}]}, {"links": [None]}],
)
def test_no_answer_breaks_a_replay(function: str, output: Any) -> None:  # noqa: ANN401 -- anything a model may say
    json.dumps(meaning(FUNCTIONS[function], output, CHOICES))


def test_a_script_with_a_bad_line_is_refused_by_its_number() -> None:
    for bad in ("{", "[1]", "7", "[" * 200_000):
        with pytest.raises(InvalidInput) as refused:
            ScriptedModel(["{}", "", bad])
        assert [error.field for error in refused.value.errors] == ["line 3"]
