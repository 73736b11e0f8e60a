"""Distilling saves the memories of a session as records: once, again after a change, and never foreign ones."""

import asyncio
import json
from typing import Any

import pytest

from knowhub.context import uri
from knowhub.context.model import MemoryCategory
from knowhub.core.operation import Draft
from knowhub.core.request_context import caller_context
from knowhub.engine.view import AccountView
from knowhub.knowledge import record_rules
from knowhub.knowledge.evolve.merging import merge_rows
from knowhub.knowledge.model import KNOWLEDGE, ListQuery
from knowhub.knowledge.service import KnowledgeService
from knowhub.usecases.distill_session import Distillation, DistillationResult
from tests.builders import OWNER, CountedIds, FakeClock, new_knowledge
from tests.context_rows import draft, memory_at, node_row, part_rows, session_at
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

LI = caller_context({"user_id": "li", "agent_id": "crawler"}, OWNER)
AGENTS = f"agents/{uri.make_own_segment('li')}"
SESSION = session_at("s1")
PART = uri.part_uri(SESSION, "m0")


class DistillationAccount:
    """A store with a session, its memories, and the services that distill them."""

    def __init__(self) -> None:
        self.store = MemoryStore(FakeClock(), CountedIds())
        self.knowledge = KnowledgeService(self.store, CountedIds(100))
        self.distillation = Distillation(self.store, self.knowledge)

    async def write(self, *rows: dict[str, Any]) -> None:
        await self.store.commit("default", "user:li", lambda _view: draft(*rows))

    async def distill(self, session_id: str = "s1", **options: Any) -> DistillationResult:  # noqa: ANN401 -- any option
        return await self.distillation.distill(LI, session_id, **options)

    async def records(self) -> list[dict[str, Any]]:
        page = await self.knowledge.page(LI, ListQuery(limit=100))
        return [json.loads(record) for record in page.records]


@pytest.fixture
async def account() -> DistillationAccount:
    made = DistillationAccount()
    await made.write(node_row(SESSION), *part_rows(SESSION, ["先等待两秒再提交"]))
    return made


