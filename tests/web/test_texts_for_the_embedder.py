"""Texts that are hard for an embedder, with the packaged one: what is refused is named, the rest is found."""

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.settings import Settings
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

ODD = {
    "nearly 1 MiB": "a note about paying back a loan slowly " * 26_000,
    "one word": "x" * 900_000,
    "Chinese": "还贷款" * 100_000,
    "an emoji": "🦊",
    "nothing visible": "\u200b" * 1_000,
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding": "auto", "embedding_search_budget_s": 30.0})


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_text_is_saved_and_embedded_and_hides_no_other(
    api: httpx.AsyncClient, hub: Hub, save_record: SaveRecord, name: str
) -> None:
    debt = (await save_record("Pay back the loan with the highest interest rate first."))["id"]
    odd = (await save_record(ODD[name]))["id"]
    assert hub.indexes.records.vectors is not None
    await hub.indexes.records.vectors.embed_pending()

    answer = (await api.get("/api/knowledge/search", params={"q": "how do I get out of debt"})).json()

    assert debt in [record["id"] for record in answer["results"]]
    assert answer["degraded"] == []
    ready = (await api.get("/ready")).json()
    assert (ready["degraded"], hub.indexes.records.vectors.lag) == ([], 0)
    assert (await api.get(f"/api/knowledge/{odd}")).json()["content"] == ODD[name]


@pytest.mark.parametrize("query", ["🦊", "\u200b", "x" * 4_000, "还贷款" * 1_000])
async def test_an_odd_question_is_answered(api: httpx.AsyncClient, save_record: SaveRecord, query: str) -> None:
    await save_record("Pay back the loan with the highest interest rate first.")

    for path in ("/api/knowledge/search", "/api/context/search", "/api/recall"):
        answer = await api.get(path, params={"q": query})
        assert (path, answer.status_code, answer.json()["degraded"]) == (path, 200, [])
