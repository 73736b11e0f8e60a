"""A program that forks writers, kills each at a random moment, and checks the folder afterwards.

`python -m tests.crash.killed_writers FOLDER POINTS SEED` prints one line of JSON. Forking here, in a program with no
threads and everything imported, makes a point cost a fifth of a second.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.operation import Committed, Draft, Group, Write
from knowhub.engine.view import AccountView
from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import FileStore, StoreOptions, open_store
from tests.builders import Domain, domain_on, knowledge_row, local, new_knowledge
from tests.collections_of_tests import WITH_NOTES

WRITERS = 32
TOGETHER = 4
POINTS_A_FOLDER = 10
# Several segments come and go while a folder is written.
OPTIONS = StoreOptions(segment_bytes=200_000)


@dataclass(slots=True)
class Tally:
    """The writes that were acknowledged in one folder, and the problems found in it."""

    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    points: int = 0
    operations: int = 0
    quarantined: int = 0
    lost: list[str] = field(default_factory=list)
    half_applied: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def main(root: Path, points: int, seed: int) -> None:
    """Kill writers `points` times, and print the results."""
    rng = random.Random(seed)

    def kill_and_compare(turn: int, tally: Tally) -> None:
        kill_once(root / str(turn), rng, tally)
        asyncio.run(reopen_and_compare(root / str(turn), tally))

    strike(points, kill_and_compare)


def strike(points: int, once: Callable[[int, Tally], None], clear: Callable[[], None] = lambda: None) -> None:
    """Do something `points` times, ten times in each turn; `clear` the folder behind it, and print the results."""
    total: Counter[str] = Counter()
    named: list[str] = []
    for turn, first in enumerate(range(0, points, POINTS_A_FOLDER)):
        tally = Tally()
        for _ in range(min(POINTS_A_FOLDER, points - first)):
            once(turn, tally)
            if tally.damage:
                # Nothing more is written on it.
                break
        clear()
        named += tally.lost + tally.half_applied + tally.damage
        total.update(points=tally.points, operations=tally.operations, quarantined=tally.quarantined)
        total.update(lost=len(tally.lost), half_applied=len(tally.half_applied), damaged=len(tally.damage))
    sys.stdout.write(json.dumps({**total, "named": named[:20]}) + "\n")


def kill_once(folder: Path, rng: random.Random, tally: Tally, cut: Callable[[], None] | None = None) -> None:
    """Fork a writer, let it run for a moment, kill it, and note all writes that it acknowledged.

    With `cut` the power goes away before the kill, and only what was told before that counts: a sync that is under way
    in that moment may return well though the journal has dropped what it waited for, and no power cut leaves a process
    alive to hear it.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            asyncio.run(write_for_ever(folder, write_end))
        finally:
            os._exit(1)
    os.close(write_end)
    # Most kills meet writers at work; some meet a store that is being opened.
    if rng.random() < 0.9:
        select.select([read_end], [], [], 20)
    time.sleep(rng.random() * 0.06)
    told = b""
    if cut is not None:
        told = read_available(read_end)
        cut()
    os.kill(child, signal.SIGKILL)
    with os.fdopen(read_end, "rb") as pipe:
        told = told if cut is not None else pipe.read()
    os.waitpid(child, 0)
    for line in told.split(b"\n")[:-1]:
        note_answer(tally, json.loads(line))
    tally.points += 1


def read_available(pipe: int) -> bytes:
    """Return the bytes that are waiting in a pipe."""
    pieces = []
    while select.select([pipe], [], [], 0)[0] and (piece := os.read(pipe, 65536)):
        pieces.append(piece)
    return b"".join(pieces)


def note_answer(tally: Tally, told: dict[str, Any]) -> None:
    tally.operations += 1
    for row in told["rows"]:
        known = tally.acknowledged.get(row["id"])
        if known is None or known["version"] < row["version"]:
            tally.acknowledged[row["id"]] = row