def learnt_row(category: MemoryCategory, name: str = "", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a memory that the session gave."""
    on_agent = category in {MemoryCategory.PATTERNS, MemoryCategory.CASES, MemoryCategory.SKILLS, MemoryCategory.TOOLS}
    space, owner = (AGENTS, "user:li") if on_agent else ("users/li", "user:li")
    metadata = {"source_refs": [PART], "message_ids": ["m0"], "sessions": ["s1"]} | fields.pop("metadata", {})
    address = memory_at(category, name, space=space)
    texts = {"abstract": f"What {name or category} is", "content": f"All of {name or category}"}
    return node_row(address, owner=owner, metadata=metadata, **(texts | fields))


@pytest.mark.parametrize(
    ("category", "kind", "owner"),
    [
        (MemoryCategory.PATTERNS, "strategy", "user:li"),
        (MemoryCategory.CASES, "usecase", "user:li"),
        (MemoryCategory.SKILLS, "tool", "user:li"),
        (MemoryCategory.TOOLS, "tool", "user:li"),
        (MemoryCategory.PREFERENCES, "user_profile", "user:li"),
        (MemoryCategory.PROFILE, "user_profile", "user:li"),
    ],
)
async def test_each_category_becomes_its_type_and_keeps_its_owner(
    account: DistillationAccount, category: MemoryCategory, kind: str, owner: str
) -> None:
    name = "" if category is MemoryCategory.PROFILE else "waiting"
    await account.write(learnt_row(category, name))

    done = await account.distill()

    (record,) = done.saved
    assert (record["types"], record["owner"], record["scopes"]) == ([kind], owner, ["user:owner"])
    assert (record["task"], record["content"]) == (f"What {name or category} is", f"All of {name or category}")
    told = ([SESSION, done.results[0].uri], "m0")
    assert (record["source"]["urls"], record["message_id"] or None) == told
    assert [(result.status, result.knowledge_id) for result in done.results] == [("new", record["id"])]


async def test_concurrent_distillations_save_once(account: DistillationAccount) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"))
    await account.distill()
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a", version=2, content="Wait three seconds."))

    both = await asyncio.gather(account.distill(), account.distill())

    assert sorted(len(item.saved) for item in both) == [0, 1]
    assert len(await account.records()) == 2


async def test_an_equal_record_saved_by_hand_is_known(account: DistillationAccount) -> None:
    await account.write(learnt_row(MemoryCategory.PREFERENCES, "a"))
    by_hand = new_knowledge("All of a", task="What a is", types=("user_profile",), owner="user:li")
    record = (await account.knowledge.save(LI, by_hand)).record

    done = await account.distill()

    assert (done.saved, done.operation_id) == ([], None)
    assert [(result.status, result.knowledge_id) for result in done.results] == [("known", record["id"])]


async def test_an_own_record_with_a_copied_tag_is_not_distilled(
    account: DistillationAccount,
) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"))
    tags = {"memory": memory_at(MemoryCategory.PATTERNS, "a", space=AGENTS), "memory_version": "1"}
    await account.knowledge.save(LI, new_knowledge("by hand", tags=tags, owner="user:li"))

    done = await account.distill()

    assert [result.status for result in done.results] == ["new"]


async def test_a_deleted_record_returns_only_with_a_new_version_of_its_memory(
    account: DistillationAccount,
) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"))
    record = (await account.distill()).saved[0]
    await account.knowledge.delete(LI, record["id"])

    again = await account.distill()
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a", version=2, content="Wait three seconds."))
    moved_on = await account.distill()

    assert (again.saved, [(result.status, result.knowledge_id) for result in again.results]) == (
        [],
        [("forgotten", None)],
    )
    assert [result.status for result in moved_on.results] == ["new"]


async def merge_records(account: DistillationAccount, survivor: str, *sources: str) -> None:
    """Merge records as slimming does."""

    def decide(view: AccountView) -> Draft:
        first, *others = (view.get(KNOWLEDGE, item) or {} for item in (survivor, *sources))
        return Draft("slim_knowledge", list(map(record_rules.write, merge_rows(first, others, None, view.now))))

    await account.store.commit("default", "user:li", decide)


async def test_a_merged_record_is_known_by_its_survivor(account: DistillationAccount) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"), learnt_row(MemoryCategory.PATTERNS, "b", version=2))
    first, other = (record["id"] for record in (await account.distill()).saved)
    await merge_records(account, other, first)

    again = await account.distill()

    assert (again.saved, [(result.status, result.knowledge_id) for result in again.results]) == (
        [],
        [("known", other)] * 2,
    )


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_record_with_two_memories_is_not_superseded(account: DistillationAccount, name: str) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"), learnt_row(MemoryCategory.PATTERNS, "b", version=2))
    first, other = (record["id"] for record in (await account.distill()).saved)
    await merge_records(account, other, first)
    await account.write(learnt_row(MemoryCategory.PATTERNS, name, version=3, content="Wait three seconds."))

    done, again = await account.distill(), await account.distill()

    (record,) = done.saved
    assert (record["supersedes"], record["content"]) == (None, "Wait three seconds.")
    assert sorted(result.status for result in done.results) == ["known", "new"]
    assert (again.saved, {result.status for result in again.results}) == ([], {"known"})


async def test_a_deleted_newer_record_is_not_saved_again(
    account: DistillationAccount,
) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a"))
    await account.distill()
    await account.write(learnt_row(MemoryCategory.PATTERNS, "a", version=2, content="Wait three seconds."))
    await account.knowledge.delete(LI, (await account.distill()).saved[0]["id"])

    again = await account.distill()

    assert (again.saved, [result.status for result in again.results]) == ([], ["forgotten"])


async def test_memories_of_other_sessions_are_left_out(account: DistillationAccount) -> None:
    other = {"source_refs": [uri.part_uri(session_at("s2"), "m0")], "sessions": ["s2"]}
    of_another_user = {"source_refs": [uri.part_uri(session_at("s1", space="users/zhou"), "m0")], "sessions": ["s1"]}
    await account.write(
        learnt_row(MemoryCategory.PATTERNS, "a", metadata=other),
        learnt_row(MemoryCategory.PATTERNS, "b", metadata=of_another_user),
        learnt_row(MemoryCategory.TOOLS, "c", metadata={"source_refs": [], "sessions": ["s1", "s2"]}),
    )

    done = await account.distill()

    assert [result.uri.rpartition("/")[2] for result in done.results] == ["c"]


async def test_a_memory_with_a_long_uri_is_distilled_once(account: DistillationAccount) -> None:
    await account.write(learnt_row(MemoryCategory.PATTERNS, "很长" * 99))
    await account.distill()

    again = await account.distill()

    assert [result.status for result in again.results] == ["known"]
    assert len(await account.records()) == 1
