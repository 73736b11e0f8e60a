"""Goal trees on disk: what was kept last is what is there, whatever the trace is called."""

import asyncio
from pathlib import Path

import pytest

from agent_tools.goal_tree import GoalTree
from agent_tools.trace_store import FileTraceStore, TraceDamaged

pytestmark = pytest.mark.anyio


async def test_a_tree_comes_back_as_it_was_kept_last(tmp_path: Path) -> None:
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


async def test_what_is_handed_in_last_is_what_stays_when_many_write_at_once(tmp_path: Path) -> None:
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


async def test_an_unknown_trace_is_none(tmp_path: Path) -> None:
    assert await FileTraceStore(tmp_path / "new").load_goal_tree("nobody") is None


@pytest.mark.parametrize(
    "trace_id", ["../../etc/passwd", "a/b", "..", ".", "", "追踪 1", "x" * 5000, "a\x00b", "\udc80", "%2e%2e"]
)
async def test_no_name_of_a_trace_leads_out_of_the_folder(tmp_path: Path, trace_id: str) -> None:
    store, tree = FileTraceStore(tmp_path / "traces"), GoalTree()
    tree.add("登录")

    await store.update_goal_tree(trace_id.encode("utf-8", "replace").decode(), tree)

    assert names_in(tmp_path) == ["traces"]
    assert len(names_in(tmp_path / "traces")) == 1


async def test_two_traces_with_long_names_do_not_share_a_file(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)

    await store.update_goal_tree("x" * 300 + "a", GoalTree())
    await store.update_goal_tree("x" * 300 + "b", GoalTree())

    assert len(names_in(tmp_path)) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"goals":[{"id":"x"}]}', b'{"goals":3}', b"\xff"])
async def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)

    with pytest.raises(TraceDamaged, match=r"t\.json"):
        await FileTraceStore(tmp_path).load_goal_tree("t")

    assert path.read_bytes() == content


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
