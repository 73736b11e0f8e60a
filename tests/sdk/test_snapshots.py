"""Snapshot and Restore of the in-process tree (KT-252): it stands as it stood, in memory and caches too."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from knowhub.core.errors import InvalidInput, NotFound
from knowhub.sdk import KeywordTree, LongTermMemory, SearchStatus, StubLLMClient


def test_a_restored_tree_answers_as_it_did_and_the_restore_is_undone(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub) as tree:
        python = tree.CreateKeyword("Python", "root", ["蟒蛇"])
        info = tree.CreateInfo("PEP 8 says how Python looks", keyword_ids=[python.id])
        stub.decide([{"action": "match", "node_id": python.id}])
        assert tree.Search("the language of snakes").node is not None
        ts = tree.Snapshot()
        tree.DeleteKeyword(python.id)
        new = tree.CreateKeyword("Ruby", "root")

        restore_id = tree.Restore(ts)

        found = tree.Search("蟒蛇")
        assert (found.status, [one.id for one in found.infos]) == (SearchStatus.MATCHED, [info.id])
        assert tree.GetKeyword(new.id) is None
        assert (tmp_path / "snapshots" / f"snapshot_{ts}.tar.gz").is_file()
        assert restore_id is not None
        tree.Undo(restore_id)
        assert tree.GetKeyword(python.id) is None
        assert tree.Search("Ruby").node == tree.GetKeyword(new.id)
    with KeywordTree(str(tmp_path)) as again:
        assert [node.name for node in again.GetChildren("root")] == ["Ruby"]


@pytest.mark.parametrize(
    ("snapshot", "restore"),
    [(KeywordTree.snapshot, KeywordTree.restore), (KeywordTree.Snapshot, KeywordTree.Restore)],
    ids=["seed 001", "seed 000"],
)
def test_both_spellings_do_the_same(
    tmp_path: Path, snapshot: Callable[[KeywordTree], str], restore: Callable[[KeywordTree, str], str | None]
) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        ts = snapshot(tree)

        assert restore(tree, ts) is None
        assert tree.LastOperationId is None
        with pytest.raises(NotFound):
            restore(tree, "20200101T000000Z")


def test_a_long_term_memory_goes_back_too_and_names_what_is_damaged(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        memory = LongTermMemory(tree)
        ts = memory.Snapshot()
        memory.CreateKeyword("Ruby", "root")
        restore_id = memory.Restore(ts)
        path = tmp_path / "snapshots" / f"snapshot_{ts}.tar.gz"
        path.write_bytes(path.read_bytes()[:-20])

        assert restore_id is not None
        assert memory.GetChildren("root") == []
        with pytest.raises(InvalidInput, match="change_log"):
            memory.Restore(ts)


def test_the_memory_has_every_verb_of_its_tree_with_the_same_parameters() -> None:
    verbs = {name: verb for name, verb in inspect.getmembers(KeywordTree, inspect.isfunction) if name[0].isupper()}

    forwarded = {name: inspect.signature(getattr(LongTermMemory, name)) for name in verbs}

    assert len(forwarded) > 25
    assert forwarded == {name: inspect.signature(verb) for name, verb in verbs.items()}
