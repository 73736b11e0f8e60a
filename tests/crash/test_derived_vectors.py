"""Vector files that are truncated, extended or have a flipped bit: words answer until the vectors are rebuilt."""

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowhub.bootstrap import Hub, check_directory
from knowhub.knowledge.model import Order, SearchQuery
from knowhub.search.vector_files import VectorFiles
from knowhub.settings import Settings
from tests.builders import local, new_knowledge
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import open_search_hub, save_record

pytestmark = pytest.mark.anyio

TEXTS = ("zebra stripes", "zebra crossing", "lion mane", "斑马 登录", "zebra and lion")
QUERIES = ("zebra", "lion stripes", "斑马")
KINDS = ("built.json", "build-*/rows.bin")
TAILS = (b"\0", b"\n", b"{}", bytes(4096), random.Random(11).randbytes(8192))


@dataclass(frozen=True, slots=True)
class SearchAnswers:
    """The answers of searches: ids, scores and stages by rank, and how many records have no vector."""

    found: Sequence[Sequence[Any]]
    lag: int


@dataclass(frozen=True, slots=True)
class ExpectedAnswers:
    """The expected answers with all vectors and without any, and the rows of the vector file."""

    whole: SearchAnswers
    words: SearchAnswers
    rows: frozenset[bytes]


async def ask(hub: Hub) -> SearchAnswers:
    asked = [SearchQuery(text, top_k=10, order=Order.RELEVANCE, explain=True, min_relevance=0.0) for text in QUERIES]
    answered = [await hub.knowledge.search.search(local(), item) for item in asked]
    assert {tuple(item.degraded) for item in answered} == {()}
    found = [[(row["id"], row["why"]["stages"]) for row in item.records] for item in answered]
    return SearchAnswers(found, answered[0].index_lag)


async def embed_pending(hub: Hub) -> None:
    await hub.maintenance.tick()
    assert hub.indexes.records.vectors is not None
    await hub.indexes.records.vectors.embed_pending()
    await hub.maintenance.tick()
    assert hub.maintenance.failures == {}


async def fill(folder: Path) -> ExpectedAnswers:
    async with open_search_hub(folder, embedder=HashingEmbedder()) as hub:
        for text in TEXTS:
            await save_record(hub, new_knowledge(text))
        await embed_pending(hub)
    copy = folder.with_name("words")
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "indexes" / "vectors")
    async with open_search_hub(copy, embedder=HashingEmbedder()) as hub:
        words = await ask(hub)
    async with open_search_hub(folder, embedder=HashingEmbedder()) as hub:
        whole = await ask(hub)
    assert whole != words
    assert (whole.lag, words.lag) == (0, len(TEXTS))
    return ExpectedAnswers(whole, words, rows_of(folder))


def file_of(folder: Path, kind: str) -> Path:
    (path,) = (folder / "indexes" / "vectors").glob(f"*/{kind}")
    return path


def rows_of(folder: Path) -> frozenset[bytes]:
    files = VectorFiles(file_of(folder, "built.json").parent)
    metadata = files.read_metadata()
    assert metadata is not None
    rows = files.read(metadata)
    assert np.isfinite(rows["vector"]).all()
    return frozenset(row.tobytes() for row in rows)


def list_problems(folder: Path) -> list[str]:
    return [item.subject for item in check_directory(Settings(data_dir=folder)) if item.severity == "problem"]


async def check_damage(
    source: Path, kind: str, data: bytes, right: ExpectedAnswers, *, mends: bool = True
) -> SearchAnswers:
    """Assert that it answers with all vectors, or with none and says so, and that upkeep repairs the file."""
    folder = Path(tempfile.mkdtemp(dir=source.parent)) / "data"
    shutil.copytree(source, folder)
    file_of(folder, kind).write_bytes(data)
    is_named = bool(list_problems(folder))
    async with open_search_hub(folder, embedder=HashingEmbedder()) as hub:
        answered = await ask(hub)
        assert answered in (right.whole, right.words)
        assert answered == right.words or not is_named
        if mends:
            await embed_pending(hub)
            assert await ask(hub) == right.whole
    if mends:
        assert rows_of(folder) == right.rows
        assert list_problems(folder) == []
        async with open_search_hub(folder, embedder=HashingEmbedder()) as hub:
            assert await ask(hub) == right.whole
            await save_record(hub, new_knowledge("a later record"))
            await embed_pending(hub)
        assert rows_of(folder) > right.rows
    shutil.rmtree(folder.parent, ignore_errors=True)
    return answered


def iter_flips(data: bytes, bits: Sequence[int]) -> Iterator[bytes]:
    for bit in bits:
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        yield bytes(spoilt)


@pytest.mark.parametrize("kind", KINDS)
async def test_damaged_vectors_are_rebuilt_and_words_answer_meanwhile(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    right = await fill(source)
    data = file_of(source, kind).read_bytes()
    bits = random.Random(5).sample(range(8 * len(data)), 24)

    cut = [await check_damage(source, kind, data[:length], right) for length in (0, 1, len(data) // 2, len(data) - 1)]
    longer = [await check_damage(source, kind, data + tail, right) for tail in TAILS]
    flipped = [
        await check_damage(source, kind, spoilt, right, mends=not at % 4)
        for at, spoilt in enumerate(iter_flips(data, bits))
    ]

    assert cut == [right.words] * len(cut)
    if kind == "built.json":
        # White space behind the metadata, and a bit of a number that is in it anyway, say the same as before.
        assert right.whole in longer
        assert right.words in flipped
    else:
        # Bytes after the rows of the metadata were never acknowledged.
        assert longer == [right.whole] * len(TAILS)
        assert flipped == [right.words] * len(bits)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "bits_per_byte", "mended"), [("built.json", 8, 16), ("build-*/rows.bin", 1, 64)])
async def test_every_byte_and_every_prefix_of_vectors(
    tmp_path: Path, kind: str, bits_per_byte: int, mended: int
) -> None:
    source = tmp_path / "source"
    right = await fill(source)
    data, rng = file_of(source, kind).read_bytes(), random.Random(7)
    bits = [8 * byte + bit for byte in range(len(data)) for bit in rng.sample(range(8), bits_per_byte)]
    spoilt = [*iter_flips(data, bits), *(data[:length] for length in range(len(data)))]

    for at, content in enumerate(spoilt):
        answered = await check_damage(source, kind, content, right, mends=at % mended == 0)
        assert answered == right.words or kind == "built.json"
