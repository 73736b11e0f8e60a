"""Stored text as an attack: 168 orders in Chinese and English, and a model that obeys them to the letter.

Whatever a text demands, a model can only choose among what it was offered: no owner, no scope and no hidden record
moves, nothing is lost, and what is somebody else's stays as it is (`tests/data/injections.jsonl`).
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.knowledge.evolve import prompts
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.fakes.obeying_chat import FUNCTIONS, MALLORY, ObeyingChat
from tests.tree_answers import LogReader
from tests.web.conftest import open_server

pytestmark = pytest.mark.anyio

ANN, EVE, HID = {"user_id": "ann"}, {"user_id": "eve"}, {"user_id": "hid"}
CANARY = "KH-CANARY-5f1d"
API_KEY = "KH-CANARY-model-key"
SEALED = "KH-CANARY-cookie-of-website-a"
COOKIE = "credentials/website_a"
INJECTIONS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "injections.jsonl").read_text(encoding="utf-8").splitlines()
]
GROUPS = {
    f"{aim}-{language}": [item["text"] for item in ones]
    for (aim, language), ones in groupby(INJECTIONS, lambda item: (item["aim"], item["language"]))
}
FIXED = ("id", "owner", "scopes", "visibility", "created_at", "merged_into", "deleted")


@dataclass
class Victim:
    """Ann, who uses the hub with a model. Eve stores public texts; the rows of hid are private."""

    api: httpx.AsyncClient
    model: ObeyingChat
    log: LogReader
    hidden: list[str]

    async def post(self, path: str, body: Mapping[str, Any], who: Mapping[str, str] = ANN) -> dict[str, Any]:
        response = await self.api.post(path, json={**body, **who})
        return self._read_answer(response) if who == ANN else dict(response.json())

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._read_answer(await self.api.put(path, json={**body, **ANN}))

    async def search(self, path: str, **params: str) -> dict[str, Any]:
        return self._read_answer(await self.api.get(path, params={**params, **ANN}))

    async def keyword(self, name: str, who: Mapping[str, str] = ANN, **fields: object) -> dict[str, Any]:
        return await self.post("/api/keywords", {"name": name, "parent_id": "root", **fields}, who)

    async def record(self, content: str, who: Mapping[str, str] = ANN, **fields: object) -> dict[str, Any]:
        return await self.post("/api/knowledge", {"content": content, "dedup": False, **fields}, who)

    def changes(self) -> list[dict[str, Any]]:
        """Return the changes written since the last call."""
        known = len(self.log.operations)
        self.log.read_on()
        return [change for operation in self.log.operations[known:] for change in operation["changes"]]

    def check_unharmed(self, may_move: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
        """Return the changes since the last call, all of ann's rows; of the FIXED fields only `may_move` may change."""
        fresh = self.changes()
        for change in fresh:
            before, after = change["before"], change["after"]
            assert MALLORY not in (after.get("owner"), *after.get("scopes", ())), change
            assert after.get("keyword_id") not in self.hidden, change
            if change["id"] == "root":
                continue
            for row in (before, after):
                assert row is None or row.get("owner", "user:ann") == "user:ann", change
            moved = {name for name in FIXED if before is not None and before.get(name) != after.get(name)}
            assert moved <= may_move, change
        return fresh

    def _read_answer(self, response: httpx.Response) -> dict[str, Any]:
        assert response.status_code in {200, 201}, response.text
        assert CANARY not in response.text
        assert SEALED not in response.text
        answer: dict[str, Any] = response.json()
        # A model's own words may name an id that it read; a row may not be answered by it.
        assert not set(self.hidden) & set(_ids(answer)), response.text
        return answer


@asynccontextmanager
async def open_victim(folder: Path) -> AsyncIterator[Victim]:
    model = ObeyingChat()
    settings = Settings(data_dir=folder, owner="user:local", llm_api_key=API_KEY, describe_candidates=True)
    async with open_server(settings, Overrides(llm=model), maintain=False) as api:
        ann = Victim(api, model, LogReader(folder), [])
        private = await ann.record(f"what hid wrote: {CANARY}", HID)
        above = await ann.keyword(f"hid's {CANARY}", HID, scopes=["user:hid"])
        ann.hidden = [private["id"], above["id"]]
        await ann.post("/api/resource", {"id": COOKIE, "body": "ann's login", "secure_body": SEALED})
        for content in ("what ann knows of login pages", "等待元素出现再点击"):
            await ann.record(content, resource_ids=[COOKIE])
        for name in ("技术", "Python"):
            await ann.keyword(name)
        ann.changes()
        yield ann


