"""Recall asks all sources concurrently and takes near items in turn; a failing source costs only its own items."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from knowhub.context.search_model import MemorySearchResult, RetrievedBlock
from knowhub.core.errors import Forbidden, InvalidInput, TooLarge, Unavailable
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import KeywordSearchResult as KeywordFound
from knowhub.keywords.model import SearchStatus, TextRows
from knowhub.knowledge.model import KnowledgeSearchResult as KnowledgeFound
from knowhub.knowledge.model import SearchQuery
from knowhub.usecases.recall import RecallItem, RecallQuery, RecallService, RecallSource, take_turns
from tests.builders import local

pytestmark = pytest.mark.anyio

TODAY = "2026-03-05T12:00:00Z"
SHARED = {"scopes": ["project:atlas"], "owner": "agent:bot"}
NOTHING = KeywordFound(SearchStatus.NOT_FOUND)


@dataclass
class FakeKnowledge:
    """Knowledge that answers with records of these ids, or raises."""

    ids: Sequence[str] = ()
    error: Exception | None = None

    async def search(self, _ctx: RequestContext, _query: SearchQuery) -> KnowledgeFound:
        if self.error is not None:
            raise self.error
        rows = [
            {"id": item, "task": f"task {item}", "content": "x" * 1000, "types": ["tool"], "relevance": 0.5, **SHARED}
            for item in self.ids
        ]
        return KnowledgeFound(rows, 2)


@dataclass
class FakeTree:
    """A tree in which one keyword is named, or some come near; it never ends where it `hangs`."""

    found: KeywordFound = NOTHING
    hangs: bool = False

    async def search(self, *_asked: object, **_named: object) -> KeywordFound:
        if self.hangs:
            await asyncio.Event().wait()
        return self.found

    async def search_texts(self, *_asked: object) -> TextRows:
        return TextRows([])


@dataclass
class FakeMemories:
    """Memories at these URIs."""

    uris: Sequence[str] = ()

    async def search_memory(self, *_asked: object, **_named: object) -> MemorySearchResult:
        blocks = [RetrievedBlock(uri, "events", "L0", f"about {uri}", "user:li") for uri in self.uris]
        return MemorySearchResult([], [], blocks, len(blocks), 3, ["embedder"])


def keyword_found(name: str, *infos: str) -> KeywordFound:
    row = {"id": f"id of {name}", "name": name, "description": "what it is", "created_at": TODAY, **SHARED}
    path = [{"id": "root", "name": "root"}, row]
    hanging = [{"id": info, "content": f"says {info}", "source": "", "created_at": TODAY, **SHARED} for info in infos]
    return KeywordFound(
        SearchStatus.MATCHED,
        json.dumps(row).encode(),
        [json.dumps(item).encode() for item in path],
        [json.dumps(item).encode() for item in hanging],
        reason="exact",
    )


def make_recall(
    *,
    knowledge: FakeKnowledge | None = None,
    tree: FakeTree | None = None,
    noted: list[tuple[str, str]] | None = None,
    budget_s: float = 20.0,
) -> RecallService:
    records: Any = knowledge or FakeKnowledge(["k1"])
    keywords: Any = tree or FakeTree(keyword_found("a"))
    memories: Any = FakeMemories(["ctx://m1"])
    failures = [] if noted is None else noted
    return RecallService(
        records, keywords, memories, lambda source, error: failures.append((source, str(error))), budget_s
    )


async def test_near_keywords_are_returned_if_none_is_named() -> None:
    row = {"id": "n", "name": "near", "path": "near", "aliases": [], "description": "", "created_at": TODAY, **SHARED}
    near = json.dumps(row).encode()
    recall = make_recall(tree=FakeTree(KeywordFound(SearchStatus.AMBIGUOUS, candidates=[near])))

    (item,) = (await recall.recall(local(), RecallQuery("x", sources=frozenset({RecallSource.KEYWORDS})))).items

    assert (item.id, item.why) == ("n", "comes near: ambiguous")


def items_of(source: RecallSource, *relevances: float) -> list[RecallItem]:
    return [RecallItem(source, "", f"{source.value} {value}", "", "", "", value, "public") for value in relevances]


@pytest.mark.parametrize(
    ("knowledge", "keywords", "memory", "expected"),
    [
        # What is hardly about the question waits, also where a source has nothing else.
        ([0.1], [0.09, 0.08], [0.9, 0.8], ["memory 0.9", "memory 0.8", "knowledge 0.1", "keywords 0.09"]),
        # Near items take turns: a source with many does not fill the answer.
        ([0.6, 0.5], [1.0, 1.0, 1.0], [0.7], ["keywords 1.0", "memory 0.7", "knowledge 0.6", "keywords 1.0"]),
        ([0.5, 0.5], [], [0.5], ["knowledge 0.5", "memory 0.5", "knowledge 0.5"]),
        ([], [], [], []),
    ],
)
def test_the_best_item_comes_first_and_near_ones_take_turns(
    knowledge: list[float], keywords: list[float], memory: list[float], expected: list[str]
) -> None:
    relevances = dict(zip(RecallSource, (knowledge, keywords, memory), strict=True))
    lists = [items_of(source, *values) for source, values in relevances.items()]

    assert [item.id for item in take_turns(lists, 4)] == expected
    assert [item.id for item in take_turns(lists, 1)] == expected[:1]


async def test_a_source_that_raises_is_named_and_the_others_answer() -> None:
    noted: list[tuple[str, str]] = []
    recall = make_recall(knowledge=FakeKnowledge(error=ValueError("broken")), noted=noted)

    answer = await recall.recall(local(), RecallQuery("a"))

    assert [item.source.value for item in answer.items] == ["keywords", "memory"]
    assert answer.degraded == ["knowledge", "embedder"]
    assert noted == [("knowledge", "broken")]


@pytest.mark.parametrize("error", [InvalidInput.of("q", "is wrong"), Forbidden("not yours"), TooLarge("too much")])
async def test_caller_errors_are_raised_and_not_counted_as_failures(error: Exception) -> None:
    noted: list[tuple[str, str]] = []
    recall = make_recall(knowledge=FakeKnowledge(error=error), noted=noted)

    with pytest.raises(type(error)):
        await recall.recall(local(), RecallQuery("a"))

    assert noted == []


async def test_a_hanging_source_costs_only_its_budget() -> None:
    recall = make_recall(tree=FakeTree(hangs=True), budget_s=0.01)

    answer = await recall.recall(local(), RecallQuery("a"))

    assert [item.id for item in answer.items] == ["k1", "ctx://m1"]
    assert answer.degraded == ["keywords", "embedder"]


async def test_recall_fails_if_every_source_fails() -> None:
    recall = make_recall(knowledge=FakeKnowledge(error=ValueError()))

    with pytest.raises(Unavailable, match="knowledge failed"):
        await recall.recall(local(), RecallQuery("a", sources=frozenset({RecallSource.KNOWLEDGE})))
