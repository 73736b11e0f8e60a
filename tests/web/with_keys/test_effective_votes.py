"""Votes with keys: one principal's on a record weigh once in its quality, the last; without keys every one does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.request_context import Role
from knowhub.settings import Settings
from knowhub.web.app import create_app
from tests.keys import ROOT_KEY, key_for
from tests.web.conftest import client_of

pytestmark = pytest.mark.anyio

KNOWLEDGE, OPERATIONS = "/api/knowledge", "/api/operations"
HELPFUL, HARMFUL = {"add_helpful_case": {"outcome": "ok"}}, {"add_harmful_case": {"reason": "stale"}}


class Voters:
    """Users who vote on one record that everybody sees."""

    def __init__(self, api: httpx.AsyncClient, hub: Hub) -> None:
        self._api = api
        self._hub = hub
        self._keys: dict[str, str] = {"root": ROOT_KEY}
        self.record = ""

    async def ask(
        self,
        who: str,
        method: str,
        path: str,
        expected: int = 200,
        **body: Any,  # noqa: ANN401 -- any JSON value
    ) -> dict[str, Any]:
        if who not in self._keys:
            self._keys[who] = await key_for(self._hub, who, Role.READER if who == "reader" else Role.WRITER)
        headers = {"X-API-Key": self._keys[who]}
        answer = await self._api.request(method, path, json=body or None, headers=headers)
        assert answer.status_code == expected, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def vote(self, who: str, case: Mapping[str, Any]) -> str:
        return str((await self.ask(who, "PUT", f"{KNOWLEDGE}/{self.record}", **case))["operation_id"])

    async def undo(self, who: str, operation_id: str) -> str:
        return str((await self.ask(who, "POST", f"{OPERATIONS}/{operation_id}/undo"))["operation_id"])

    async def counted(self) -> tuple[int, int]:
        evaluation = (await self.ask("root", "GET", f"{KNOWLEDGE}/{self.record}"))["eval"]
        return evaluation["helpful"], evaluation["harmful"]

    async def weighs(self) -> tuple[int, int]:
        found = (await self.ask("root", "GET", f"{KNOWLEDGE}/search?q=element&min_score=1"))["results"]
        weight = next(one["eval"]["effective"] for one in found if one["id"] == self.record)
        quality = next(one["quality_score"] for one in found if one["id"] == self.record)
        assert quality == 3 + weight["helpful"] - 2.0 * weight["harmful"]
        return weight["helpful"], weight["harmful"]


@pytest.fixture
async def voters(api: httpx.AsyncClient, hub: Hub) -> Voters:
    voters = Voters(api, hub)
    saved = await voters.ask("maker", "POST", KNOWLEDGE, 201, content="Wait for the element.", scopes=["public"])
    voters.record = saved["id"]
    return voters


async def test_the_last_vote_of_a_principal_weighs_and_all_are_counted(voters: Voters) -> None:
    for who, case in (("li", HELPFUL), ("li", HELPFUL), ("chen", HELPFUL), ("reader", HELPFUL), ("reader", HARMFUL)):
        await voters.vote(who, case)
    record = await voters.ask("li", "GET", f"{KNOWLEDGE}/{voters.record}")

    assert await voters.counted() == (5, 1)
    assert await voters.weighs() == (3, 1)
    assert record["eval"]["effective"] == {"helpful": 3, "harmful": 1}
    assert (len(record["eval"]["helpful_history"]), len(record["eval"]["harmful_history"])) == (4, 1)


async def test_one_principal_does_not_push_a_record_out_of_search_for_the_others(voters: Voters) -> None:
    for _ in range(20):
        await voters.vote("li", HARMFUL)

    assert await voters.counted() == (1, 20)
    assert await voters.weighs() == (1, 1)


async def test_votes_of_a_batch_and_of_an_outcome_weigh_as_any(voters: Voters) -> None:
    line = {"knowledge_id": voters.record, "is_helpful": True}
    await voters.ask("li", "POST", f"{KNOWLEDGE}/batch_update", feedback_list=[line, line, line])
    await voters.ask("li", "GET", f"{KNOWLEDGE}/search?q=element&session_id=s&goal_id=g")
    await voters.ask("li", "POST", f"{KNOWLEDGE}/outcome", session_id="s", goal_id="g", is_helpful=False)

    assert await voters.counted() == (4, 1)
    assert await voters.weighs() == (1, 1)


async def test_taking_a_vote_back_leaves_what_the_others_weigh(voters: Voters) -> None:
    first = await voters.vote("li", HELPFUL)
    second = await voters.vote("li", HARMFUL)
    await voters.vote("chen", HELPFUL)

    # The first one did not weigh any more; the second did, and before it there is none left.
    await voters.undo("li", first)
    assert (await voters.counted(), await voters.weighs()) == ((2, 1), (2, 1))
    undo = await voters.undo("li", second)
    assert (await voters.counted(), await voters.weighs()) == ((2, 0), (2, 0))
    await voters.undo("li", undo)
    assert (await voters.counted(), await voters.weighs()) == ((2, 1), (2, 1))
    await voters.vote("li", HELPFUL)
    assert (await voters.counted(), await voters.weighs()) == ((3, 1), (3, 0))


async def test_taking_the_last_vote_back_makes_the_one_before_it_weigh(voters: Voters) -> None:
    await voters.vote("li", HELPFUL)
    last = await voters.vote("li", HARMFUL)

    await voters.undo("li", last)

    assert (await voters.counted(), await voters.weighs()) == ((2, 0), (2, 0))


async def test_the_votes_of_others_keep_no_record_from_being_undone_or_deleted(voters: Voters) -> None:
    made = (await voters.ask("maker", "GET", f"{OPERATIONS}?subject={voters.record}"))["results"][-1]
    await voters.vote("li", HELPFUL)

    await voters.undo("maker", made["operation_id"])

    await voters.ask("maker", "GET", f"{KNOWLEDGE}/{voters.record}", 404)


async def test_an_export_brings_along_what_votes_weigh(voters: Voters, api: httpx.AsyncClient) -> None:
    await voters.vote("li", HELPFUL)
    await voters.vote("li", HELPFUL)
    root = {"X-API-Key": ROOT_KEY}
    exported = (await api.get(f"{KNOWLEDGE}/export", headers=root)).content
    line = orjson.dumps(orjson.loads(exported) | {"id": "imported"}) + b"\n"

    headers = root | {"Content-Type": "application/x-ndjson"}
    assert (await api.post(f"{KNOWLEDGE}/import", content=line, headers=headers)).status_code == 200

    assert (await voters.ask("root", "GET", f"{KNOWLEDGE}/imported"))["eval"]["effective"] == {
        "helpful": 2,
        "harmful": 0,
    }


async def test_without_keys_every_vote_weighs(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "open", owner="user:local")
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        row = (await api.post(KNOWLEDGE, json={"content": "x"})).json()
        for _ in range(3):
            voted = (await api.put(f"{KNOWLEDGE}/{row['id']}", json={**HELPFUL, "user_id": "local"})).json()

    assert voted["eval"]["helpful"] == 4
    assert "effective" not in voted["eval"]
