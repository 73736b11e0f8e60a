"""Clients of the caller's own, whatever they do: no verb raises for it, and the tree goes on."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowhub.sdk import KeywordTree, SearchStatus


class OneAnswerClient:
    """Gives one answer to every question."""

    def __init__(self, answer: Any = None) -> None:  # noqa: ANN401 -- anything is the point
        self.answer = answer

    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> Any:  # noqa: ANN401, N802 -- the name that a client needs
        return self.answer


class Nameless(OneAnswerClient):
    @property
    def model(self) -> str:
        raise RuntimeError("this client has no model yet")


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("not to be shown")


class Odd(OneAnswerClient):
    model = Unprintable()


class Lazy(dict[str, Any]):
    """An answer whose fields take as long as they like: elsewhere than in the client's thread, others wait for them."""

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 -- as dict has it
        if threading.current_thread().name != "llm-client":
            raise RuntimeError("everybody waits")
        return super().get(key, default)


class BrokenClient(OneAnswerClient):
    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> Any:  # noqa: ANN401, N802 -- the name that a client needs
        raise SystemExit("the client gave up")


class MeddlingClient(OneAnswerClient):
    """Empties what it is handed: it is the client's own."""

    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> Any:  # noqa: ANN401, N802 -- the name that a client needs
        messages.clear()
        json_schema.clear()
        return self.answer


class AskingClient(OneAnswerClient):
    """Looks something up in the tree before it answers."""

    tree: KeywordTree

    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> Any:  # noqa: ANN401, N802 -- the name that a client needs
        found = self.tree.Search("Python")
        return {"action": "match", "node_id": found.node and found.node.id}


def open_tree(path: Path, client: object, **options: Any) -> KeywordTree:  # noqa: ANN401 -- any setting
    tree = KeywordTree(str(path), client, **options)
    tree.CreateKeyword("Python", llm_auto_place=False)
    return tree


MATCH = {"action": "match", "node_id": 1, "reason": "it is"}


@pytest.mark.parametrize("options", [{}, {"result_cache": True, "log_agent_decisions": True}], ids=["bare", "kept"])
@pytest.mark.parametrize("client", [Nameless(MATCH), Odd(MATCH), MeddlingClient(MATCH), OneAnswerClient(Lazy(MATCH))])
def test_a_valid_answer_of_an_odd_client_counts(tmp_path: Path, client: object, options: dict[str, Any]) -> None:
    with open_tree(tmp_path, client, **options) as tree:
        found = [tree.Search("the snake"), tree.Search("that snake")]
        placed = tree.CreateKeyword("asyncio")

        assert [(result.status, result.reason) for result in found] == [(SearchStatus.MATCHED, "it is")] * 2
        assert found[0].node is not None
        assert placed.parent_id == found[0].node.id


@pytest.mark.parametrize(
    "client",
    [BrokenClient(), OneAnswerClient(), OneAnswerClient([MATCH]), OneAnswerClient("match"), object(), OneAnswerClient],
)
def test_an_invalid_answer_is_a_failure(tmp_path: Path, client: object) -> None:
    with open_tree(tmp_path, client) as tree:
        found = tree.Search("the snake")
        placed = tree.CreateKeyword("asyncio")
        info = tree.CreateInfo("Python is a snake", auto_link=True)

        assert (found.status, found.reason) == (SearchStatus.NOT_FOUND, "agent_failure")
        assert placed.parent_id == "root"
        assert [node.name for node, _ in tree.GetKeywordsOfInfo(info.id)] == ["Python"]
        assert tree.Reorganize()["degraded"] == ["llm"]


def nest_lists(depth: int) -> object:
    outer: list[object] = []
    for _ in range(depth):
        outer = [outer]
    return outer


@pytest.mark.parametrize(
    "field", ["action", "node_id", "node_ids", "reason", "links", "suggested_names", "moves", "splits"]
)
def test_unprintable_and_endless_fields_do_no_harm(tmp_path: Path, field: str) -> None:
    client = OneAnswerClient()
    with open_tree(tmp_path, client) as tree:
        for strange in (nest_lists(100_000), Unprintable(), [Unprintable()]):
            client.answer = {"action": "match", "node_id": 1, "links": [{"keyword_id": 1}]} | {field: strange}

            found = tree.Search("the snake")
            placed = tree.CreateKeyword(f"asyncio {id(strange)}")
            tree.CreateKeyword("python", parent_id=placed.id, llm_dedup_check=True)
            info = tree.CreateInfo("Python is a snake", auto_link=True)

            assert found.node is None or tree.GetKeyword(found.node.id) is not None
            assert {node.name for node, _ in tree.GetKeywordsOfInfo(info.id)} <= {"Python", "python"}
            assert tree.Reorganize()["steps"] is not None


@pytest.fixture
def reentrant(tmp_path: Path) -> Iterator[KeywordTree]:
    client = AskingClient()
    with open_tree(tmp_path, client) as tree:
        client.tree = tree
        yield tree


def test_a_client_may_use_the_tree_that_asks_it(reentrant: KeywordTree) -> None:
    assert reentrant.Search("the snake").status is SearchStatus.MATCHED


def test_a_tree_is_used_from_many_threads_and_inside_a_running_loop(reentrant: KeywordTree) -> None:
    found: list[SearchStatus] = []
    threads = [threading.Thread(target=lambda: found.append(reentrant.Search("the snake").status)) for _ in range(8)]

    async def inside() -> None:
        found.append(reentrant.Search("that snake").status)

    for thread in threads:
        thread.start()
    asyncio.run(inside())
    for thread in threads:
        thread.join()

    assert found == [SearchStatus.MATCHED] * 9
