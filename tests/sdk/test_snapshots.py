"""Snapshot and Restore of the in-process tree: rows and caches are as they were."""

from pathlib import Path

import pytest

from knowhub.core.errors import NotFound
from knowhub.sdk import KeywordTree, SearchStatus, StubLLMClient


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
        assert (found.status, [row.id for row in found.infos]) == (SearchStatus.MATCHED, [info.id])
        assert tree.GetKeyword(new.id) is None
        assert (tmp_path / "snapshots" / f"snapshot_{ts}.tar.gz").is_file()
        assert restore_id is not None
        tree.Undo(restore_id)
        assert tree.GetKeyword(python.id) is None
        assert tree.Search("Ruby").node == tree.GetKeyword(new.id)
    with KeywordTree(str(tmp_path)) as again:
        assert [node.name for node in again.GetChildren("root")] == ["Ruby"]


def test_a_restore_without_changes_is_no_operation(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        ts = tree.snapshot()

        assert tree.restore(ts) is None
        assert tree.last_operation_id is None
        with pytest.raises(NotFound):
            tree.restore("20200101T000000Z")
