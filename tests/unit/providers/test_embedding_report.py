"""The embedder in `/ready` and `knowhub doctor`: its source, the scripts it reads, and its problems."""

import math
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.errors import InvalidInput
from knowhub.core.language_models import Vector
from knowhub.search.scripts import PROBES, ScriptSkills
from knowhub.settings import Settings
from knowhub.wiring.models import EmbedderChoice, EmbeddingReport, check_embedder
from tests.builders import new_knowledge
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import embed_pending, open_search_hub, save_record
from tests.unit.search.test_vector_index import search

pytestmark = pytest.mark.anyio


class _Constant(HashingEmbedder):
    """Gives every text the same vector."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        del timeout_s, query
        return [array("f", [1.0, 0.0]) for _ in texts]


class _NearlyEqual(HashingEmbedder):
    """Answers lie closest to their questions, but the vectors of two subjects are nearly the same."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        del timeout_s, query
        subjects = {text: at for at, pair in enumerate(PROBES["latin"]) for text in pair}
        vectors = [array("f", bytes(64)) for _ in texts]
        for text, vector in zip(texts, vectors, strict=True):
            subject = subjects[text]
            angle = 0.05 * (subject % 2)
            vector[subject - subject % 2], vector[subject - subject % 2 + 1] = math.cos(angle), math.sin(angle)
        return vectors


def make_report(embedder: HashingEmbedder, read: Sequence[str] = (), **settings: str) -> EmbeddingReport:
    skills = ScriptSkills(embedder, read or None)
    return EmbeddingReport(EmbedderChoice("server", embedder), skills, Settings.model_validate(settings))


async def test_the_packaged_model_reads_english_only() -> None:
    described = await check_embedder(Settings(embedding="auto"))

    assert (described["source"], described["problems"], described["not_measured"]) == ("packaged", [], [])
    assert described["model"].startswith("all-MiniLM-L6-v2-int8-")
    assert (described["decided_by"], described["reads"]) == ("measurement", ["latin"])
    assert "not 90%" in described["left_to_words"]["han"]
    assert "too many texts have the same vector" in described["left_to_words"]["kana"]


async def test_a_missing_embedder_is_reported() -> None:
    described = await check_embedder(Settings(embedding="off"))

    assert (described["source"], described["model"], described["reads"]) == ("none", None, [])


async def test_an_embedder_that_reads_nothing_is_a_problem() -> None:
    subject = make_report(_Constant())
    assert subject.skills is not None

    before = subject.describe()
    await subject.skills.measure(["latin"])
    after = subject.describe()

    assert (before["problems"], before["reads"], after["reads"]) == ([], [], [])
    assert "reads none of the scripts tried (latin)" in after["problems"][0]
    assert list(after["left_to_words"]) == ["latin"]


async def test_a_script_whose_texts_get_nearly_equal_vectors_is_not_read() -> None:
    subject = make_report(_NearlyEqual())
    assert subject.skills is not None

    await subject.skills.measure(["latin"])
    described, skill = subject.describe(), subject.skills.measured["latin"]

    assert (skill.closer, skill.equal, described["reads"]) == (1.0, 1.0, [])
    assert "the same vector as a text that says something else: 100%" in described["left_to_words"]["latin"]


async def test_settings_of_no_use_are_a_problem_of_the_embedder() -> None:
    described = await check_embedder(Settings(embedding="directory"))

    assert "KNOWHUB_EMBEDDING=directory needs" in described["problems"][0]


async def test_the_last_failure_is_a_problem_until_a_call_succeeds(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        report = hub.indexes.embedding
        before, embedder.is_down = report.find_problems(), True
        found = await search(hub, "zebra stripes")
        down, embedder.is_down = report.find_problems(), False
        await search(hub, "zebra stripes")
        after = report.find_problems()

    assert (before, found.degraded, after) == ([], ["embedder"], [])
    assert list(down) == ["the last call of the embedder failed: down"]


async def test_a_server_that_is_down_at_start_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    embedder.is_down = True
    async with open_search_hub(tmp_path, embedder) as hub:
        await hub.indexes.embedding.measure()

        assert list(hub.indexes.embedding.find_problems()) == ["the last call of the embedder failed: down"]


@pytest.mark.parametrize("leader", [HashingEmbedder(model="another"), None])
async def test_an_embedder_other_than_the_leaders_is_named_and_not_used(
    tmp_path: Path, leader: HashingEmbedder | None
) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as other:
        async with open_search_hub(tmp_path, leader) as hub:
            await save_record(hub, new_knowledge("zebra"))
            for member in (hub, other):
                await member.maintenance.tick()
            followed, problems = await search(other, "zebra"), other.indexes.embedding.find_problems()
            at_leader = (await search(hub, "zebra")).degraded, hub.indexes.embedding.find_problems()
        await other.maintenance.tick()
        alone = (await search(other, "zebra")).degraded, other.indexes.embedding.find_problems()

    assert (len(followed.records), followed.degraded) == (1, ["embedder"])
    assert f"by another process, with {'another' if leader else 'no embedder'}" in problems[0]
    assert at_leader == alone == ([], [])


async def test_the_leaders_embedder_in_a_second_process_is_no_problem(tmp_path: Path) -> None:
    async with (
        open_search_hub(tmp_path, HashingEmbedder()) as hub,
        open_search_hub(tmp_path, HashingEmbedder()) as other,
    ):
        for member in (hub, other):
            await member.maintenance.tick()

        assert other.indexes.embedding.find_problems() == []


async def test_a_setting_overrules_the_measurement() -> None:
    subject = make_report(_Constant(), read=["latin"])
    assert subject.skills is not None

    at_start = subject.describe()
    await subject.skills.measure(["latin", "han"])
    described = subject.describe()

    assert described == at_start
    assert (described["reads"], described["problems"], described["not_measured"]) == (["latin"], [], [])
    assert described["decided_by"] == "KNOWHUB_EMBEDDING_SCRIPTS"
    assert described["left_to_words"]["han"] == "KNOWHUB_EMBEDDING_SCRIPTS leaves it out"


async def test_an_unknown_script_is_refused_at_start(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, embedding="auto", embedding_scripts=("latin", "chinese"))

    with pytest.raises(InvalidInput, match="chinese: no known script"):
        async with open_hub(settings, maintain=False):
            pass


@pytest.mark.parametrize(
    ("model", "settings", "named"),
    [
        ("intfloat/multilingual-e5-large", {}, ["QUERY_PREFIX to 'query: '", "TEXT_PREFIX to 'passage: '"]),
        ("nomic-embed-text", {"embedding_query_prefix": "search_query: "}, ["TEXT_PREFIX to 'search_document: '"]),
        ("multilingual-e5-large-instruct", {}, []),
        ("bge-m3", {}, []),
        ("Snowflake/snowflake-arctic-embed-m", {}, ["QUERY_PREFIX to 'Represent this sentence for searching"]),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", {}, ["QUERY_PREFIX to 'Represent this sentence for searching"]),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", {}, ["QUERY_PREFIX to 'query: '"]),
        ("snowflake-arctic-embed2", {}, ["QUERY_PREFIX to 'query: '"]),
        ("embeddinggemma", {"embedding_text_prefix": "x"}, ["QUERY_PREFIX to 'task: search result | query: '"]),
        ("nomic-embed-code", {}, []),
    ],
)
async def test_a_missing_prefix_is_reported(model: str, settings: dict[str, str], named: list[str]) -> None:
    problems = make_report(HashingEmbedder(model=model), **settings).find_problems()

    assert len(problems) == bool(named)
    assert all(part in problems[0] for part in named)
