"""Goal trees on disk: the last saved tree is loaded, for any trace id."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_tools.goal_tree import GoalTree
from agent_tools.trace_store import FileTraceStore, TraceDamaged

pytestmark = pytest.mark.anyio


async def test_the_last_saved_tree_is_loaded(tmp_path: Path) -> None:
    store, tree = FileTraceStore(tmp_path), GoalTree()
    wanted = tree.add("登录")
    tree.focus(wanted)
    await store.update_goal_tree("trace-1", tree)
    wanted.knowledge = [{"id": "knowledge-1", "content": "随机延迟"}]
    wanted.outcome = "done"

    await store.update_goal_tree("trace-1", tree)

    kept = await FileTraceStore(tmp_path).load_goal_tree("trace-1")
    assert kept is not None
    assert kept.to_dict() == tree.to_dict()
    assert names_in(tmp_path) == ["trace-1.json"]


async def test_the_last_of_many_concurrent_saves_wins(tmp_path: Path) -> None:
    store, tree = FileTraceStore(tmp_path), GoalTree()
    writes = []
    for number in range(30):
        tree.add(f"step {number}")
        writes.append(asyncio.ensure_future(store.update_goal_tree("t", tree)))
        await asyncio.sleep(0)

    await asyncio.gather(*writes)

    kept = await store.load_goal_tree("t")
    assert kept is not None
    assert len(kept) == 30


@pytest.mark.parametrize(
    "trace_id", ["../../etc/passwd", "a/b", "..", ".", "", "追踪 1", "x" * 5000, "a\x00b", "\udc80", "%2e%2e"]
)
async def test_no_trace_id_leads_out_of_the_folder(tmp_path: Path, trace_id: str) -> None:
    store, tree = FileTraceStore(tmp_path / "traces"), GoalTree()
    tree.add("登录")

    await store.update_goal_tree(trace_id.encode("utf-8", "replace").decode(), tree)

    assert names_in(tmp_path) == ["traces"]
    assert len(names_in(tmp_path / "traces")) == 1


def make_goal(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON value
    goal: dict[str, Any] = {
        "id": "a",
        "description": "登录",
        "parent_id": None,
        "status": "pending",
        "knowledge": [],
        "outcome": "",
    }
    return {**goal, "evidence_due": False, **fields}


def make_file(goals: object) -> bytes:
    return json.dumps({"trace_id": "t", "goals": goals}).encode()


WRONG_FIELDS: list[dict[str, Any]] = [
    {"knowledge": [1]},
    {"knowledge": "abc"},
    {"description": 5},
    {"evidence_due": "yes"},
    {"status": "lost"},
]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b'{"goals":[{"id":"x"}]}', b'{"goals":3}', b"\xff", make_file([1]), make_file({})),
        *(make_file([make_goal(**fields)]) for fields in WRONG_FIELDS),
    ],
)
async def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)

    with pytest.raises(TraceDamaged, match=r"t\.json"):
        await FileTraceStore(tmp_path).load_goal_tree("t")

    assert path.read_bytes() == content


async def test_a_child_may_come_before_its_parent(tmp_path: Path) -> None:
    goals = [make_goal(parent_id="c"), make_goal(id="b", parent_id="a"), make_goal(id="c")]
    (tmp_path / "t.json").write_bytes(make_file(goals))

    kept = await FileTraceStore(tmp_path).load_goal_tree("t")

    assert kept is not None
    assert [line.strip()[4:5] for line in kept.render().splitlines()] == ["c", "a", "b"]


async def test_two_stores_can_write_the_same_trace(tmp_path: Path) -> None:
    stores = [FileTraceStore(tmp_path), FileTraceStore(tmp_path)]
    trees = [GoalTree(), GoalTree()]
    for tree, count in zip(trees, (40, 2_000), strict=True):
        for number in range(count):
            tree.add(f"step {number} " + "y" * 50)
    found = set()

    for _ in range(40):
        kept = [store.update_goal_tree("t", tree) for store, tree in zip(stores, trees, strict=True)]
        await asyncio.gather(*kept)
        loaded = await stores[0].load_goal_tree("t")
        found.add(len(loaded or ()))

    assert found <= {40, 2_000}
    assert names_in(tmp_path) == ["t.json"]


async def test_a_failed_save_leaves_no_temporary_file(tmp_path: Path) -> None:
    store, tree = FileTraceStore(tmp_path), GoalTree()
    # A folder in place of the file: what is written beside it cannot take its name.
    (tmp_path / "t.json").mkdir()

    with pytest.raises(OSError, match=r"t\.json"):
        await store.update_goal_tree("t", tree)

    assert names_in(tmp_path) == ["t.json"]


async def test_a_lone_surrogate_in_an_id_is_saved_and_loaded(tmp_path: Path) -> None:
    store, tree = FileTraceStore(tmp_path), GoalTree()
    tree.add("登录", goal_id="half \ud800")

    await store.update_goal_tree("t", tree)

    kept = await store.load_goal_tree("t")
    assert kept is not None
    assert kept.to_dict() == tree.to_dict()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
