"""Recall by words and by meaning together: the sum, the filters, and an embedder that is late or cannot read."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowhub.context.model import NODES, PARTS, MemoryCategory
from knowhub.context.queries import summarize_row
from knowhub.core.language_models import Vector
from knowhub.core.recall import SearchHit
from knowhub.knowledge.model import KnowledgeSummary, Order, SearchQuery
from knowhub.knowledge.table import make_filters, summarize
from knowhub.search.hybrid import combine_results
from knowhub.search.scripts import ScriptSkill, ScriptSkills, get_script_shares
from knowhub.search.texts import ContextTexts
from tests.builders import caller, knowledge_row, local, new_knowledge
from tests.context_rows import memory_at, node_row, part_row, session_at
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import embed_pending, open_search_hub, save_record

pytestmark = pytest.mark.anyio
WELL = ScriptSkill(1.0, 0.0)


class LatinOnly(HashingEmbedder):
    """An embedder to which every text of another script is one and the same."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        ascii_only = ["".join(letter if letter.isascii() else "x" for letter in text) for text in texts]
        return await super().embed(ascii_only, timeout_s, query=query)


def make_summaries(count: int) -> list[KnowledgeSummary]:
    return [summarize(knowledge_row(f"knowledge-{number}"), number, number) for number in range(count)]


def fuse(
    words: Mapping[int, float], near: Mapping[int, float], reading: ScriptSkill = WELL, weight: float = 0.5
) -> list[tuple[int, float]]:
    """Fuse the hits of ten numbered records; each record of `near` was compared by vector."""
    every = make_summaries(10)
    ranked = sorted(near.items(), key=lambda item: -item[1])
    hits = [SearchHit(every[number], score) for number, score in sorted(words.items(), key=lambda item: -item[1])]
    found = combine_results(
        hits, [(value, every[number]) for number, value in ranked], near, reading, lambda _summary: weight, len(every)
    )
    return [(hit.summary.text_change, round(hit.score, 4)) for hit in found]


def test_both_scores_are_scaled_to_their_best() -> None:
    assert fuse({1: 20.0, 2: 10.0}, {1: 0.2, 2: 0.8, 3: 0.4}) == [(2, 0.75), (1, 0.625), (3, 0.25)]


def test_memories_weigh_vectors_more_than_messages() -> None:
    memory = node_row(memory_at(MemoryCategory.ENTITIES, "boat"))
    said = part_row(session_at(), 0, "the boat")
    summaries = [summarize_row(NODES, memory, 0, 1), summarize_row(PARTS, said, 0, 2)]

    assert [round(ContextTexts().get_vector_weight(summary, 0.5), 3) for summary in summaries] == [0.9, 0.5]
    assert [ContextTexts().get_vector_weight(summary, 0.0) for summary in summaries] == [0.0, 0.0]
    assert [ContextTexts().get_vector_weight(summary, 1.0) for summary in summaries] == [1.0, 1.0]


def test_similarity_at_the_noise_level_counts_nothing() -> None:
    found = fuse({1: 9.0}, {1: 0.7, 2: 0.9, 3: 0.7, 4: 0.1}, ScriptSkill(1.0, 0.7))

    assert found == [(2, 0.5), (1, 0.5)]


def test_vector_only_hits_reach_half_of_the_best_similarity() -> None:
    assert fuse({1: 9.0, 4: 1.0}, {1: 0.8, 2: 0.39, 3: 0.41, 4: 0.1}) == [(1, 1.0), (3, 0.2562), (4, 0.1181)]


def test_vector_only_hits_stand_out_from_noise() -> None:
    reading = ScriptSkill(1.0, 0.1, spread=0.15)

    assert fuse({}, {1: 0.24, 2: 0.2}, reading) == []
    assert fuse({5: 9.0}, {1: 0.26, 2: 0.24}, reading) == [(5, 1.0), (1, 0.5)]


def test_a_record_without_a_vector_is_ranked_by_its_words() -> None:
    assert fuse({1: 10.0, 2: 5.0}, {2: 0.5, 3: 0.5}) == [(1, 1.0), (2, 0.75), (3, 0.5)]


def test_the_share_of_each_script_is_by_letters() -> None:
    assert get_script_shares("hello, 12 worlds") == {"latin": 1.0}
    assert get_script_shares("反爬ab，12") == {"latin": 0.5, "han": 0.5}
    assert get_script_shares("ひらがな漢字") == {"kana": pytest.approx(4 / 6), "han": pytest.approx(2 / 6)}
    assert get_script_shares("საქართველო") == {"other": 1.0}
    assert get_script_shares("2026 — 11") == {}


