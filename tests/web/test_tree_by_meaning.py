"""Keywords and infos are found by words that they do not have, with the packaged embedder."""

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.settings import Settings
from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio

INFOS = {
    "how do I get out of debt": "Pay back the loan with the highest interest rate first.",
    "when should my kitten eat": "Feed the cat twice a day with dry food.",
    "the wifi stopped working": "Restart the router when the internet connection drops.",
    "no space left on the build machine": "The CI runner fails once its disk is full; delete old images.",
    "a cheap place to sleep": "The hostel near the station costs 20 euros a night.",
    "my knee hurts after jogging": "Runners with joint pain should rest and change their shoes.",
}
KEYWORDS = {
    "run docker images on a cluster": ("Kubernetes", "orchestrates containers across many machines"),
    "how do leaves make their food": ("Photosynthesis", "plants turn sunlight into energy"),
    "stop hackers from guessing passwords": ("Rate limiting", "slows down repeated login attempts"),
    "money for old age": ("Pension", "income after the end of working life"),
    "the ship is sinking": ("Emergencies at sea", "what to do when a vessel takes on water"),
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding": "auto", "embedding_search_budget_s": 30.0})


@pytest.fixture
async def tree(api: httpx.AsyncClient, hub: Hub) -> None:
    """Save the keywords and the infos, each info on a keyword with a meaningless name."""
    for name, description in KEYWORDS.values():
        await create_keyword(api, name, description=description)
    top = await create_keyword(api, "Notes")
    for content in INFOS.values():
        await create_info(api, content, top["id"])
    assert hub.indexes.tree.vectors is not None
    await hub.indexes.tree.vectors.embed_pending()


@pytest.mark.usefixtures("tree")
async def test_recall_finds_infos_in_other_words(api: httpx.AsyncClient) -> None:
    for question, content in INFOS.items():
        found = (await api.get("/api/recall", params={"q": question, "sources": "keywords"})).json()

        assert ("info", content) in [(item["kind"], item["text"]) for item in found["results"][:3]], question
        assert found["degraded"] == []


@pytest.mark.usefixtures("tree")
async def test_a_missed_name_has_candidates_by_meaning(api: httpx.AsyncClient) -> None:
    for question, (name, _) in KEYWORDS.items():
        params = {"q": question, "llm_expand_query": "false"}
        found = (await api.get("/api/keywords/search", params=params)).json()

        assert found["status"] == "not_found"
        assert name in [row["name"] for row in found["candidates"][:3]], question


@pytest.mark.usefixtures("tree")
async def test_recall_finds_keywords_in_other_words(api: httpx.AsyncClient) -> None:
    for question, (name, _) in KEYWORDS.items():
        found = (await api.get("/api/recall", params={"q": question, "sources": "keywords"})).json()

        assert name in [row["title"] for row in found["results"][:3]], question
