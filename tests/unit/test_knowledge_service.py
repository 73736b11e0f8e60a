"""The verbs on records: who may do what, and what is answered when it cannot be done."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.core.errors import Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import Feedback, ListQuery, Vote
from knowhub.knowledge.service import KnowledgeService
from tests.builders import CountedIds, FakeClock, caller, local, new_knowledge, opened, retry_key
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
STRANGER = caller(user_id="eve")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock(), CountedIds())


@pytest.fixture
def service(store: MemoryStore) -> KnowledgeService:
    return KnowledgeService(store, CountedIds())


async def saved(service: KnowledgeService, ctx: RequestContext = ANN, **fields: Any) -> str:  # noqa: ANN401 -- any field
    record = (await service.save(ctx, new_knowledge(**{"scopes": ["team:web"]} | fields))).record
    return str(record["id"])


async def listed(service: KnowledgeService, ctx: RequestContext) -> list[str]:
    page = await service.page(ctx, ListQuery())
    return [str(orjson.loads(record)["id"]) for record in page.records]


async def test_a_record_is_seen_by_its_audience_and_unknown_to_all_others(service: KnowledgeService) -> None:
    shared, own = await saved(service), await saved(service, content="mine", scopes=["user:owner"])

    assert (await service.get(BOB, shared)).version == 1
    assert await listed(service, ANN) == [own, shared]
    assert await listed(service, BOB) == [shared]
    assert await listed(service, STRANGER) == []
    for ctx, row_id in ((BOB, own), (STRANGER, shared), (STRANGER, "knowledge-0")):
        with pytest.raises(NotFound, match=rf"no knowledge with id '{row_id}'"):
            await service.get(ctx, row_id)
        with pytest.raises(NotFound):
            await service.history(ctx, row_id)


async def test_only_its_owner_changes_or_deletes_a_record(service: KnowledgeService) -> None:
    shared = await saved(service)

    with pytest.raises(Forbidden):
        await service.patch(BOB, shared, {"content": "theirs"})
    with pytest.raises(Forbidden):
        await service.delete(BOB, shared)
    with pytest.raises(Forbidden):
        await service.give_feedback(BOB, shared, Feedback(score=1))
    with pytest.raises(NotFound):
        await service.patch(STRANGER, shared, {"content": "theirs"})

    assert (await service.get(ANN, shared)).version == 1


async def test_whoever_sees_a_record_may_vote_on_it(service: KnowledgeService) -> None:
    shared = await saved(service)

    voted = await service.give_feedback(BOB, shared, Feedback(helpful_case={"task": "t"}))
    statuses, _ = await service.give_feedback_batch(BOB, [Vote(shared, False, {"task": "t"})] * 2)
    unseen, operation_id = await service.give_feedback_batch(STRANGER, [Vote(shared, True, {"task": "t"})])

    assert voted.record["eval"]["helpful"] == 2
    assert (statuses, unseen, operation_id) == (["applied", "applied"], ["unknown"], None)
    row = orjson.loads((await service.get(ANN, shared)).json)
    assert (row["eval"]["harmful"], row["version"]) == (2, 3)


async def test_a_change_to_an_older_version_is_refused_with_the_current_one(service: KnowledgeService) -> None:
    shared = await saved(service)
    await service.patch(ANN, shared, {"content": "newer"}, expected=1)

    for refused in (
        service.patch(ANN, shared, {"content": "older"}, expected=1),
        service.give_feedback(ANN, shared, Feedback(score=1), expected=1),
    ):
        with pytest.raises(VersionConflict) as conflict:
            await refused
        assert conflict.value.extra == {"current_version": 2}
    with pytest.raises(VersionConflict):
        await service.delete(ANN, shared, expected=1)
    await service.delete(ANN, shared, expected=2)

    with pytest.raises(NotFound):
        await service.get(ANN, shared)


async def test_what_says_the_same_is_answered_with_the_record_that_stands_there(service: KnowledgeService) -> None:
    first = await saved(service, content="Wait for it")

    again = await service.save(ANN, new_knowledge("wait  FOR it", scopes=["team:web"]))
    others = await service.save(BOB, new_knowledge("Wait for it", scopes=["team:web"]))
    anyway = await service.save(ANN, new_knowledge("Wait for it", scopes=["team:web"], dedup=False))

    assert (again.duplicate_of, again.operation_id, again.record["id"]) == (first, None, first)
    assert others.duplicate_of is None
    assert anyway.duplicate_of is None


async def test_what_was_deleted_is_no_duplicate(service: KnowledgeService) -> None:
    first = await saved(service)
    await service.delete(ANN, first)

    assert await saved(service) != first


async def test_a_batch_answers_its_items_in_their_places(service: KnowledgeService) -> None:
    first = await saved(service, local(), content="one", scopes=None)
    items = [new_knowledge("one"), new_knowledge("two"), new_knowledge("TWO"), new_knowledge("three")]

    batch = await service.save_batch(local(), items)

    new = batch.records[1].record["id"]
    assert [saved.duplicate_of for saved in batch.records] == [first, None, new, None]
    assert [saved.operation_id for saved in batch.records] == [None, batch.operation_id, None, batch.operation_id]
    assert len(await listed(service, local())) == 3


async def test_a_batch_with_one_bad_item_saves_none_and_names_it(service: KnowledgeService) -> None:
    items = [new_knowledge("one"), new_knowledge(" ", task=""), new_knowledge("three")]

    with pytest.raises(InvalidInput) as refused:
        await service.save_batch(local(), items)

    assert [error.field for error in refused.value.errors] == ["items.1.content"]
    assert await listed(service, local()) == []


async def test_only_a_record_that_is_seen_and_owned_can_be_superseded(service: KnowledgeService) -> None:
    shared = await saved(service)

    newer = await saved(service, content="newer", supersedes=shared)
    with pytest.raises(Forbidden):
        await saved(service, BOB, content="theirs", supersedes=shared)
    for ctx in (STRANGER, ANN):
        with pytest.raises(InvalidInput, match="supersedes"):
            await saved(service, ctx, content="of nothing", supersedes=shared if ctx is STRANGER else "knowledge-0")

    assert orjson.loads((await service.get(ANN, newer)).json)["supersedes"] == shared


async def test_a_retried_save_gets_the_record_as_it_was_saved(service: KnowledgeService) -> None:
    first = await service.save(ANN, new_knowledge("one"), retry_key())
    await service.patch(ANN, first.record["id"], {"content": "two"})

    again = await service.save(ANN, new_knowledge("one"), retry_key())

    assert again == first


async def test_history_tells_each_version_newest_first_and_a_deleted_records_too(service: KnowledgeService) -> None:
    shared = await saved(service, content="one")
    await service.patch(ANN, shared, {"content": "two"})
    await service.delete(ANN, shared)

    entries = (await service.history(BOB, shared)).entries

    assert [(entry.version, entry.op, entry.actor) for entry in entries] == [
        (3, "delete_knowledge", "user:ann"),
        (2, "edit_knowledge", "user:ann"),
        (1, "save_knowledge", "user:ann"),
    ]
    assert entries[1].changes == {"content": {"before": "one", "after": "two"}}
    assert entries[0].changes == {"deleted": {"before": None, "after": True}}


async def test_pages_follow_one_another_without_gap_or_repeat(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        ids = [
            str((await hub.knowledge.save(local(), new_knowledge(f"number {number}"))).record["id"])
            for number in range(25)
        ]
        for row_id in ids[::7]:
            await hub.knowledge.delete(local(), row_id)

        shown: list[str] = []
        before: int | None = None
        while not shown or before is not None:
            page = await hub.knowledge.page(local(), ListQuery(limit=4, before=before))
            shown += [str(orjson.loads(record)["id"]) for record in page.records]
            before = page.next_before

        assert shown == [row_id for row_id in reversed(ids) if row_id not in ids[::7]]