async def test_the_scripts_of_an_embedder_are_measured() -> None:
    reads_both, reads_latin = ScriptSkills(HashingEmbedder()), ScriptSkills(LatinOnly())

    assert (await reads_both.get_skill("how to log in")).skill > 0.5
    assert (await reads_both.get_skill("怎么登录")).skill > 0.5
    assert (await reads_latin.get_skill("how to log in")).skill > 0.5
    assert (await reads_latin.get_skill("怎么登录")).skill == 0.0
    assert (await reads_latin.get_skill("Selenium 怎么登录")).skill == 0.0
    assert (await reads_latin.get_skill("საქართველო")).skill == 0.0
    assert await reads_latin.can_read("Selenium waits 反爬")
    assert not await reads_latin.can_read("反爬检测 web")


async def test_an_unreadable_script_is_ranked_by_words(tmp_path: Path) -> None:
    chance, words = random.Random(5), ["登录", "导出", "订单", "支付", "回调", "限流", "缓存", "分页", "签名", "证书"]
    texts = ["".join(chance.choices(words, k=chance.randint(3, 20))) for _ in range(60)]
    texts += [f"selenium {number} {chance.choice(words)}" for number in range(10)]
    queries = ["登录怎么导出", "支付回调的签名 API", "selenium 缓存"]
    answers: list[list[list[str]]] = []
    for number, embedder in enumerate((None, LatinOnly())):
        async with open_search_hub(tmp_path / str(number), embedder) as hub:
            for text in texts:
                await save_record(hub, new_knowledge(text, task="", dedup=False))
            await embed_pending(hub)
            found = [
                (
                    await hub.knowledge.search.search(
                        local(), SearchQuery(query, top_k=70, order=Order.RELEVANCE, min_relevance=0.0)
                    )
                ).records
                for query in queries
            ]
            answers.append([[str(record["content"]) for record in records] for records in found])

    assert answers[0] == answers[1]
    assert all(len(contents) >= 10 for contents in answers[0])


async def test_a_repeated_query_is_not_embedded_again(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        for _ in range(3):
            await hub.knowledge.search.search(local(), SearchQuery("zebra in the zoo"))

    assert embedder.queries.count("zebra in the zoo") == 1


async def test_a_query_without_words_is_not_embedded(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("zebra"))
        found = await hub.knowledge.search.search(local(), SearchQuery("?!"))

    assert (found.records, embedder.queries) == ([], [])


async def test_hybrid_search_finds_exactly_the_visible_records(tmp_path: Path) -> None:
    chance, words = random.Random(11), ["login", "cookie", "proxy", "retry", "timeout", "browser", "python", "async"]
    scopes = ["public", "user:ann", "team:web", "project:x"]
    callers = [local(), caller(user_id="ann"), caller(user_id="nobody"), caller(team_id="web", project_id="x")]
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        scope_of: dict[str, str] = {}
        texts: dict[str, str] = {}
        for number in range(120):
            scope = "project:x" if number % 40 == 0 else chance.choice(scopes[:3])
            text = " ".join(chance.choices(words, k=6))
            record_id = await save_record(hub, new_knowledge(text, scopes=[scope], dedup=False))
            scope_of[record_id], texts[record_id] = scope, text
        await embed_pending(hub)

        for ctx in callers:
            query = SearchQuery("login proxy", top_k=100, order=Order.RELEVANCE, explain=True, min_relevance=0.0)
            for asked in (query, replace(query, filters=make_filters({"scopes": ["project:x"]}))):
                found = (await hub.knowledge.search.search(ctx, asked)).records
                visible = {
                    item
                    for item, scope in scope_of.items()
                    if (ctx.visible is None or scope in ctx.visible) and (not asked.filters or scope == "project:x")
                }
                ids = [str(record["id"]) for record in found]
                assert set(ids) <= visible
                by_vector = sorted(
                    (stage["rank"], stage["score"])
                    for record in found
                    for stage in record["why"]["stages"]
                    if stage["stage"] == "vector"
                )
                assert [rank for rank, _ in by_vector] == sorted({rank for rank, _ in by_vector})
                assert list(np.diff([score for _, score in by_vector]) <= 0) == [True] * max(0, len(by_vector) - 1)
                assert len(ids) >= min(100, sum("login" in texts[item] or "proxy" in texts[item] for item in visible))
