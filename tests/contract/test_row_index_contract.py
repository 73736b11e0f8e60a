"""What the indexes guarantee for every family of rows: knowledge, memories, keywords and infos.

A family defines how a text becomes a row. All other code and behaviour is the same.
"""

import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub
from knowhub.context.model import NODES, PARTS, MemoryCategory
from knowhub.core.operation import Draft, Write
from knowhub.keywords.model import INFOS, KEYWORDS
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.search.texts import Searchable
from knowhub.wiring.indexes import SearchIndex
from tests.builders import FakeClock, knowledge_row
from tests.context_rows import ACCOUNT, OWNER, memory_at, node_row, part_row, session_at
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import open_search_hub
from tests.keyword_rows import info_row, keyword_row

pytestmark = pytest.mark.anyio

TEXTS = {
    "one": "the zebra is striped",
    "two": "zebra and lion at the waterhole, a zebra",
    "three": "登录网站用 selenium",
    "four": "anna likes green tea",
}


@dataclass(frozen=True)
class Family:
    """One family: its rows, the index that finds them, and a facet of half of its rows."""

    name: str
    collection: str
    row: Callable[[str, str, int], Mapping[str, Any]]
    recall: Callable[[Hub], SearchIndex[Any]]
    group: frozenset[str]
    folder: str


def record_row(name: str, text: str, version: int) -> Mapping[str, Any]:
    kind = "tool" if name in {"one", "three"} else "strategy"
    return knowledge_row(name, content=text, task="", types=(kind,)) | {"version": version}


def node_of(name: str, text: str, version: int) -> Mapping[str, Any]:
    category = MemoryCategory.EVENTS if name in {"one", "three"} else MemoryCategory.ENTITIES
    return node_row(memory_at(category, name), abstract=text, version=version)


def part_of(name: str, text: str, version: int) -> Mapping[str, Any]:
    session = session_at("odd" if name in {"one", "three"} else "even")
    return part_row(session, list(TEXTS).index(name), text, message_id=name, version=version)


def keyword(name: str, text: str, version: int) -> Mapping[str, Any]:
    shown = "team:odd" if name in {"one", "three"} else "team:even"
    return keyword_row(name, description=text, scopes=[shown], version=version)


def info(name: str, text: str, version: int) -> Mapping[str, Any]:
    shown = "team:odd" if name in {"one", "three"} else "team:even"
    return info_row(name, content=text, scopes=[shown], version=version)


FAMILIES = [
    Family("records", KNOWLEDGE, record_row, lambda hub: hub.indexes.records, frozenset({"type:tool"}), ""),
    Family("nodes", NODES, node_of, lambda hub: hub.indexes.memories, frozenset({"category:events"}), "context"),
    Family(
        "parts",
        PARTS,
        part_of,
        lambda hub: hub.indexes.memories,
        frozenset({f"under:{session_at('odd')}"}),
        "context",
    ),
    Family("keywords", KEYWORDS, keyword, lambda hub: hub.indexes.tree, frozenset({"sees:team:odd"}), "tree"),
    Family("infos", INFOS, info, lambda hub: hub.indexes.tree, frozenset({"sees:team:odd"}), "tree"),
]


@dataclass(frozen=True)
class Index:
    """An index of a family on an open hub."""

    family: Family
    hub: Hub
    root: Path

    @property
    def recall(self) -> SearchIndex[Any]:
        return self.family.recall(self.hub)

    async def write(self, texts: Mapping[str, str], version: int = 1, account: str = ACCOUNT) -> None:
        rows = [self.family.row(name, text, version) for name, text in texts.items()]
        await self._commit(rows, account)

    async def delete(self, name: str) -> None:
        await self._commit([{**self.family.row(name, TEXTS[name], 2), "deleted": True}], ACCOUNT)

    async def _commit(self, rows: Sequence[Mapping[str, Any]], account: str) -> None:
        writes = [Write(self.family.collection, row["id"], row) for row in rows]
        await self.hub.store.commit(account, OWNER, lambda _view: Draft("test", writes))

    async def index_pending(self) -> None:
        if self.recall.vectors is not None:
            await self.recall.vectors.embed_pending()
        await self.hub.maintenance.tick()

    async def find(
        self, text: str, *groups: frozenset[str], account: str = ACCOUNT, accept: Callable[[Searchable], bool] = bool
    ) -> list[str]:
        answer = await self.recall.index.search(account, text, groups, accept, 10)
        return [hit.summary.id.rpartition("/")[2] for hit in answer.hits]


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    chosen: Family = request.param
    return chosen


