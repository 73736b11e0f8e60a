"""History and undo: who sees an operation, who may undo it, and what stands in the way."""

import pytest

from knowhub.core.errors import Conflict, Forbidden, NotFound
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.model import Feedback, OnConflict
from knowhub.knowledge.service import KnowledgeService
from knowhub.knowledge.table import list_live_records
from knowhub.operations.model import OperationFilter
from knowhub.operations.service import OperationsService
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import CountedIds, FakeClock, caller, imported, local, new_knowledge, retry_key
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

ANN, BOB = caller(user_id="ann", team_id="web"), caller(user_id="bob", team_id="web")
STRANGER = caller(user_id="eve")
HELPFUL = Feedback(helpful_case={"task": "t"})


class Desk:
    """The services on one store in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, CountedIds())
        self.knowledge = KnowledgeService(self.store, CountedIds())
        self.exchange = KnowledgeExchange(self.store, CountedIds())
        self.operations = OperationsService(self.store, CountedIds(), COLLECTIONS)

    async def saved(self, content: str = "one", supersedes: str | None = None) -> tuple[str, str]:
        new = new_knowledge(content, scopes=["team:web"], supersedes=supersedes)
        answer = await self.knowledge.save(ANN, new)
        assert answer.operation_id is not None
        return str(answer.record["id"]), answer.operation_id

    async def patched(self, row_id: str, **fields: object) -> str:
        answer = await self.knowledge.patch(ANN, row_id, fields)
        assert answer.operation_id is not None
        return answer.operation_id

    async def listed(self, ctx: RequestContext, wanted: OperationFilter | None = None) -> list[str]:
        page = await self.operations.page(ctx, wanted or OperationFilter())
        return [entry.operation.op for entry in page.entries]


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_an_operation_is_seen_by_who_sees_its_rows(desk: Desk) -> None:
    row_id, operation_id = await desk.saved()

    assert await desk.listed(BOB) == ["save_knowledge"]
    assert (await desk.operations.get(BOB, operation_id)).operation.changes[0].id == row_id
    assert await desk.listed(STRANGER) == []
    with pytest.raises(NotFound):
        await desk.operations.get(STRANGER, operation_id)
    with pytest.raises(NotFound):
        await desk.operations.undo(STRANGER, operation_id)


async def test_a_row_that_leaves_the_callers_scope_takes_all_its_operations_along(desk: Desk) -> None:
    row_id, _ = await desk.saved()
    await desk.patched(row_id, scopes=["user:owner"])

    assert await desk.listed(BOB) == []
    assert await desk.listed(ANN) == ["edit_knowledge", "save_knowledge"]


async def test_operations_are_filtered_and_paged(desk: Desk) -> None:
    row_id, _ = await desk.saved("one")
    await desk.saved("two")
    desk.clock.advance(10)
    await desk.patched(row_id, content="three")

    first = await desk.operations.page(ANN, OperationFilter(limit=2))
    rest = await desk.operations.page(ANN, OperationFilter(limit=2, before_seq=first.next_before))

    assert [[entry.operation.seq for entry in page.entries] for page in (first, rest)] == [[3, 2], [1]]
    assert rest.next_before is None
    assert await desk.listed(ANN, OperationFilter(subject=row_id)) == ["edit_knowledge", "save_knowledge"]
    assert await desk.listed(ANN, OperationFilter(op="edit_knowledge")) == ["edit_knowledge"]
    assert await desk.listed(ANN, OperationFilter(actor="user:bob")) == []
    assert await desk.listed(ANN, OperationFilter(after_seq=2)) == ["edit_knowledge"]
    assert await desk.listed(ANN, OperationFilter(after_time=desk.clock.now() - 5)) == ["edit_knowledge"]


async def test_undoing_needs_the_rights_of_the_original(desk: Desk) -> None:
    row_id, operation_id = await desk.saved()
    vote = await desk.knowledge.give_feedback(BOB, row_id, HELPFUL)
    assert vote.operation_id is not None

    with pytest.raises(Forbidden):
        await desk.operations.undo(BOB, operation_id)
    own = await desk.operations.undo(BOB, vote.operation_id)

    assert own.changes[0].after["eval"]["helpful"] == 1


async def test_a_dry_run_tells_what_would_change_and_changes_nothing(desk: Desk) -> None:
    row_id, _ = await desk.saved("one")
    operation_id = await desk.patched(row_id, content="two")

    planned = await desk.operations.undo(ANN, operation_id, dry_run=True)

    assert planned.dry_run
    assert planned.operation_ids == []
    assert [(change.before or {}, change.after)[0]["content"] for change in planned.changes] == ["two"]
    assert [change.after["content"] for change in planned.changes] == ["one"]
    assert await desk.listed(ANN) == ["edit_knowledge", "save_knowledge"]


async def test_what_stands_on_an_operation_is_named(desk: Desk) -> None:
    row_id, operation_id = await desk.saved("one")
    newer = await desk.patched(row_id, content="two")
    await desk.knowledge.give_feedback(BOB, row_id, HELPFUL)

    with pytest.raises(Conflict) as refused:
        await desk.operations.undo(ANN, operation_id)

    assert refused.value.extra == {"blocked_by": [newer], "blocked_by_hidden": 0}


async def test_a_record_that_another_supersedes_is_not_taken_away(desk: Desk) -> None:
    row_id, operation_id = await desk.saved("one")
    _, newer = await desk.saved("two", supersedes=row_id)

    with pytest.raises(Conflict) as refused:
        await desk.operations.undo(ANN, operation_id)

    assert refused.value.extra["blocked_by"] == [newer]


async def test_an_edit_of_a_record_that_was_deleted_since_is_not_undone_and_a_vote_on_it_is(desk: Desk) -> None:
    row_id, _ = await desk.saved("one")
    edit = await desk.patched(row_id, content="two")
    vote = await desk.knowledge.give_feedback(BOB, row_id, HELPFUL)
    deletion = await desk.knowledge.delete(ANN, row_id)
    assert vote.operation_id is not None

    with pytest.raises(Conflict) as refused:
        await desk.operations.undo(ANN, edit)
    try_load = await desk.operations.undo(BOB, vote.operation_id)

    assert refused.value.extra["blocked_by"] == [deletion]
    assert try_load.changes[0].after["eval"]["helpful"] == 1


async def test_nothing_is_undone_twice_and_an_undo_can_be_undone(desk: Desk) -> None:
    row_id, _ = await desk.saved()
    vote = await desk.knowledge.give_feedback(ANN, row_id, HELPFUL)
    assert vote.operation_id is not None
    first = await desk.operations.undo(ANN, vote.operation_id)

    with pytest.raises(Conflict) as refused:
        await desk.operations.undo(ANN, vote.operation_id)
    entry = await desk.operations.get(ANN, vote.operation_id)
    redone = await desk.operations.undo(ANN, first.operation_ids[0])

    assert refused.value.extra == {
        "undone_by": first.operation_ids[0],
        "blocked_by": [],
        "blocked_by_hidden": 0,
    }
    assert (entry.undone_by, entry.undoable) == (first.operation_ids[0], False)
    assert redone.changes[0].after["eval"]["helpful"] == 2
    assert (await desk.operations.get(ANN, vote.operation_id)).undoable


async def test_a_retried_undo_gets_the_first_answer(desk: Desk) -> None:
    _, operation_id = await desk.saved()
    first = await desk.operations.undo(ANN, operation_id, key=retry_key())

    again = await desk.operations.undo(ANN, operation_id, key=retry_key())

    assert again.operation_ids == first.operation_ids


async def test_an_import_is_undone_as_one_by_its_own_id(desk: Desk) -> None:
    lines = [imported(f"line-{number}", f"content {number}") for number in range(2500)]
    answer = await desk.exchange.import_lines(local(), lines, OnConflict.FAIL)
    assert answer.import_id is not None

    undone = await desk.operations.undo(local(), answer.import_id)

    assert (answer.imported, len(answer.operation_ids)) == (2500, 3)
    assert (len(undone.operation_ids), len(undone.changes)) == (3, 2500)
    assert [head.id for head in list_live_records(desk.store.view("default"))] == []


async def test_an_import_of_which_one_record_was_edited_is_not_undone_at_all(desk: Desk) -> None:
    lines = [imported(f"line-{number}", f"content {number}") for number in range(1500)]
    answer = await desk.exchange.import_lines(local(), lines, OnConflict.FAIL)
    assert answer.import_id is not None
    edit = await desk.knowledge.patch(local(), "line-3", {"content": "edited"})

    with pytest.raises(Conflict) as refused:
        await desk.operations.undo(local(), answer.import_id)

    assert refused.value.extra["blocked_by"] == [edit.operation_id]
    assert len(list(list_live_records(desk.store.view("default")))) == 1500
