"""A program that runs every mutating verb once and reports each one. Tests kill it or inject faults.

`python -m tests.crash.reporting_writer FOLDER SEGMENT_BYTES` prints one line of JSON for each verb: the rows of the
answer, or the error and whether reading still worked.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.errors import KnowHubError
from knowhub.knowledge.model import Feedback, OnConflict
from knowhub.stores.files.store import StoreOptions
from tests.builders import Domain, domain_on, import_line, local, new_knowledge
from tests.crash.killed_writers import TOGETHER, open_writer_store

Row = Mapping[str, Any]
LINES = 1001


async def work(folder: Path, segment_bytes: int) -> None:
    """Run one verb after another and report each."""
    store = open_writer_store(folder, StoreOptions(segment_bytes=segment_bytes))
    hub = domain_on(store)
    told: list[str] = []
    for number, verb in enumerate(VERBS * 2):
        try:
            rows = await verb(hub, told, number)
            told += [row["id"] for row in rows if row["id"] not in told]
            tell({"rows": [{"id": row["id"], "version": row["version"]} for row in rows]})
        except KnowHubError as problem:
            tell({"refused": type(problem).__name__, "read": len([await read_version(hub, row_id) for row_id in told])})
    await store.close()


def tell(record: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(record) + b"\n")
    sys.stdout.buffer.flush()


async def read_version(hub: Domain, knowledge_id: str) -> int:
    return (await hub.knowledge.records.get(local(), knowledge_id)).version


async def save(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    return [(await hub.knowledge.records.save(local(), new_knowledge(f"saved {number}"))).record]


async def save_batch(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    items = [new_knowledge(f"{number} {index}", task=f"together {number}") for index in range(TOGETHER)]
    return [saved.record for saved in (await hub.knowledge.records.save_batch(local(), items)).records]


async def patch(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    knowledge_id = await first_id(hub, told)
    return [(await hub.knowledge.records.patch(local(), knowledge_id, {"content": f"patched {number}"})).record]


async def vote(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    case = Feedback(helpful_case={"task": f"vote {number}"})
    return [(await hub.knowledge.records.give_feedback(local(), await first_id(hub, told), case)).record]


async def import_group(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    # Over a thousand lines are several operations, which are all there or none.
    lines = [import_line(f"import-{number}-{index}", f"line {number} {index}") for index in range(LINES)]
    await hub.knowledge.exchange.import_lines(local(), lines, OnConflict.FAIL)
    return [{"id": line.id, "version": 1} for line in lines]


async def undo(hub: Domain, told: list[str], number: int) -> Sequence[Row]:
    row = await hub.knowledge.records.patch(local(), await first_id(hub, told), {"content": f"to be undone {number}"})
    undone = await hub.operations.log.undo(local(), row.operation_id or "")
    return [change.after for change in undone.changes]


async def first_id(hub: Domain, told: list[str]) -> str:
    if not told:
        # The first save was refused: this one is an answer like any other, or a refusal.
        return str((await save(hub, told, -1))[0]["id"])
    return told[0]


VERBS: tuple[Callable[[Domain, list[str], int], Coroutine[Any, Any, Sequence[Row]]], ...] = (
    save,
    save_batch,
    patch,
    vote,
    import_group,
    undo,
)

if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
