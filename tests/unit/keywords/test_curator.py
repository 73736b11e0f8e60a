"""Reorganize, apply and metrics on a store: a plan changes nothing, and is applied as a whole, once, with undo."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from knowhub.core.errors import InvalidInput
from knowhub.core.language_models import ChatRequest
from knowhub.keywords.curate.curator import MAX_CALLS, NODES_PER_CALL
from knowhub.keywords.curate.plan import MAX_STEPS, MAX_UNDESCRIBED
from knowhub.keywords.model import ROOT_ID, NewKeyword
from knowhub.keywords.tree import find_keyword
from tests.builders import caller, local
from tests.fakes.plain_text import PlainText
from tests.fakes.queued_chat import NEVER, read_fenced
from tests.unit.keywords.tree_hub import hub_with

pytestmark = pytest.mark.anyio

ANN = caller(user_id="ann")
ACCEPT: dict[str, list[int]] = {"refused": []}


class CuratedTree:
    """A tree on a store in memory, with a model that gives `answers`, or without a model."""

    def __init__(self, *answers: object, **options: Any) -> None:  # noqa: ANN401 -- any option
        hub = hub_with(answers or None, text=PlainText(), **options)
        self.store, self.chat, self.keywords, self.curator = hub.store, hub.chat, hub.keywords, hub.curator
        self.ids: dict[str, str] = {}

    async def plant(self, *names: str, below: str = ROOT_ID, **fields: Any) -> None:  # noqa: ANN401 -- any field
        for name in names:
            new = NewKeyword(name, self.ids.get(below, below), allow_duplicate=True, **fields)
            self.ids[name] = (await self.keywords.create(local(), new)).record["id"]

    def parent_of(self, name: str) -> str | None:
        node = find_keyword(self.store.view("default"), self.ids[name])
        assert node is not None
        return node.parent_id if node.live else None


def step_kinds(plan: Mapping[str, Any]) -> list[str]:
    return [step["kind"] for step in plan["steps"]]


def by_name(build: Callable[[dict[str, int]], object]) -> Callable[[ChatRequest], object]:
    """Answer with the result of `build`, called with the idx of each shown name."""
    return lambda question: build({node["name"]: node["idx"] for node in read_fenced(question)["nodes"]})


async def test_after_a_plan_the_rules_find_nothing_more() -> None:
    garden = CuratedTree()
    await garden.plant("Python", "Python 装饰器", "Python 装饰器 缓存", "Go", "go", "运维")
    await garden.plant(
        "K8s", *(f"Docker {number}" for number in range(30)), *(f"k8s 第{number}" for number in range(30)), below="运维"
    )
    await garden.curator.apply(local(), await garden.curator.reorganize(local()))

    plan = await garden.curator.reorganize(local())

    assert plan["steps"] == []
    assert garden.parent_of("Python 装饰器 缓存") == garden.ids["Python 装饰器"]
    assert garden.parent_of("k8s 第1") == garden.ids["K8s"]


async def test_model_steps_on_shown_keywords_follow_rule_steps() -> None:
    answer = by_name(
        lambda idx: {
            "merges": [{"node_id": idx["蟒蛇"], "into_id": idx["Python"]}, {"node_id": 99, "into_id": 1}],
            "moves": [
                {"node_id": idx["Go"], "new_parent_id": idx["语言"]},
                {"node_id": idx["Python 装饰器"], "new_parent_id": idx["语言"]},
            ],
            "splits": [{"node_id": idx["root"], "groups": [{"name": "工具", "node_ids": [idx["Docker"], idx["K8s"]]}]}],
            "descriptions": [
                {"node_id": idx["语言"], "description": "编程语言。"},
                {"node_id": 1, "description": "top"},
            ],
            "reason": "tidier",
        }
    )
    garden = CuratedTree(ACCEPT, answer)
    await garden.plant("Python", "Python 装饰器", "蟒蛇", "Go", "语言", "Docker", "K8s")

    plan = await garden.curator.reorganize(local())

    assert step_kinds(plan) == ["move", "merge", "move", "split", "describe"]
    assert plan["steps"][0]["to"]["name"] == "Python"
    assert [step["reason"] for step in plan["steps"]][1:4] == ["tidier"] * 3
    assert "语言" not in [description["name"] for description in plan["missing_descriptions"]]
    assert plan["degraded"] == []
    # A keyword that was not shown, a second move of a keyword, and a description of the root.
    assert plan["dropped"] == [{"what": "proposals", "why": "not_possible", "count": 3}]
    done = await garden.curator.apply(local(), plan)
    assert garden.parent_of("Docker") == garden.parent_of("K8s") == done.record["created"][0]
    assert garden.parent_of("蟒蛇") is None


async def test_model_steps_have_a_share_if_rules_find_too_many() -> None:
    garden = CuratedTree(ACCEPT, by_name(lambda idx: {"moves": [{"node_id": idx["Go"], "new_parent_id": idx["语言"]}]}))
    await garden.plant("Go", "语言", "Python")
    await garden.keywords.create_batch(local(), [NewKeyword(f"Python 第{number}") for number in range(300)])

    plan = await garden.curator.reorganize(local())

    assert len(plan["steps"]) == MAX_STEPS
    assert plan["dropped"] == [{"what": "proposals", "why": "not_possible", "count": 301 - MAX_STEPS}]
    assert [step["node"]["name"] for step in plan["steps"] if step["to"]["name"] != "Python"] == ["Go"]


async def test_a_large_tree_is_shown_in_at_most_ten_parts() -> None:
    many = MAX_CALLS * (NODES_PER_CALL - 1) + 5
    garden = CuratedTree(*[{}] * (MAX_CALLS + 5))
    for begin in range(0, many, 1_000):
        items = [NewKeyword(f"n{number}") for number in range(begin, min(begin + 1_000, many))]
        await garden.keywords.create_batch(local(), items)

    plan = await garden.curator.reorganize(local())

    shown = [[node["name"] for node in read_fenced(question)["nodes"]] for question in garden.chat.questions]
    assert [len(names) for names in shown] == [NODES_PER_CALL] * MAX_CALLS
    assert {names[0] for names in shown} == {"root"}
    assert len({name for names in shown for name in names}) == many - 5 + 1
    assert (len(plan["missing_descriptions"]), plan["missing_description_count"]) == (MAX_UNDESCRIBED, many)
    assert plan["summary"].endswith(f"{many} keywords were gone through; the model was shown {many - 5} of them")


async def test_all_calls_share_one_budget() -> None:
    garden = CuratedTree({}, NEVER, {}, write_budget_s=0.2)
    await garden.keywords.create_batch(local(), [NewKeyword(f"n{number}") for number in range(500)])

    plan = await garden.curator.reorganize(local())

    assert plan["degraded"] == ["llm"]
    assert len(garden.chat.budgets) == 2
    assert garden.chat.budgets[1] <= garden.chat.budgets[0] <= 0.2


async def test_a_model_may_refuse_rule_steps_and_sees_both_keywords() -> None:
    garden = CuratedTree({"refused": [1]}, {})
    await garden.plant("Python", description="A language.")
    await garden.plant("Python 装饰器", "Go 并发")
    await garden.plant("Go", below="Python")

    plan = await garden.curator.reorganize(local())

    (first, _) = read_fenced(garden.chat.questions[0])["steps"]
    assert (first["kind"], first["target"]["description"]) == ("move", "A language.")
    assert [step["node"]["name"] for step in plan["steps"]] == ["Go 并发"]


async def test_a_plan_uses_the_state_after_the_model_calls() -> None:
    answer = by_name(lambda idx: {"descriptions": [{"node_id": idx["Go"], "description": "A language."}]})
    garden = CuratedTree(ACCEPT, answer)
    await garden.plant("Python", "Python 装饰器", "Go", "语言", "gone")

    async def change() -> None:
        await garden.keywords.move(local(), garden.ids["Python"], garden.ids["Python 装饰器"])
        await garden.keywords.move(local(), garden.ids["Go"], garden.ids["语言"])
        await garden.keywords.delete(local(), garden.ids["gone"])

    garden.chat.happens = change

    plan = await garden.curator.reorganize(local())

    assert step_kinds(plan) == ["describe"]
    assert {description["name"] for description in plan["missing_descriptions"]} == {"Python", "Python 装饰器", "语言"}
    assert (plan["steps"][0]["node"]["version"], plan["steps"][0]["node"]["path"]) == (2, "root / 语言 / Go")
    assert (await garden.curator.apply(local(), plan)).operation_id is not None


async def test_hidden_keywords_are_neither_scope_nor_part_of_a_plan() -> None:
    garden = CuratedTree()
    await garden.plant("Go")
    await garden.plant("go", scopes=["user:owner"])
    for scope_id in (garden.ids["go"], "never-there"):
        with pytest.raises(InvalidInput, match="scope_id"):
            await garden.curator.reorganize(ANN, scope_id)

    plan = await garden.curator.reorganize(ANN)

    assert (plan["steps"], plan["missing_description_count"]) == ([], 1)
    assert garden.ids["go"] not in json.dumps(plan)
    assert (await garden.curator.metrics(ANN))["nodes"] == 1


async def test_children_of_uncategorised_are_unplaced() -> None:
    garden = CuratedTree(uncategorized_name="未分类")
    await garden.plant("Python", "未分类", "工具")
    await garden.plant("Python 装饰器", below="未分类")
    await garden.plant("Python 调试", below="工具")

    plan = await garden.curator.reorganize(local())

    assert [step["node"]["name"] for step in plan["steps"]] == ["Python 装饰器"]


@pytest.mark.parametrize("verb", ["metrics", "reorganize"])
async def test_planning_a_large_tree_yields_to_other_tasks(verb: str) -> None:
    garden = CuratedTree()
    for begin in range(0, 5_000, 1_000):
        items = [NewKeyword(f"n {number}") for number in range(begin, begin + 1_000)]
        await garden.keywords.create_batch(local(), items)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    answer = await getattr(garden.curator, verb)(local())
    waiting.cancel()

    # Others are let in every three milliseconds.
    assert answer
    assert turns >= 3