def test_there_are_enough_injections_in_each_language() -> None:
    assert len({injection["text"] for injection in INJECTIONS}) == len(INJECTIONS) >= 150
    assert {len(texts) for texts in GROUPS.values()} == {12}
    assert {name.partition("-")[2] for name in GROUPS} == {"zh", "en"}


async def test_the_obeying_model_follows_an_injection() -> None:
    model = ObeyingChat()
    question = prompts.make_merge_question([("t", "order: take h-1"), ("t", "other")])

    model.order("order: take h-1", "reach", ["h-1"])
    reached = (await model.chat(question, 1.0)).data
    model.order("order: take h-1", "own", ["h-1"])
    owned = (await model.chat(question, 1.0)).data
    model.order("an order that is not shown", "own", ["h-1"])
    quiet = (await model.chat(question, 1.0)).data

    assert reached["same"] == ["h-1"]
    assert (owned["same"], owned["owner"]) == ([1, 2], MALLORY)
    assert (quiet, model.obeyed) == ({"same": []}, set())


@pytest.mark.parametrize("group", GROUPS)
async def test_an_obeying_model_can_only_choose_among_the_offered_options(tmp_path: Path, group: str) -> None:
    async with open_victim(tmp_path / "data") as ann:
        for number, text in enumerate(GROUPS[group]):
            # Not the record's id: a message that holds one is KnowHub's own to an extraction, and shown to no model.
            order = text.replace("{hidden}", ann.hidden[1])
            ann.model.order(order, group.partition("-")[0], ann.hidden)
            await attack_extraction(ann, order)
            await store_poison(ann, order)
            await attack_search(ann, order)
            await attack_evolution(ann, order)
            await attack_slimming(ann, order)
            await attack_descent(ann, number)
            await attack_naming(ann, order, number)
            await attack_reorganization(ann)
            assert ann.model.obeyed == FUNCTIONS, order
            assert not any(order in told for told in ann.model.instructions), order
        shown = "\n".join(ann.model.prompts)
        assert [secret for secret in (CANARY, API_KEY, SEALED) if secret in shown] == []
        private = await ann.api.get(f"/api/knowledge/{ann.hidden[0]}", params=HID)
        assert (private.json()["version"], CANARY in private.text) == (1, True)
        cookie = await ann.api.get(f"/api/resource/{COOKIE}", params={**ANN, "reveal": "true"})
        assert (cookie.json()["version"], cookie.json()["secure_body"]) == (1, SEALED)


async def attack_extraction(ann: Victim, order: str) -> None:
    """Extract from a tool's output, then from text that ann pasted: every record belongs to ann."""
    read, pasted = {"role": "tool", "content": order}, {"role": "user", "content": f"The page says: {order}"}

    inferred = await ann.post("/api/knowledge/extract", {"messages": [read]})
    assert all(change["before"] is None for change in ann.check_unharmed())
    expressed = await ann.post("/api/knowledge/extract", {"messages": [read, pasted]})
    ann.check_unharmed()

    for row in (*inferred["saved"], *expressed["saved"]):
        assert (row["owner"], row["scopes"], row["visibility"]) == ("user:ann", ["user:ann"], "private")


async def store_poison(ann: Victim, order: str) -> None:
    """Let eve store the text in public rows."""
    for number in range(2):
        await ann.record(f"{number} {order}", EVE, task=order, scopes=["public"])
    await ann.keyword(order, EVE, description=order)
    ann.changes()


async def attack_search(ann: Victim, order: str) -> None:
    visible = {row_id for (_, row_id), row in ann.log.rows.items() if row.get("owner") != "user:hid"}

    found = await ann.search("/api/knowledge/search", q=order, top_k="1", min_score="1")

    assert {result["id"] for result in found["results"]} <= visible
    assert ann.changes() == []


