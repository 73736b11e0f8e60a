"""Undo of commits: alone while nothing later changed the same memories, else together with what did."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowhub.context import edits
from knowhub.context.authoring import MemoryAuthoring
from knowhub.context.events import EventType, list_events
from knowhub.context.model import NODES, PARTS
from knowhub.context.queries import list_memories
from knowhub.conversations.messages import Message
from knowhub.core.collection import BOOKKEEPING
from knowhub.core.errors import Conflict
from knowhub.core.ids import RandomIds
from knowhub.core.operation import Draft, Row, View, Write
from knowhub.operations.model import UndoResult
from knowhub.operations.service import OperationsService
from knowhub.stores.files.store import FileStore
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import local, open_files
from tests.context_commits import LI, CommitBench, RecordingDirectories, tool_use, user_message

pytestmark = pytest.mark.anyio

SAID = (
    "I love oolong tea.",
    "I like green tea.",
    "I prefer tea to coffee.",
    "I love Italian food.",
    "My name is Li Wei.",
    "I live in Berlin.",
    "I am allergic to peanuts.",
    "My sister Maria lives in Porto.",
    "我喜欢喝绿茶。",
    "On 5 March 2026 I met Anna from Siemens.",
)
CALLS = (
    tool_use("grep", ok=True, seconds=1.5),
    tool_use("grep", ok=False, note="no such file"),
    tool_use("review", kind="skill", ok=True, note="take it slowly"),
    tool_use("run tests", ok=True),
)
Session = tuple[str, Sequence[int], Sequence[int]]
"""The name of a session, what is said in it and which calls it names."""
Rows = Mapping[str, Mapping[str, Any]]


class UndoAccount:
    """A store with the services that commit to it and undo."""

    def __init__(self, folder: Path) -> None:
        self.store: FileStore = open_files(folder)
        self.bench = CommitBench(store=self.store)
        self.operations = OperationsService(self.store, RandomIds(), COLLECTIONS)

    async def commit(self, session: Session) -> str:
        name, said, calls = session
        messages = [
            user_message(SAID[line], f"{name}-{number}", f"2026-03-{10 + int(name[1:]):02}T10:0{number}:00Z")
            for number, line in enumerate(said)
        ]
        self.bench.clock.advance(60)
        done = await self.bench.commit(
            user_message(f"Hello from {name}.", f"{name}-x"),
            *messages,
            session_id=name,
            used_tools=[CALLS[call] for call in calls],
        )
        assert done.operation_id is not None
        return done.operation_id

    async def say(self, number: int) -> str:
        """Add one turn, with a call that it made, to the session."""
        self.bench.clock.advance(60)
        turns = [
            Message(role, text, "", f"t{at}", moment) for at, (role, text, moment) in enumerate(TURNS[: number + 1])
        ]
        call = replace(CALLS[0], call_id=f"c{number}")
        done = await self.bench.commit(*turns, session_id="s1", used_tools=[call])
        assert done.operation_id is not None
        return done.operation_id

    async def edit(self, address: str, **fields: str) -> str:
        def decide(view: View) -> Draft:
            summary = edits.get_editable_summary(view, local(), address, None)
            row = edits.apply_patch(summary, edits.get_live_row(view, summary), fields, view.now)
            assert row is not None
            return Draft("edit_memory", [Write(NODES, address, row)])

        outcome: Any = await self.store.commit("default", "user:li", decide)
        return str(outcome.operation.operation_id)

    async def undo(self, operation_id: str, *, with_later: bool = False) -> UndoResult:
        return await self.operations.undo(local(), operation_id, with_later=with_later)

    async def find_blocking_changes(self, operation_id: str) -> object:
        with pytest.raises(Conflict) as refused:
            await self.undo(operation_id)
        return refused.value.extra["blocked_by"]

    def rows(self) -> Rows:
        """Return every live row without the fields that each write changes."""
        view = self.store.view("default")
        rows = [(PARTS if summary.is_part else NODES, summary.uri) for summary in list_memories(view)]
        return {uri: _content(view.get(name, uri) or {}) for name, uri in rows}

    async def list_events(self, operation_id: str, address: str) -> list[EventType]:
        """Return the events of an operation for one node."""
        operation = (await self.operations.get(local(), operation_id)).operation
        asked = list_events("default", operation.seq, operation.timestamp, operation.changes)
        return [event.event_type for event in asked if event.uri == address]

    def uri(self, ending: str) -> str:
        return next(uri for uri in self.rows() if uri.endswith(ending))


def _content(row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if (name,) not in BOOKKEEPING}


def _sessions(seed: int, count: int) -> list[Session]:
    draw = random.Random(seed)
    return [
        (
            f"s{number}",
            draw.sample(range(len(SAID)), draw.randint(1, 4)),
            draw.sample(range(len(CALLS)), draw.randint(0, 3)),
        )
        for number in range(count)
    ]


TURNS = (
    ("user", "I love oolong tea and the garden of my aunt.", "2026-03-10T10:00:00Z"),
    ("assistant", "The garden of your aunt must be beautiful in spring.", "2026-03-10T10:01:00Z"),
    ("user", "I am allergic to peanuts, and so is my sister.", "2026-03-11T10:00:00Z"),
    ("system", "The assistant is to answer briefly.", None),
    ("user", "My sister Maria lives in Porto.", "2026-03-09T10:00:00Z"),
)


@pytest.mark.parametrize("seed", range(6))
async def test_undoing_commits_newest_first_restores_each_state(tmp_path: Path, seed: int) -> None:
    account = UndoAccount(tmp_path)
    states, done = [account.rows()], []
    for session in _sessions(seed, 4):
        done.append(await account.commit(session))
        states.append(account.rows())

    for number in reversed(range(4)):
        await account.undo(done[number])
        assert account.rows() == states[number]
    await account.store.close()


@pytest.mark.parametrize("seed", range(6))
async def test_a_commit_is_undone_with_later_ones_and_redone_as_a_group(tmp_path: Path, seed: int) -> None:
    account = UndoAccount(tmp_path)
    done = [await account.commit(session) for session in _sessions(seed, 4)]
    whole = account.rows()
    for number in range(4):
        undone = await account.undo(done[number], with_later=True)
        left = account.rows()
        group = await account.operations.get(local(), undone.operation_ids[0])
        name = group.operation.group.id if group.operation.group else undone.operation_ids[0]

        await account.undo(name)

        assert undone.undone[0] == done[number]
        assert set(undone.undone) <= set(done[number:])
        assert not any(uri.endswith(f"/s{number}") for uri in left)
        assert account.rows() == whole
    await account.store.close()


@pytest.mark.parametrize("number", range(len(TURNS)))
async def test_a_turn_is_undone_with_the_turns_after_it(tmp_path: Path, number: int) -> None:
    account = UndoAccount(tmp_path)
    states, done = [account.rows()], []
    for turn in range(len(TURNS)):
        done.append(await account.say(turn))
        states.append(account.rows())

    if number < len(TURNS) - 1:
        assert done[number + 1] in await account.find_blocking_changes(done[number])  # type: ignore[operator]  # a list in JSON
    await account.undo(done[number], with_later=True)

    assert account.rows() == states[number]
    await account.store.close()


async def test_a_commit_that_shares_no_memory_with_later_ones_is_undone_alone(tmp_path: Path) -> None:
    account = UndoAccount(tmp_path)
    first, second = await account.commit(("s0", [0], [])), await account.commit(("s1", [5], []))

    await account.undo(first)

    assert not any(uri.endswith("/s0") for uri in account.rows())
    assert any(uri.endswith("/s1") for uri in account.rows())
    assert (await account.operations.get(local(), second)).undone_by is None
    await account.store.close()


@pytest.mark.parametrize(("ending", "session"), [("profile", ("s0", [4], [])), ("tools/grep", ("s0", [], [0]))])
async def test_a_later_edit_blocks_an_undo_and_is_named(tmp_path: Path, ending: str, session: Session) -> None:
    account = UndoAccount(tmp_path)
    first = await account.commit(session)
    edited = await account.edit(account.uri(ending), overview="Mine.")

    assert await account.find_blocking_changes(first) == [edited]
    await account.undo(first, with_later=True)

    assert account.rows() == {}
    await account.store.close()


async def test_a_commit_is_not_redone_after_a_later_commit(tmp_path: Path) -> None:
    account = UndoAccount(tmp_path)
    await account.commit(("s1", [0], []))
    undone = await account.undo(await account.commit(("s1", [0, 1], [])))
    later = await account.commit(("s1", [0, 2], []))

    assert await account.find_blocking_changes(undone.operation_ids[0]) == [later]
    await account.store.close()


async def test_only_the_move_is_announced_as_a_move_and_edges_return_with_their_memory(tmp_path: Path) -> None:
    account = UndoAccount(tmp_path)
    authoring = MemoryAuthoring(account.store, RecordingDirectories(), str)
    await account.bench.commit(user_message("Hello."), used_tools=[tool_use("grep")])
    old = account.uri("tools/grep")
    new = old.replace("grep", "rg")

    moved = await authoring.move(LI, old, new)
    deleted = await authoring.delete(LI, new)
    returned = await account.undo(deleted)
    await authoring.delete(LI, new)
    anew = await account.bench.commit(user_message("Hello."), user_message("Again."), used_tools=[tool_use("rg")])

    ids = [moved.operation_id, returned.operation_ids[0], anew.operation_id]
    assert [await account.list_events(str(item), new) for item in ids] == [
        [EventType.MOVE_CONTEXT, EventType.UPSERT_RELATION],
        [EventType.UPSERT_CONTEXT, EventType.UPSERT_RELATION],
        [EventType.UPSERT_CONTEXT, EventType.UPSERT_RELATION],
    ]
    await account.store.close()