@pytest.fixture(params=[False, True], ids=["words", "hybrid"])
async def index(request: pytest.FixtureRequest, family: Family, tmp_path: Path) -> AsyncIterator[Index]:
    embedder = HashingEmbedder() if request.param else None
    async with open_search_hub(tmp_path, embedder, FakeClock()) as hub:
        yield Index(family, hub, tmp_path)


async def test_rows_are_found_in_the_same_order_before_and_after_indexing(index: Index) -> None:
    await index.write(TEXTS)
    lag, at_once = index.recall.lag, [await index.find(text) for text in ("zebra", "网站登录", "green")]

    await index.index_pending()

    assert at_once == [["two", "one"], ["three"], ["four"]]
    assert [await index.find(text) for text in ("zebra", "网站登录", "green")] == at_once
    assert (lag, index.recall.lag) == (4, 0)


@pytest.mark.parametrize("is_absorbed", [False, True])
async def test_changed_and_deleted_texts_are_not_found(index: Index, *, is_absorbed: bool) -> None:
    await index.write(TEXTS)
    if is_absorbed:
        await index.index_pending()

    await index.write({"one": "a horse without stripes"}, version=2)
    await index.delete("two")
    before = [await index.find(text) for text in ("zebra", "horse")]
    await index.index_pending()

    assert before == [[], ["one"]]
    assert [await index.find(text) for text in ("zebra", "horse")] == before


async def test_a_restored_row_is_found_again(index: Index) -> None:
    await index.write(TEXTS)
    await index.index_pending()
    await index.delete("four")
    await index.index_pending()

    await index.write({"four": TEXTS["four"]}, version=3)
    at_once = await index.find("tea")
    await index.index_pending()

    assert at_once == await index.find("tea") == ["four"]


@pytest.mark.parametrize("is_absorbed", [False, True])
async def test_groups_narrow_and_accept_decides(index: Index, *, is_absorbed: bool) -> None:
    await index.write(TEXTS)
    if is_absorbed:
        await index.index_pending()

    narrowed = await index.find("zebra tea 登录", index.family.group)
    nothing = await index.find("zebra", index.family.group, frozenset({"category:none", "type:none"}))
    accepted = await index.find("zebra tea 登录", accept=lambda summary: summary.id.endswith("four"))

    assert (sorted(narrowed), nothing, accepted) == (["one", "three"], [], ["four"])


async def test_no_account_finds_rows_of_another(index: Index) -> None:
    await index.write({"one": TEXTS["one"]})
    await index.write({"two": TEXTS["two"]}, account="other")
    await index.index_pending()

    assert [await index.find("zebra", account=account) for account in (ACCOUNT, "other", "third")] == [
        ["one"],
        ["two"],
        [],
    ]


async def test_a_rebuilt_index_gives_the_same_answers(index: Index) -> None:
    await index.write(TEXTS)
    await index.index_pending()
    before = [await index.find(text) for text in ("zebra", "tea", "selenium")]

    shutil.rmtree(index.root / "indexes" / index.family.folder / "lexical")
    await index.index_pending()
    rows = await index.hub.reindex(lambda _done, _total: None)

    assert (rows, index.recall.lag) == (4, 0)
    assert [await index.find(text) for text in ("zebra", "tea", "selenium")] == before


async def test_each_family_has_its_own_folders(index: Index) -> None:
    await index.write(TEXTS)
    await index.index_pending()

    folders = {path.parent.parent for path in (index.root / "indexes").rglob("built.json")}

    kinds = ["lexical", "vectors"] if index.recall.vectors is not None else ["lexical"]
    assert folders == {index.root / "indexes" / index.family.folder / kind for kind in kinds}
