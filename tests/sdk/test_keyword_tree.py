"""The keyword tree in the same process: create, search, link, with and without a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from knowhub.sdk import KeywordTree, RelationType, SearchStatus, StubLLMClient


def records(data_dir: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data_dir / "records" / name).read_text(encoding="utf-8").splitlines()]


def prompt(stub: StubLLMClient, call: int) -> str:
    messages, _ = stub.calls[call]
    return "\n".join(message["content"] for message in messages)


def test_auto_root_on_fresh_init(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        root = tree.GetKeyword("root")

        assert root is not None
        assert root.level == 0
        assert root.parent_id is None
        assert [row["id"] for row in records(tmp_path, "nodes.jsonl")] == ["root"]
    with KeywordTree(str(tmp_path)):
        pass
    assert [row["id"] for row in records(tmp_path, "nodes.jsonl")] == ["root"]


def test_reload_from_jsonl(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        languages = tree.CreateKeyword("编程语言", llm_auto_place=False)
        python = tree.CreateKeyword("Python", languages.id, ["蟒蛇"])
        info = tree.CreateInfo("PEP 8 says how Python looks", keyword_ids=[python.id])

    with KeywordTree(str(tmp_path)) as again:
        assert again.GetKeyword(python.id) == python
        assert [node.id for node in again.GetPath(python.id)] == ["root", languages.id, python.id]
        assert [node.id for node in again.GetChildren(languages.id)] == [python.id]
        assert again._ExactLookup(again._Normalize("蟒蛇")) == [python.id]  # noqa: SLF001 -- subclasses override these names
        assert again.GetInfosOfKeyword(python.id) == [info]


def test_create_keyword_explicit_parent(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub) as tree:
        parent = tree.CreateKeyword("数据库", "root")

        child = tree.CreateKeyword("Redis", parent.id, llm_auto_place=True)

        assert (child.parent_id, child.level) == (parent.id, 2)
        assert stub.calls == []
    by_id = {row["id"]: row for row in records(tmp_path, "nodes.jsonl")}
    assert by_id[child.id]["parent_id"] == parent.id
    assert by_id[child.id]["name"] == "Redis"
    assert isinstance(by_id[child.id]["created_at"], float)


def test_create_keyword_llm_auto_place(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub) as tree:
        top = tree.CreateKeyword("技术", "root")
        target = tree.CreateKeyword("编程语言", top.id)
        tree.CreateKeyword("Java", target.id)
        stub.decide([{"action": "jump", "node_id": top.id}, {"action": "match", "node_id": target.id}])

        placed = tree.CreateKeyword("Rust", llm_auto_place=True)

        assert placed.parent_id == target.id
        assert len(stub.calls) == 2


def test_search_exact_hit(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        languages = tree.CreateKeyword("编程语言", "root")
        python = tree.CreateKeyword("Python", languages.id)

        found = tree.Search("python")

        assert found.status is SearchStatus.MATCHED
        assert found.node is not None
        assert found.node.id == python.id
        assert [node.id for node in found.path] == ["root", languages.id, python.id]


def test_search_ambiguous_same_name(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub) as tree:
        fruit, firm = tree.CreateKeyword("水果", "root"), tree.CreateKeyword("公司", "root")
        first, second = tree.CreateKeyword("苹果", fruit.id), tree.CreateKeyword("苹果", firm.id)

        found = tree.Search("苹果")

        assert found.status is SearchStatus.AMBIGUOUS
        assert {node.id for node in found.candidates} == {first.id, second.id}
        assert stub.calls == []


def test_search_not_found_falls_to_agent(tmp_path: Path) -> None:
    stub = StubLLMClient([{"action": "missing", "suggest_name": "Kotlin", "reason": "no such language"}])
    with KeywordTree(str(tmp_path), stub) as tree:
        tree.CreateKeyword("编程语言", "root")

        found = tree.Search("kotlin 协程")

        assert found.status is SearchStatus.NOT_FOUND
        assert found.suggested_parent_id == "root"
        assert found.suggested_name == "Kotlin"
        assert len(stub.calls) == 1


def test_search_agent_jump_match(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub, max_candidates=2) as tree:
        top = tree.CreateKeyword("技术", "root")
        middle = tree.CreateKeyword("编程语言", top.id)
        target = tree.CreateKeyword("Python", middle.id)
        stub.decide([{"action": "jump", "node_id": middle.id}, {"action": "match", "node_id": target.id}])

        found = tree.Search("写脚本最常用的语言")

        assert found.status is SearchStatus.MATCHED
        assert [node.id for node in found.path] == ["root", top.id, middle.id, target.id]
        assert len(stub.calls) == 2


def test_alias_hit(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        node = tree.CreateKeyword("JavaScript", "root", ["JS", "ECMAScript"])

        found = [tree.Search(query, llm_expand_query=False).node for query in ("js", "ECMA Script", "javascript")]

        assert [node and node.id for node in found] == [node.id] * 3


def test_create_info_explicit_link(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        node = tree.CreateKeyword("Selenium", "root")

        info = tree.CreateInfo("Wait for the element before clicking it.", "run 1", [node.id])

        assert [row.id for row in tree.GetInfosOfKeyword(node.id)] == [info.id]
        assert [(keyword.id, relation) for keyword, relation in tree.GetKeywordsOfInfo(info.id)] == [
            (node.id, RelationType.PRIMARY)
        ]


def test_link_info_relations(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        node = tree.CreateKeyword("Selenium", "root")
        info = tree.CreateInfo("driver.get(url)")

        tree.LinkInfo(info.id, node.id, RelationType.EXAMPLE)

        assert [row.id for row in tree.GetInfosOfKeyword(node.id, RelationType.EXAMPLE)] == [info.id]
        assert tree.GetInfosOfKeyword(node.id, RelationType.RELATED) == []


def test_mru_cache_touched_on_match(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub, max_candidates=10) as tree:
        # More keywords than a prompt shows: only as the one matched last does the deep one come into the first round.
        tops = [tree.CreateKeyword(f"主题{number}", "root") for number in range(12)]
        target = tree.CreateKeyword("深处的目标", tops[0].id)
        jump, match = {"action": "jump", "node_id": tops[0].id}, {"action": "match", "node_id": target.id}
        stub.decide([jump, match, match])

        first, second = tree.Search("同一个问题"), tree.Search("同一个问题")

        assert [found.node and found.node.id for found in (first, second)] == [target.id] * 2
        assert len(stub.calls) == 3
        assert target.name not in prompt(stub, 0)
        assert target.name in prompt(stub, 2)


@pytest.mark.parametrize(
    ("raised", "reason"), [(RuntimeError("the model is down"), "agent_failure"), (TimeoutError(), "agent_timeout")]
)
def test_agent_failure_fallback(tmp_path: Path, raised: Exception, reason: str) -> None:
    with KeywordTree(str(tmp_path), StubLLMClient([raised])) as tree:
        tree.CreateKeyword("技术", "root")

        found = tree.Search("没有的词")

        assert found.status is SearchStatus.NOT_FOUND
        assert reason in found.reason
        assert found.suggested_parent_id == "root"


def test_llm_expand_query_false_skips_agent(tmp_path: Path) -> None:
    stub = StubLLMClient()
    with KeywordTree(str(tmp_path), stub) as tree:
        tree.CreateKeyword("技术", "root")

        found = tree.Search("没有的词", llm_expand_query=False)

        assert found.status is SearchStatus.NOT_FOUND
        assert found.reason == "exact_miss_llm_disabled"
        assert stub.calls == []


@pytest.mark.parametrize(("auth", "scopes"), [("none", ["public"]), ("api-key", ["user:owner"])])
def test_rows_are_public_by_default_only_without_keys(tmp_path: Path, auth: str, scopes: list[str]) -> None:
    with KeywordTree(str(tmp_path), auth=auth) as tree:
        tree.CreateKeyword("ants", llm_auto_place=False)
        tree.CreateInfo("about ants")

    rows = [*records(tmp_path, "nodes.jsonl"), *records(tmp_path, "infos.jsonl")]
    assert [row["scopes"] for row in rows if row["id"] != "root"] == [scopes, scopes]
