"""The memory of what was shown: at once here, durable behind the search, bounded, and never in its way."""

import asyncio

import pytest

from knowhub.core.errors import ReadOnly
from knowhub.core.operation import Decide, IdempotencyKey, Outcome
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.showings import MAX_SHOWN, MAX_WAITING, SHOWINGS, Showings, Shown
from tests.builders import CountedIds, FakeClock, caller, local
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio
SESSION = Shown("s", "g")


class RefusingStore(MemoryStore):
    """Refuses every commit while `refuses`, and holds each one up while `gate` is closed."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), CountedIds())
        self.refuses = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(
        self, account: str, actor: str, decide: Decide[KnowledgeView], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        await self.gate.wait()
        if self.refuses:
            raise ReadOnly("the disk is full")
        return await super().commit(account, actor, decide, idempotency)


@pytest.fixture
async def store() -> RefusingStore:
    return RefusingStore()


def on(store: RefusingStore, close_s: float = 5.0) -> Showings:
    return Showings(store, FakeClock(), close_s)


def written(store: RefusingStore, shown: Shown = SESSION) -> list[str]:
    return shown.among(store.view("default").get(SHOWINGS, shown.row_id(local())))


async def test_what_is_noted_is_known_before_it_is_written(store: RefusingStore) -> None:
    showings = on(store)
    store.gate.clear()

    showings.note(local(), SESSION, ["a", "b"])

    assert showings.known(local(), SESSION) == {"a", "b"}
    assert showings.known(local(), Shown("s")) == {"a", "b"}
    assert written(store) == []
    store.gate.set()
    await showings.settle(local(), SESSION)
    assert (written(store), sorted(showings.known(local(), SESSION))) == (["a", "b"], ["a", "b"])


async def test_what_comes_while_something_is_written_goes_with_one_more_write(store: RefusingStore) -> None:
    showings = on(store)
    store.gate.clear()
    for number in range(50):
        showings.note(local(), SESSION, [f"k{number}"])
        await asyncio.sleep(0)
    store.gate.set()

    await showings.close()

    assert (len(written(store)), store.last_seq) == (50, 2)


async def test_nobody_named_is_nobody_shown(store: RefusingStore) -> None:
    showings = on(store)

    showings.note(local(), Shown(), ["a"])
    await showings.close()

    assert (showings.known(local(), Shown()), store.last_seq) == (frozenset(), 0)


async def test_sessions_goals_and_principals_do_not_mix_whatever_their_names(store: RefusingStore) -> None:
    showings = on(store)
    places = [Shown("a", "b"), Shown("a|b"), Shown("b", "a"), Shown(goal_id="a"), Shown(goal_id="b"), Shown("a:goal")]
    for number, shown in enumerate(places):
        showings.note(local(), shown, [f"k{number}"])
    await showings.close()

    assert [showings.known(local(), shown) for shown in places] == [{f"k{number}"} for number in range(len(places))]
    assert showings.known(caller(user_id="li"), places[0]) == frozenset()


async def test_a_row_keeps_the_newest_thousand(store: RefusingStore) -> None:
    clock = FakeClock()
    showings = Showings(store, clock)
    for number in range(3):
        clock.advance(1)
        showings.note(local(), Shown("s", f"g{number}"), [f"k{number}-{one}" for one in range(400)])
        await showings.settle(local(), Shown("s"))

    counts = [len(showings.known(local(), Shown("s", f"g{number}"))) for number in range(3)]

    assert (counts, len(showings.known(local(), Shown("s")))) == ([200, 400, 400], MAX_SHOWN)


async def test_a_store_that_refuses_fails_no_search_and_is_tried_again(store: RefusingStore) -> None:
    showings = on(store)
    store.refuses = True
    showings.note(local(), SESSION, ["a"])
    await showings.settle(local(), SESSION)

    assert (sorted(showings.known(local(), SESSION)), written(store), showings.failed) == (["a"], [], 1)
    store.refuses = False
    showings.note(local(), SESSION, ["b"])
    await showings.settle(local(), SESSION)
    assert written(store) == ["a", "b"]


async def test_what_piles_up_is_bounded_and_counted(store: RefusingStore) -> None:
    showings = on(store, close_s=0.05)
    store.gate.clear()
    for number in range(MAX_WAITING + 10):
        showings.note(local(), Shown(f"s{number}"), ["a"])

    await showings.close()

    assert showings.dropped == MAX_WAITING + 10
    assert showings.known(local(), Shown(f"s{MAX_WAITING + 5}")) == frozenset()


async def test_where_the_store_refuses_the_oldest_makes_room_for_the_newest(store: RefusingStore) -> None:
    showings = on(store)
    store.refuses = True
    for number in range(MAX_WAITING + 1):
        showings.note(local(), Shown(f"s{number}"), ["a"])
        await showings.settle(local(), Shown(f"s{number}"))

    known = [showings.known(local(), Shown(f"s{number}")) for number in (0, 1, MAX_WAITING)]

    assert (known, showings.dropped) == ([frozenset(), {"a"}, {"a"}], 1)


async def test_two_users_of_one_agent_are_shown_things_apart(store: RefusingStore) -> None:
    showings = on(store)
    one, other = caller(agent_id="claude", user_id="u1"), caller(agent_id="claude", user_id="u2")

    showings.note(one, SESSION, ["a"])
    await showings.settle(one, SESSION)

    assert showings.known(one, SESSION) == {"a"}
    assert showings.known(other, SESSION) == frozenset()
    assert showings.known(caller(agent_id="claude"), SESSION) == frozenset()


async def test_who_names_no_owner_is_known_by_their_project(store: RefusingStore) -> None:
    showings = on(store)

    showings.note(caller(project_id="x"), SESSION, ["a"])
    await showings.close()

    assert showings.known(caller(project_id="x"), SESSION) == {"a"}
    assert showings.known(caller(project_id="y"), SESSION) == frozenset()
