"""The embedder in `/ready` and `knowhub doctor`: its source, the scripts it reads, and its problems."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.errors import InvalidInput
from knowhub.core.language_models import Vector
from knowhub.search.scripts import ScriptSkills
from knowhub.settings import Settings
from knowhub.wiring.models import EmbedderChoice, EmbeddingReport, check_embedder
from tests.fakes.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio


class _Constant(HashingEmbedder):
    """Gives every text the same vector."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        del timeout_s, query
        return [array("f", [1.0, 0.0]) for _ in texts]


def make_report(embedder: HashingEmbedder, read: Sequence[str] = (), **settings: str) -> EmbeddingReport:
    skills = ScriptSkills(embedder, read or None)
    return EmbeddingReport(EmbedderChoice("server", embedder), skills, Settings.model_validate(settings))


async def test_the_packaged_model_reads_english_only() -> None:
    described = await check_embedder(Settings(embedding="auto"))

    assert (described["source"], described["problems"], described["not_measured"]) == ("packaged", [], [])
    assert described["model"].startswith("all-MiniLM-L6-v2-int8-")
    assert "latin" in described["reads"]
    assert (described["decided_by"], "not 90%" in described["left_to_words"]["han"]) == ("measurement", True)


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
    ],
)
async def test_a_missing_prefix_is_reported(model: str, settings: dict[str, str], named: list[str]) -> None:
    problems = make_report(HashingEmbedder(model=model), **settings).find_problems()

    assert len(problems) == bool(named)
    assert all(part in problems[0] for part in named)