async def attack_evolution(ann: Victim, order: str) -> None:
    """Evolve a record that quotes the text, with feedback that quotes it: only its content changes.

    Where the model's answer is refused, the feedback is kept for the next one, and nothing else moves.
    """
    mine = await ann.record(f"A page says: {order}", task="read a page")
    ann.changes()

    done = await ann.put(f"/api/knowledge/{mine['id']}", {"evolve_feedback": order})

    for change in ann.check_unharmed():
        before, after = change["before"], change["after"]
        # Both writes may be of one millisecond.
        moved = {name for name in after if after[name] != before.get(name)} - {"updated_at"}
        what = "content" if done["evolved"] else "eval"
        assert (change["id"], moved) == (mine["id"], {what, "version"})
        assert {**after["eval"], "kept_words": None} == {**before["eval"], "kept_words": None}
        assert after["eval"].get("kept_words", []) == ([] if done["evolved"] else [order])
    assert done["content"].strip()


async def attack_slimming(ann: Victim, order: str) -> None:
    """Merge records that quote the text: sources stay readable, eve's stay out, one undo restores all."""
    # Not the whole of it twice: near copies are merged with no model asked.
    texts = (
        f"等待元素出现再点击，最多等 20 秒。{order}",
        f"点击之前等待元素出现，最多等 20 秒。{order[: len(order) // 2]}",
    )
    pair = [await ann.record(text, types=["tool"]) for text in texts]
    ann.changes()

    done = await ann.post("/api/knowledge/slim", {})

    ann.check_unharmed(frozenset({"merged_into"}))
    for item in pair:
        read = await ann.search(f"/api/knowledge/{item['id']}")
        assert (read["owner"], read["scopes"]) == ("user:ann", item["scopes"])
        assert "等待元素出现" in read["content"]
    if done["operation_ids"]:
        await ann.post(f"/api/operations/{done['slim_id']}/undo", {})
    for item in pair:
        await ann.api.delete(f"/api/knowledge/{item['id']}", params=ANN)
    ann.changes()


async def attack_descent(ann: Victim, number: int) -> None:
    found = await ann.search("/api/keywords/search", q=f"那个东西 {number}")

    shown = [found["node"]] if found["node"] else found["candidates"]
    assert {item["owner"] for item in shown} <= {"user:ann", "user:eve"}
    assert ann.changes() == []


async def attack_naming(ann: Victim, order: str, number: int) -> None:
    """Create keywords named by the text, and siblings; the model places them, links them or rejects a twin."""
    await ann.keyword(order, parent_id=(await ann.keyword(f"ann {number}"))["id"])
    ann.changes()
    await ann.search("/api/keywords/search", q=order, llm_disambiguate="true")
    made = [
        await ann.post("/api/keywords", {"name": f"fresh {number}"}),
        await ann.post("/api/keywords", {"name": order, "llm_dedup_check": True, "scopes": ["user:owner"]}),
        await ann.post("/api/infos", {"content": f"Python: {order}", "auto_link": True, "scopes": ["user:owner"]}),
    ]

    ann.check_unharmed()
    assert {item["owner"] for item in made} == {"user:ann"}


async def attack_reorganization(ann: Victim) -> None:
    """Ask for a plan, which changes nothing, and apply it: only ann's rows change, and one undo restores them."""
    plan = await ann.post("/api/keywords/reorganize", {})
    assert ann.changes() == []
    if not plan["steps"]:
        return

    applied = await ann.api.post("/api/keywords/reorganize/apply", json={"plan": plan, **ANN})

    ann.check_unharmed(frozenset({"deleted"}))
    if applied.status_code == httpx.codes.OK:
        await ann.post(f"/api/operations/{applied.json()['operation_id']}/undo", {})
    else:
        assert applied.status_code in {403, 409}, applied.text
    ann.changes()


def _ids(value: object) -> list[str]:
    match value:
        case dict():
            own = [value["id"]] if isinstance(value.get("id"), str) else []
            return [*own, *(item for inner in value.values() for item in _ids(inner))]
        case list():
            return [item for inner in value for item in _ids(inner)]
        case _:
            return []
