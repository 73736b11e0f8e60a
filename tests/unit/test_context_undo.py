"""Undoing any one commit of several that added to the same memories: what stands is what the others alone make."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowhub.context import edits
from knowhub.context.model import NODES
from knowhub.context.ports import ContextView
from knowhub.core.errors import Conflict
from knowhub.core.ids import RandomIds
from knowhub.core.messages import Message
from knowhub.core.operation import Draft, Row, Write
from knowhub.operations.service import OperationsService
from knowhub.stores.files.store import FileStore
from knowhub.wiring.rules import UNDO_RULES
from tests.builders import local, open_files
from tests.context_commits import SESSION, Desk, agent, tool, used, user

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
    used("grep", ok=True, seconds=1.5),
    used("grep", ok=False, note="no such file"),
    used("review", kind="skill", ok=True, note="take it slowly"),
    used("run tests", ok=True),
)
Session = tuple[str, Sequence[int], Sequence[int]]
"""The name of a session, what is said in it and which calls it names."""


class World:
    """A store with what commits to it and what undoes."""

    def __init__(self, folder: Path) -> None:
        self.store: FileStore = open_files(folder)
        self.desk = Desk(store=self.store)
        self.operations = OperationsService(self.store, RandomIds(), UNDO_RULES)

    async def commit(self, session: Session) -> str:
        name, said, calls = session
        messages = [
            user(SAID[one], f"{name}-{number}", f"2026-03-{10 + int(name[1:]):02}T10:0{number}:00Z")
            for number, one in enumerate(said)
        ]
        self.desk.clock.advance(60)
        done = await self.desk.commit(
            user(f"Hello from {name}.", f"{name}-x"),
            *messages,
            session_id=name,
            used_tools=[CALLS[one] for one in calls],
        )
        assert done.operation_id is not None
        return done.operation_id

    async def undo(self, operation_id: str) -> str:
        done = await self.operations.undo(local(), operation_id)
        return done.operation_ids[0]

    def told(self) -> dict[str, Any]:
        """Return what stands, whatever its order and its moments."""
        return {str(row["id"]): _told(row) for row in self.live()}

    def live(self) -> list[Row]:
        view = self.store.view("default")
        rows = [view.get(NODES, head.uri) for head in view.context_heads() if not head.is_part]
        return [row for row in rows if row is not None]

    def row(self, ending: str) -> Row:
        return next(row for row in self.live() if str(row["id"]).endswith(ending))


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(row["metadata"])
    for name in ("source_refs", "message_ids", "sessions"):
        metadata[name] = sorted(metadata.get(name, ()))
    metadata.pop("counted_calls", None)
    # By the moment at which a call was noted: the same commit alone comes at another.
    metadata["growth"] = sorted(repr({**one, "used_at": None}) for one in metadata.get("growth", ()))
    stats = metadata.get("stats")
    content = str(row["content"])
    if stats:
        last = stats["last_used"]
        metadata["stats"] = {**stats, "last_used": None}
        content = content.replace(str(last)[:10], "DAY")
    edges = [(edge["to_uri"], edge["relation_type"]) for edge in row["relations"] if "/entities/" not in edge["to_uri"]]
    return {
        "lines": sorted(line for line in content.split("\n") if line),
        "abstract": sorted(str(row["abstract"]).replace("; last used", " ").split()) if not stats else None,
        "relations": sorted(edges),
        "metadata": metadata,
    }


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


@pytest.mark.parametrize("seed", range(12))
async def test_undoing_any_one_commit_leaves_what_the_others_alone_make(tmp_path: Path, seed: int) -> None:
    sessions = _sessions(seed, 4)
    for number in range(len(sessions)):
        world, others = World(tmp_path / f"all{number}"), World(tmp_path / f"others{number}")
        done = [await world.commit(session) for session in sessions]
        whole = world.told()
        for session in sessions[:number] + sessions[number + 1 :]:
            await others.commit(session)

        undone = await world.undo(done[number])
        left = world.told()
        await world.undo(undone)

        assert left == others.told()
        assert world.told() == whole
        await world.store.close()
        await others.store.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_commits_that_are_all_undone_in_any_order_leave_nothing(tmp_path: Path, order: tuple[int, ...]) -> None:
    for seed in range(6):
        world = World(tmp_path / str(seed))
        done = [await world.commit(session) for session in _sessions(seed, 3)]

        for number in order:
            await world.undo(done[number])

        assert world.live() == []
        await world.store.close()


async def test_an_undo_is_undone_where_others_added_since(tmp_path: Path) -> None:
    world, alone = World(tmp_path / "all"), World(tmp_path / "alone")
    sessions: list[Session] = [("s0", [0, 5], [0, 1]), ("s1", [1], [0, 2]), ("s2", [2, 4], [0])]
    first = await world.commit(sessions[0])
    await world.commit(sessions[1])
    undone = await world.undo(first)
    await world.commit(sessions[2])
    for session in sessions:
        await alone.commit(session)

    await world.undo(undone)

    assert {address: _lines(told) for address, told in world.told().items()} == {
        address: _lines(told) for address, told in alone.told().items()
    }
    await world.store.close()
    await alone.store.close()


def _lines(told: Mapping[str, Any]) -> list[str]:
    lines: list[str] = told["lines"]
    return lines


async def test_a_statement_that_two_sessions_told_goes_with_the_last_of_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    first, second = await world.commit(("s0", [0], [])), await world.commit(("s1", [0], []))

    await world.undo(first)
    content = world.row("preferences/drink")["content"]
    await world.undo(second)

    assert "session s1" in content
    assert "session s0" not in content
    assert world.live() == []
    await world.store.close()


TURNS = (
    ("user", "I love oolong tea and the garden of my aunt.", "2026-03-10T10:00:00Z"),
    ("assistant", "The garden of your aunt must be beautiful in spring.", "2026-03-10T10:01:00Z"),
    ("user", "I am allergic to peanuts, and so is my sister.", "2026-03-11T10:00:00Z"),
    ("system", "The assistant is to answer briefly.", None),
    ("user", "My sister Maria lives in Porto.", "2026-03-09T10:00:00Z"),
)


async def _turn(world: World, numbers: Sequence[int]) -> str:
    """Send these turns of one session, with a call that the last of them made."""
    said = [Message(TURNS[one][0], TURNS[one][1], "", f"t{one}", TURNS[one][2]) for one in numbers]
    calls = [replace(CALLS[0], call_id=f"c{numbers[-1]}")]
    done = await world.desk.commit(*said, session_id="s1", used_tools=calls)
    assert done.operation_id is not None
    return done.operation_id


def _summed_up(view: ContextView, abstract: str) -> Draft:
    head = edits.editable_head(view, local(), SESSION, None)
    row = edits.patched(head, edits.row_at(view, head), {"abstract": abstract}, view.now)
    assert row is not None
    return Draft("edit_memory", [Write(NODES, SESSION, row)])


@pytest.mark.parametrize("number", range(len(TURNS)))
async def test_any_commit_of_one_session_is_taken_back_and_the_others_stand(tmp_path: Path, number: int) -> None:
    world, others = World(tmp_path / "all"), World(tmp_path / "others")
    done = [await _turn(world, range(count)) for count in range(1, len(TURNS) + 1)]
    whole = world.told()
    for one in range(len(TURNS)):
        if one != number:
            await _turn(others, [one])

    undone = await world.undo(done[number])
    left, parts = world.told(), [row["message_id"] for row in world.desk.parts(SESSION)]
    await world.undo(undone)

    assert left == others.told()
    assert parts == [f"t{one}" for one in range(len(TURNS)) if one != number]
    assert world.told() == whole
    await world.store.close()
    await others.store.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_turns_of_one_session_that_are_all_undone_in_any_order_leave_nothing(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    world = World(tmp_path)
    done = [await _turn(world, range(count)) for count in range(1, 4)]

    for number in order:
        await world.undo(done[number])

    assert world.live() == []
    assert world.desk.parts(SESSION) == []
    await world.store.close()


async def test_what_a_session_is_about_by_a_persons_word_stands_in_the_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = await _turn(world, [0])
    await _turn(world, [0, 1])
    await world.store.commit("default", "user:li", lambda view: _summed_up(view, "Tea."))

    with pytest.raises(Conflict) as refused:
        await world.undo(first)

    conflicts: Any = refused.value.extra["conflicts"]
    assert [conflict["id"] for conflict in conflicts] == [SESSION]
    assert world.row("sessions/s1")["abstract"] == "Tea."
    await world.store.close()


async def test_a_commit_whose_places_others_have_taken_does_not_come_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    await _turn(world, [0])
    undone = await world.undo(await _turn(world, [1]))
    await _turn(world, [2])

    with pytest.raises(Conflict):
        await world.undo(undone)

    assert [row["message_id"] for row in world.desk.parts(SESSION)] == ["t0", "t2"]
    await world.store.close()


FIXES = ("I use ~/.local instead.", "I run it with sudo now.", "I changed the owner of the folder.")


async def _case(world: World, number: int) -> str:
    """Tell of the same failure in a session of its own, and of what helped there."""
    done = await world.desk.commit(
        tool("Error: permission denied: /opt", "shell", f"e{number}"),
        agent(f"It needs a prefix of its own; {FIXES[number]}", f"f{number}"),
        tool("done", "shell", f"d{number}"),
        session_id=f"s{number}",
    )
    assert done.operation_id is not None
    return done.operation_id


@pytest.mark.parametrize("number", range(len(FIXES)))
async def test_of_a_case_that_three_sessions_tell_each_can_be_taken_back(tmp_path: Path, number: int) -> None:
    world = World(tmp_path)
    done = [await _case(world, one) for one in range(len(FIXES))]
    whole = world.row("cases/" + _case_name(world))

    undone = await world.undo(done[number])
    left = world.row("cases/" + _case_name(world))
    await world.undo(undone)

    assert [fix in left["content"] for fix in FIXES] == [one != number for one in range(len(FIXES))]
    assert FIXES[1 if number == 0 else 0] in left["abstract"] + left["overview"]
    assert FIXES[number] not in left["abstract"] + left["overview"]
    again = world.row("cases/" + _case_name(world))
    assert [again[name] for name in ("abstract", "overview", "content")] == [
        whole[name] for name in ("abstract", "overview", "content")
    ]
    await world.store.close()


def _case_name(world: World) -> str:
    (name,) = {str(row["id"]).rpartition("/")[2] for row in world.live() if row["category"] == "cases"}
    return name


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_a_case_goes_with_the_last_session_that_tells_it(tmp_path: Path, order: tuple[int, ...]) -> None:
    world = World(tmp_path)
    done = [await _case(world, one) for one in range(len(FIXES))]

    for number in order:
        await world.undo(done[number])

    assert world.live() == []
    await world.store.close()


async def test_a_section_of_a_case_that_a_person_wrote_into_stands_in_the_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    first, second = await _case(world, 0), await _case(world, 1)
    row = world.row("cases/" + _case_name(world))
    edited = {**row, "content": str(row["content"]).replace(FIXES[0], "Mine."), "version": row["version"] + 1}
    await world.store.commit(
        "default", "user:li", lambda _view: Draft("edit_memory", [Write(NODES, row["id"], edited)])
    )

    with pytest.raises(Conflict):
        await world.undo(first)
    await world.undo(second)

    assert "Mine." in world.row("cases/" + _case_name(world))["content"]
    await world.store.close()


async def test_what_a_later_commit_replaced_stands_in_the_way_and_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    done = await world.desk.commit(user("I live in Berlin.", "m1"), session_id="s0")
    await world.desk.commit(user("I live in Munich.", "m2"), session_id="s1")
    assert done.operation_id is not None

    with pytest.raises(Conflict) as refused:
        await world.undo(done.operation_id)

    conflicts: Any = refused.value.extra["conflicts"]
    assert [conflict["id"].rpartition("/")[2] for conflict in conflicts] == ["profile"]
    assert "Munich" in world.row("profile")["content"]
    await world.store.close()


async def test_what_was_said_not_to_be_so_stands_again_where_that_is_taken_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.desk.commit(user("I live in Berlin.", "m1"), session_id="s0")
    before = world.row("profile")
    ending = await world.desk.commit(user("I don't live in Berlin anymore.", "m2"), session_id="s1")
    await world.desk.commit(user("I work as a nurse.", "m3"), session_id="s2")
    assert ending.operation_id is not None

    await world.undo(ending.operation_id)

    profile = world.row("profile")
    assert "- I live in Berlin." in profile["content"]
    assert "anymore" not in profile["content"]
    assert "nurse" in profile["content"]
    assert profile["metadata"]["values"].items() >= before["metadata"]["values"].items()
    await world.store.close()


@pytest.mark.parametrize("ending", ["preferences/drink", "tools/grep"])
async def test_what_a_person_edited_since_stands_in_the_way(tmp_path: Path, ending: str) -> None:
    world = World(tmp_path)
    first = await world.commit(("s0", [0], [0]))
    await world.commit(("s1", [1], [0]))
    row = world.row(ending)
    edited = {**row, "overview": "Mine.", "version": row["version"] + 1}
    await world.store.commit(
        "default", "user:li", lambda _view: Draft("edit_memory", [Write(NODES, row["id"], edited)])
    )

    with pytest.raises(Conflict) as refused:
        await world.undo(first)

    conflicts: Any = refused.value.extra["conflicts"]
    assert [conflict["id"] for conflict in conflicts] == [row["id"]]
    assert "overview" in conflicts[0]["fields"]
    await world.store.close()