async def reopen_and_compare(folder: Path, tally: Tally) -> None:
    """Reopen the folder and compare it with the acknowledged writes; then write one row more for the next kill."""
    store = open_writer_store(folder)
    try:
        compare(store, tally)
        if store.status().writable:
            saved = await domain_on(store).knowledge.records.save(
                local(), new_knowledge(f"after {time.monotonic_ns()}")
            )
            tally.acknowledged[saved.record["id"]] = {"version": 1}
    finally:
        await store.close()


def compare(store: FileStore, tally: Tally) -> None:
    rows = {row_id: orjson.loads(raw) for row_id, raw in store.account("default").memory_table(KNOWLEDGE).texts()}
    for row_id, told in tally.acknowledged.items():
        row = rows.get(row_id)
        if row is None or row["version"] < told["version"]:
            tally.lost.append(f"{row_id} at version {told['version']}")
    together = Counter(row["task"] for row in rows.values() if row["task"].startswith("together "))
    tally.half_applied += [task for task, count in together.items() if count != TOGETHER]
    status = store.status()
    tally.damage += [str(damage) for damage in status.damage]
    tally.quarantined += len(status.quarantined)


async def write_for_ever(folder: Path, told: int) -> None:
    """Run many writers that report each write after its acknowledgement."""
    hub = domain_on(open_writer_store(folder))
    await asyncio.gather(*(write(hub, random.Random(number), told) for number in range(WRITERS)))


async def write(hub: Domain, rng: random.Random, told: int) -> None:
    ids: list[str] = []
    verbs = (save_one, save_many, save_group, vote, patch, delete_and_undo)
    while True:
        rows = await rng.choice(verbs)(hub, ids, f"{rng.random()} {time.monotonic_ns()}")
        ids += [row["id"] for row in rows]
        brief = [{"id": row["id"], "version": row["version"]} for row in rows]
        os.write(told, json.dumps({"rows": brief}).encode() + b"\n")


async def save_one(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    return [(await hub.knowledge.records.save(local(), new_knowledge(unique))).record]


async def save_many(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    task = f"together {unique}"
    items = [new_knowledge(f"{unique} {number}", task=task) for number in range(TOGETHER)]
    return [saved.record for saved in (await hub.knowledge.records.save_batch(local(), items)).records]


async def save_group(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    decides = [group_draft(unique, number) for number in range(TOGETHER)]
    outcomes = await hub.store.commit_group("default", "user:local", decides)
    return [outcome.operation.changes[0].after for outcome in outcomes if isinstance(outcome, Committed)]


def group_draft(unique: str, number: int) -> Callable[[AccountView], Draft]:
    def decide(view: AccountView) -> Draft:
        row = knowledge_row(f"group-{unique}-{number}", content=f"{unique} {number}", task=f"together {unique}")
        return Draft("import_knowledge", [Write(KNOWLEDGE, row["id"], row)], group=Group(unique, number, TOGETHER))

    return decide


async def vote(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    if not ids:
        return await save_one(hub, ids, unique)
    case = Feedback(helpful_case={"task": unique})
    return [(await hub.knowledge.records.give_feedback(local(), ids[len(unique) % len(ids)], case)).record]


async def patch(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    if not ids:
        return await save_one(hub, ids, unique)
    return [(await hub.knowledge.records.patch(local(), ids[-1], {"content": unique})).record]


async def delete_and_undo(hub: Domain, ids: list[str], unique: str) -> list[Any]:
    row = (await hub.knowledge.records.save(local(), new_knowledge(unique))).record
    operation_id = await hub.knowledge.records.delete(local(), row["id"])
    undone = await hub.operations.log.undo(local(), operation_id)
    return [change.after for change in undone.changes]


def open_writer_store(folder: Path, options: StoreOptions = OPTIONS) -> FileStore:
    return open_store(folder, FileSystem(), SystemClock(), RandomIds(), WITH_NOTES, options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
