"""What every store promises (`core.operation.Commits` and the domains' ports), run on the file store and the fake."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from knowhub.core.errors import Conflict, InvalidInput, TooLarge
from knowhub.core.operation import (
    Change,
    Committed,
    Draft,
    Group,
    IdempotencyKey,
    Operation,
    Unchanged,
    Write,
    next_version,
)
from knowhub.engine.view import AccountView
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.store import FileStore
from tests.builders import CountedIds, FakeClock, knowledge_row, open_files, retry_key
from tests.collections_of_tests import LABELS
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

Store = FileStore | MemoryStore
ACCOUNT, ACTOR = "default", "user:li"


@pytest.fixture(params=["files", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = (
        open_files(tmp_path, ids=CountedIds()) if request.param == "files" else MemoryStore(FakeClock(), CountedIds())
    )
    yield opened
    await opened.close()


def save_draft(row_id: str, content: str = "said") -> Callable[[AccountView], Draft]:
    def decide(view: AccountView) -> Draft:
        before = view.get(KNOWLEDGE, row_id)
        row = {**knowledge_row(row_id, content=content), "version": next_version(before)}
        return Draft("save_knowledge", [Write(KNOWLEDGE, row_id, row)])

    return decide


def save_in_group(row_id: str, index: int, of: int) -> Callable[[AccountView], Draft]:
    def decide(view: AccountView) -> Draft:
        draft = save_draft(row_id)(view)
        return Draft("import_knowledge", draft.writes, group=Group("group-1", index, of))

    return decide


def refuse(view: AccountView) -> Draft:
    raise Conflict("the state does not allow it")


async def commit(
    store: Store, decide: Callable[[AccountView], Draft], idempotency: IdempotencyKey | None = None
) -> Committed:
    outcome = await store.commit(ACCOUNT, ACTOR, decide, idempotency)
    assert isinstance(outcome, Committed)
    return outcome


async def list_seqs(store: Store, account: str = ACCOUNT) -> list[int]:
    return [operation.seq async for operation in store.operations(account)]


async def test_a_commit_records_actor_and_rows_before_and_after(store: Store) -> None:
    first = await commit(store, save_draft("a", "one"))

    second = await commit(store, save_draft("a", "two"))

    change = second.operation.changes[0]
    assert (second.operation.seq, second.operation.actor, second.operation.account) == (2, ACTOR, ACCOUNT)
    assert (change.collection, change.id) == (KNOWLEDGE, "a")
    assert change.before == first.operation.changes[0].after
    assert (change.after["content"], change.after["version"]) == ("two", 2)
    assert first.operation.changes[0].before is None


async def test_a_commit_is_seen_by_the_next_read(store: Store) -> None:
    await commit(store, save_draft("a", "one"))

    row = store.view(ACCOUNT).get(KNOWLEDGE, "a")

    assert row is not None
    assert row["content"] == "one"


async def test_decisions_made_together_see_one_another(store: Store) -> None:
    answers = await asyncio.gather(*(commit(store, save_draft("a")) for _ in range(50)))

    assert [answer.operation.changes[0].after["version"] for answer in answers] == list(range(1, 51))


async def test_an_account_sees_nothing_of_another(store: Store) -> None:
    mine = await commit(store, save_draft("a"))

    other = store.view("other")

    assert other.get(KNOWLEDGE, "a") is None
    assert await store.operation("other", mine.operation.operation_id) is None
    assert await list_seqs(store, "other") == []


async def test_a_raising_decision_does_not_affect_its_batch(store: Store) -> None:
    wanted = [save_draft("a"), refuse, save_draft("b")]

    answers = await asyncio.gather(*(store.commit(ACCOUNT, ACTOR, decide) for decide in wanted), return_exceptions=True)

    assert isinstance(answers[1], Conflict)
    assert [operation.seq for operation in operations_of([answers[0], answers[2]])] == [1, 2]
    assert await list_seqs(store) == [2, 1]


async def test_a_row_of_an_unregistered_collection_is_refused(store: Store) -> None:
    with pytest.raises(TypeError, match="no collection 'recipes' is registered"):
        await store.commit(ACCOUNT, ACTOR, lambda _view: Draft("save", [Write("recipes", "r-1", {"version": 1})]))

    assert store.last_seq == 0


async def test_a_write_that_breaks_a_rule_is_refused(store: Store) -> None:
    row = knowledge_row("knowledge-blank") | {"task": " ", "content": " "}

    with pytest.raises(InvalidInput, match="both blank"):
        await store.commit(ACCOUNT, ACTOR, lambda _view: Draft("save", [Write(KNOWLEDGE, row["id"], row)]))

    assert store.last_seq == 0


def label_draft(**texts: str | None) -> Callable[[AccountView], Draft]:
    def decide(view: AccountView) -> Draft:
        rows = {
            row_id: {**(view.get(LABELS, row_id) or {}), "id": row_id, "version": 1, **({"text": text} if text else {})}
            for row_id, text in texts.items()
        }
        return Draft(
            "label",
            [Write(LABELS, row_id, row if texts[row_id] else {**row, "deleted": True}) for row_id, row in rows.items()],
        )

    return decide


async def test_two_live_rows_never_share_a_unique_key(store: Store) -> None:
    await commit(store, label_draft(a="red"))

    for decide in (label_draft(b="red"), label_draft(b="blue", c="blue")):
        with pytest.raises(Conflict, match="another row of labels has the same text") as refused:
            await store.commit(ACCOUNT, ACTOR, decide)
        assert refused.value.extra == {"field": "text"}
    together = [store.commit(ACCOUNT, ACTOR, label_draft(**{name: "green"})) for name in ("d", "e")]
    first, second = await asyncio.gather(*together, return_exceptions=True)

    assert isinstance(first, Committed)
    assert isinstance(second, Conflict)
    assert store.last_seq == 2


async def test_unique_keys_can_be_swapped_in_one_operation(store: Store) -> None:
    await commit(store, label_draft(a="red", b="blue"))
    await commit(store, label_draft(a="blue", b="red"))
    await commit(store, label_draft(a=None))

    await commit(store, label_draft(c="blue"))

    assert store.last_seq == 4


async def test_an_unchanged_decision_writes_nothing_and_returns_its_answer(store: Store) -> None:
    outcome = await store.commit(ACCOUNT, ACTOR, lambda _view: Unchanged("as it was"))

    assert outcome == Unchanged("as it was")
    assert await list_seqs(store) == []


async def test_a_group_is_all_or_none(store: Store) -> None:
    with pytest.raises(Conflict):
        await store.commit_group(ACCOUNT, ACTOR, [save_in_group("a", 0, 2), refuse])
    await asyncio.gather(
        store.commit(ACCOUNT, ACTOR, save_draft("c")),
        store.commit_group(ACCOUNT, ACTOR, [save_in_group("a", 0, 2), save_in_group("b", 1, 2)]),
    )

    group = await store.group(ACCOUNT, "group-1")

    assert [[change.id for change in operation.changes] for operation in group] == [["a"], ["b"]]
    assert [operation.seq for operation in group] == [2, 3]


async def test_a_failed_group_keeps_earlier_decisions_and_is_not_seen_by_later_ones(store: Store) -> None:
    answers = await asyncio.gather(
        store.commit(ACCOUNT, ACTOR, save_draft("a")),
        store.commit_group(ACCOUNT, ACTOR, [save_draft("a"), refuse]),
        store.commit(ACCOUNT, ACTOR, save_draft("a")),
        return_exceptions=True,
    )

    assert isinstance(answers[1], Conflict)
    assert [operation.changes[0].after["version"] for operation in operations_of(answers)] == [1, 2]


async def test_a_retry_gets_the_first_answer_and_writes_nothing(store: Store) -> None:
    first = await commit(store, save_draft("a"), idempotency=retry_key())

    again = await commit(store, save_draft("b"), idempotency=retry_key())

    assert again.replayed
    assert again.operation == first.operation
    assert await list_seqs(store) == [1]


async def test_retries_that_are_queued_together_write_once(store: Store) -> None:
    answers = await asyncio.gather(
        *(commit(store, save_draft("a"), idempotency=retry_key()) for _ in range(5)),
    )

    assert sorted(answer.replayed for answer in answers) == [False, True, True, True, True]
    assert {answer.operation.seq for answer in answers} == {1}


async def test_a_retry_key_with_another_body_is_refused(store: Store) -> None:
    await commit(store, save_draft("a"), idempotency=retry_key(body="one"))

    for asking in (
        store.commit(ACCOUNT, ACTOR, save_draft("a"), retry_key(body="two")),
        store.find_replay(ACCOUNT, retry_key(body="two")),
    ):
        with pytest.raises(InvalidInput) as refused:
            await asking
        assert refused.value.errors[0].field == "Idempotency-Key"

    assert await list_seqs(store) == [1]


async def test_retry_keys_of_other_accounts_and_routes_are_other_keys(store: Store) -> None:
    key = retry_key()
    await commit(store, save_draft("a"), idempotency=key)

    elsewhere = await store.commit("other", ACTOR, save_draft("a"), key)

    assert isinstance(elsewhere, Committed)
    assert not elsewhere.replayed


async def test_a_retried_group_gets_all_its_operations_and_its_replay_the_first(store: Store) -> None:
    decides = [save_in_group("a", 0, 2), save_in_group("b", 1, 2)]
    first = await store.commit_group(ACCOUNT, ACTOR, decides, retry_key())

    again = await store.commit_group(ACCOUNT, ACTOR, decides, retry_key())
    replay = await store.find_replay(ACCOUNT, retry_key())

    assert operations_of(again) == operations_of(first)
    assert await list_seqs(store) == [2, 1]
    assert replay is not None
    assert replay.operation == operations_of(first)[0]


async def test_a_replay_is_found_without_a_decision(store: Store) -> None:
    fresh = await store.find_replay(ACCOUNT, retry_key())
    first = await commit(store, save_draft("a"), idempotency=retry_key())

    again = await store.find_replay(ACCOUNT, retry_key())

    assert fresh is None
    assert again == Committed(first.operation, replayed=True)
    assert await store.find_replay("other", retry_key()) is None
    assert await store.find_replay(ACCOUNT, retry_key("another")) is None
    assert await store.find_replay(ACCOUNT, None) is None
    assert await list_seqs(store) == [1]


async def test_a_decision_that_writes_nothing_keeps_no_retry_key(store: Store) -> None:
    await store.commit(ACCOUNT, ACTOR, lambda _view: Unchanged(), retry_key())
    with pytest.raises(Conflict):
        await store.commit(ACCOUNT, ACTOR, refuse, retry_key())

    later = await commit(store, save_draft("a"), idempotency=retry_key(body="another"))

    assert not later.replayed


async def test_operations_are_listed_newest_first_and_below_a_number(store: Store) -> None:
    for row_id in ("a", "b", "a", "c"):
        await commit(store, save_draft(row_id))

    below = [operation.seq async for operation in store.operations(ACCOUNT, 4)]
    touching = [operation.seq async for operation in store.operations_on(ACCOUNT, KNOWLEDGE, "a")]

    assert await list_seqs(store) == [4, 3, 2, 1]
    assert below == [3, 2, 1]
    assert touching == [3, 1]


async def test_an_operation_is_found_by_its_id(store: Store) -> None:
    done = await commit(store, save_draft("a"))

    found = await store.operation(ACCOUNT, done.operation.operation_id)

    assert found == done.operation
    assert await store.operation(ACCOUNT, "not-an-id") is None


async def test_an_undo_that_is_undone_does_not_count(store: Store) -> None:
    first = (await commit(store, save_draft("a"))).operation.operation_id
    undo = (await commit(store, undo_draft("a", first))).operation.operation_id
    noted = store.undone_by(ACCOUNT, first)

    await commit(store, undo_draft("a", undo))

    assert noted == undo
    assert store.undone_by(ACCOUNT, first) is None
    assert store.undone_by(ACCOUNT, undo) is not None


async def test_a_view_sees_undos_of_its_own_batch(store: Store) -> None:
    first = (await commit(store, save_draft("a"))).operation.operation_id

    def decide(view: AccountView) -> Draft:
        return replace(undo_draft("a", first)(view), reply={"undone_by": view.undone_by(first)})

    answers = await asyncio.gather(*(commit(store, decide) for _ in range(2)))

    assert [answer.operation.reply for answer in answers] == [
        {"undone_by": None},
        {"undone_by": answers[0].operation.operation_id},
    ]


async def test_a_decision_reads_notes_of_earlier_decisions_of_its_group(store: Store) -> None:
    def decide(view: AccountView) -> Draft | Unchanged:
        notes = list(view.earlier_notes)
        if len(notes) == 1:
            return Unchanged("nothing")
        return replace(save_draft(f"row-{len(notes)}")(view), reply={"notes": notes}, note=len(notes))

    answers = await store.commit_group(ACCOUNT, ACTOR, [decide] * 3)

    assert [None if isinstance(answer, Unchanged) else answer.operation.reply for answer in answers] == [
        {"notes": []},
        None,
        {"notes": [0, "nothing"]},
    ]
    assert store.view(ACCOUNT).earlier_notes == ()


async def test_listeners_get_every_operation_before_it_is_acknowledged(store: Store) -> None:
    heard = SeqListener()
    store.subscribe(heard)

    answers = await asyncio.gather(*(commit(store, save_draft(f"row-{number}")) for number in range(20)))
    at_once = list(heard.numbers)

    assert at_once == [answer.operation.seq for answer in answers] == list(range(1, 21))


async def test_a_listener_gets_only_its_collections(store: Store) -> None:
    heard = SeqListener()
    store.subscribe(heard, [LABELS])

    await commit(store, save_draft("a"))
    await commit(store, label_draft(a="red"))
    await commit(
        store, lambda view: Draft("both", [*save_draft("b")(view).writes, *label_draft(b="blue")(view).writes])
    )

    assert heard.numbers == [2, 3]


async def test_an_operation_over_the_limit_is_refused_with_its_size(store: Store) -> None:
    huge = "x" * (65 * 1024 * 1024)

    with pytest.raises(TooLarge, match="split it"):
        await store.commit(ACCOUNT, ACTOR, save_draft("a", huge))

    assert await list_seqs(store) == []
    assert (await commit(store, save_draft("a"))).operation.seq == 1


async def test_a_retry_key_outlives_a_restart(tmp_path: Path) -> None:
    before = open_files(tmp_path)
    first = await commit(before, save_draft("a"), idempotency=retry_key())
    await before.close()

    after = open_files(tmp_path)
    again = await commit(after, save_draft("b"), idempotency=retry_key())
    with pytest.raises(InvalidInput):
        await after.commit(ACCOUNT, ACTOR, save_draft("b"), retry_key(body="another"))
    await after.close()

    assert again.replayed
    assert again.operation == first.operation


async def test_another_process_finds_the_same_replay(tmp_path: Path) -> None:
    clock = FakeClock()
    left, other = open_files(tmp_path, clock=clock), open_files(tmp_path, clock=clock)
    first = await commit(left, save_draft("a"), idempotency=retry_key())

    known = await other.find_replay(ACCOUNT, retry_key())
    clock.advance(24 * 3600 + 1)
    later = await other.find_replay(ACCOUNT, retry_key(body="another"))
    await left.close()
    await other.close()

    assert known is not None
    assert known.operation == first.operation
    assert later is None


async def test_a_retry_key_is_forgotten_after_its_lifetime(tmp_path: Path) -> None:
    clock = FakeClock()
    store = open_files(tmp_path, clock=clock)
    await commit(store, save_draft("a"), idempotency=retry_key())
    clock.advance(24 * 3600 + 1)

    later = await commit(store, save_draft("b"), idempotency=retry_key(body="another"))
    await store.close()

    assert not later.replayed


class SeqListener:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None:
        self.numbers.append(seq)


def undo_draft(row_id: str, operation_id: str) -> Callable[[AccountView], Draft]:
    def decide(view: AccountView) -> Draft:
        return Draft("undo_operation", save_draft(row_id)(view).writes, undo_of=operation_id)

    return decide


def operations_of(outcomes: Sequence[object]) -> list[Operation]:
    return [outcome.operation for outcome in outcomes if isinstance(outcome, Committed)]
