"""Votes with keys: what one principal says weighs within bounds, and everything is counted."""

from collections.abc import Mapping
from typing import Any

import httpx
import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from tests.keys import ROOT_KEY, issue_key_text

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
            self._keys[who] = await issue_key_text(self._hub, who, Role.READER if who == "reader" else Role.WRITER)
        headers = {"X-API-Key": self._keys[who]}
        answer = await self._api.request(method, path, json=body or None, headers=headers)
        assert answer.status_code == expected, answer.text
        reply: dict[str, Any] = answer.json()
        return reply

    async def vote(self, who: str, case: Mapping[str, Any]) -> str:
        return str((await self.ask(who, "PUT", f"{KNOWLEDGE}/{self.record}", **case))["operation_id"])

    async def undo(self, who: str, operation_id: str) -> str:
        return str((await self.ask(who, "POST", f"{OPERATIONS}/{operation_id}/undo"))["operation_id"])

    async def count_votes(self) -> tuple[int, int]:
        evaluation = (await self.ask("root", "GET", f"{KNOWLEDGE}/{self.record}"))["eval"]
        return evaluation["helpful"], evaluation["harmful"]

    async def read_weights(self) -> tuple[float, float]:
        found = (await self.ask("root", "GET", f"{KNOWLEDGE}/search?q=element&min_score=1"))["results"]
        record = next(item for item in found if item["id"] == self.record)
        counted = record["eval"]
        assert record["quality_score"] == 3 + counted["helpful"] - 2.0 * counted["harmful"]
        return counted["effective"]["helpful"], counted["effective"]["harmful"]


@pytest.fixture
async def voters(api: httpx.AsyncClient, hub: Hub) -> Voters:
    voters = Voters(api, hub)
    saved = await voters.ask("maker", "POST", KNOWLEDGE, 201, content="Wait for the element.", scopes=["public"])
    voters.record = saved["id"]
    return voters


async def test_repeated_votes_of_a_principal_weigh_less_but_are_all_counted(voters: Voters) -> None:
    for who, case in (("li", HELPFUL), ("li", HELPFUL), ("chen", HELPFUL), ("reader", HELPFUL), ("reader", HARMFUL)):
        await voters.vote(who, case)
    record = await voters.ask("li", "GET", f"{KNOWLEDGE}/{voters.record}")

    assert await voters.count_votes() == (5, 1)
    helpful, harmful = await voters.read_weights()
    assert (1 < helpful < 4, harmful) == (True, 1.0)
    assert [item["kind"] for item in record["eval"]["votes"]] == ["helpful"] * 4 + ["harmful"]
    assert (len(record["eval"]["helpful_history"]), len(record["eval"]["harmful_history"])) == (4, 1)
    assert not any("li" in str(item) or "chen" in str(item) for item in record["eval"]["votes"])


async def test_a_principal_counts_once_for_a_goal(voters: Voters) -> None:
    for _ in range(3):
        await voters.ask("li", "GET", f"{KNOWLEDGE}/search?q=element&session_id=s&goal_id=g")
        await voters.ask(
            "li", "POST", f"{KNOWLEDGE}/outcome", session_id="s", goal_id="g", outcome="success", used=["a"]
        )
    await voters.ask(
        "chen", "POST", f"{KNOWLEDGE}/outcome", session_id="s", goal_id="g", outcome="failure", wrong=["a"]
    )
    named = [voters.record]
    await voters.ask(
        "chen", "POST", f"{KNOWLEDGE}/outcome", session_id="s", goal_id="g", outcome="failure", wrong=named
    )

    assert await voters.count_votes() == (2, 1)
    assert await voters.read_weights() == (0.9, 1.0)


async def test_invented_goals_of_one_key_do_not_sink_what_helped_others(voters: Voters) -> None:
    for who in ("li", "chen", "zhao"):
        await voters.vote(who, HELPFUL)
    poor: dict[str, Any] = {"content": "Poll for the element.", "scopes": ["public"], "score": 1}
    other = await voters.ask("maker", "POST", KNOWLEDGE, 201, **poor)
    for number in range(12):
        goal: dict[str, Any] = {"session_id": f"invented {number}", "goal_id": str(number), "outcome": "failure"}
        await voters.ask("reader", "POST", f"{KNOWLEDGE}/outcome", **goal, not_helpful=[voters.record])

    helpful, harmful = await voters.read_weights()
    answer = await voters.ask("li", "GET", f"{KNOWLEDGE}/search?q=element&min_score=1&order=quality")

    assert (harmful <= 2 < helpful, await voters.count_votes()) == (True, (4, 12))
    assert [item["id"] for item in answer["results"]] == [voters.record, other["id"]]
    assert not any("warning" in item for item in answer["results"])


async def test_an_undone_vote_is_replaced_by_the_vote_before_it(voters: Voters) -> None:
    first = await voters.vote("li", HELPFUL)
    second = await voters.vote("li", HARMFUL)
    await voters.vote("chen", HELPFUL)

    await voters.undo("li", second)
    assert (await voters.count_votes(), await voters.read_weights()) == ((3, 0), (1.9, 0.0))
    await voters.undo("li", first)
    assert (await voters.count_votes(), await voters.read_weights()) == ((2, 0), (1.0, 0.0))


async def test_votes_of_others_do_not_block_an_undo_or_a_deletion(voters: Voters) -> None:
    made = (await voters.ask("maker", "GET", f"{OPERATIONS}?subject={voters.record}"))["results"][-1]
    await voters.vote("li", HELPFUL)

    await voters.undo("maker", made["operation_id"])

    await voters.ask("maker", "GET", f"{KNOWLEDGE}/{voters.record}", 404)


async def test_an_export_contains_the_votes(voters: Voters, api: httpx.AsyncClient) -> None:
    await voters.vote("li", HELPFUL)
    await voters.vote("li", HELPFUL)
    root = {"X-API-Key": ROOT_KEY}
    exported = (await api.get(f"{KNOWLEDGE}/export", headers=root)).content
    line = orjson.dumps(orjson.loads(exported) | {"id": "imported"}) + b"\n"

    headers = root | {"Content-Type": "application/x-ndjson"}
    answer = await api.post(f"{KNOWLEDGE}/import", content=line, headers=headers)
    assert answer.status_code == 200, answer.text

    votes = (await voters.ask("root", "GET", f"{KNOWLEDGE}/imported"))["eval"]["votes"]
    assert [item["kind"] for item in votes] == ["helpful"] * 2
    assert votes[0]["voter"] == votes[1]["voter"]


async def test_an_import_of_an_earlier_version_is_accepted_without_its_weights(api: httpx.AsyncClient) -> None:
    line = {"id": "old", "content": "x", "eval": {"helpful": 3, "effective": {"helpful": 2, "harmful": 0}}}

    headers = {"X-API-Key": ROOT_KEY, "Content-Type": "application/x-ndjson"}
    answer = await api.post(f"{KNOWLEDGE}/import", content=orjson.dumps(line) + b"\n", headers=headers)
    found = (await api.get(f"{KNOWLEDGE}/old", headers=headers)).json()

    assert answer.status_code == 200, answer.text
    assert ("effective" in found["eval"], found["eval"]["helpful"]) == (False, 3)
