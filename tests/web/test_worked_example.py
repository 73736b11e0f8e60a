"""The worked example of docs/explanation/finding.md: the figures of its table are what a search answers."""

import asyncio
import re

import httpx
import pytest

from tests.e2e.server_process import ROOT
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

QUESTION = "reset the guest router password"
ROW = re.compile(r"^\| ([ABC]): [^|]*\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\d) \|$", re.MULTILINE)


async def test_the_page_shows_what_a_search_computes(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    page = (ROOT / "docs/explanation/finding.md").read_text("utf-8")
    shown = {name: tuple(map(float, figures)) for name, *figures in ROW.findall(page)}

    async def reach_goal(number: int, used: str) -> None:
        goal = {"session_id": f"run-{number}", "goal_id": "router"}
        await api.get("/api/knowledge/search", params={"q": QUESTION, **goal})
        body = {**goal, "outcome": "success", "used": [used]}
        assert (await api.post("/api/knowledge/outcome", json=body)).status_code == 200

    first = (await save_record("Hold the button for ten seconds.", task="Reset the router password"))["id"]
    other = (await save_record("Use the printer at the door.", task="Print the guest list"))["id"]
    for number in range(6):
        await reach_goal(number, first)
    # A record counts as newer from half a second on.
    await asyncio.sleep(0.6)
    newer = (
        await save_record("Open the app, then its settings.", task="Reset the guest router password in the new app")
    )["id"]

    # Until the index has all of them, the rarity of words is that of some.
    assert (await api.post("/api/maintenance/reindex")).status_code == 200
    answer = (await api.get("/api/knowledge/search", params={"q": QUESTION, "explain": True})).json()["results"]
    names = {first: "A", newer: "B", other: "C"}
    ranked = {}
    for place, record in enumerate(answer, 1):
        factors = record["why"]["ranking"]
        figures = (round(factors[name], 2) for name in ("relevance", "evidence", "newer", "worth"))
        ranked[names[record["id"]]] = (*figures, float(place))
    assert ranked == shown
