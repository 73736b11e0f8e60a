"""A log line of another program, with a right checksum and a missing or odd field: every reader reports it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.errors import ReadOnly
from knowhub.core.operation import Change, Operation
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.log.log_line import CHECKSUM_BYTES, add_checksum, parse_line
from knowhub.stores.files.store import StoreOptions
from tests.builders import Domain, local, new_knowledge, open_domain
from tests.crash.repaired_logs import change_line, list_problems, repair_folder
from tests.crash.test_two_processes import map_lock
from tests.erasing import find_files_with
from tests.hubs import open_hub_at

pytestmark = pytest.mark.anyio

SEGMENT = Path("change_log") / "segment-00000001.jsonl"
CONTENT = "Wait for the element before clicking it."

Spoil = Callable[[dict[str, Any]], None]


def drop_field(name: str) -> Spoil:
    return lambda record: record.pop(name)


def drop_row_field(name: str) -> Spoil:
    return lambda record: record["changes"][0].pop(name)


def set_field(name: str, value: object) -> Spoil:
    def change(record: dict[str, Any]) -> None:
        record[name] = value
        # Room for it.
        record["changes"][0]["after"]["content"] = ""

    return change


def set_row_field(name: str, value: object) -> Spoil:
    return lambda record: record["changes"][0].update({name: value})


FIELDS = (
    "batch",
    "op",
    "operation_id",
    "account",
    "actor",
    "timestamp",
    "changes",
    "agent_io",
    "undo_of",
    "idempotency",
)
LINES: dict[str, Spoil] = {
    **{f"without {name}": drop_field(name) for name in FIELDS},
    **{f"a row without {name}": drop_row_field(name) for name in ("collection", "id", "before", "after")},
    "a number for what a model said": set_field("agent_io", 1),
    "a number in what a model said": set_field("agent_io", [1]),
    "a number for the reply": set_field("reply", 1),
    "a number for what is undone": set_field("undo_of", 1),
    "a key without its parts": set_field("idempotency", {}),
    "a group without its parts": set_field("group", {"id": "x"}),
    "a number for a row": set_row_field("after", 1),
    "a number for the row before": set_row_field("before", 1),
}
ROWS: dict[str, Spoil] = {"a row without fields": set_row_field("after", {})}
# Every reader decodes a line in one of two ways, and both are tested with all of them. The others read a sample.
SAMPLE = ("without op", "without changes", "a row without after", "a number for the reply", "a number for a row")
each_sample = pytest.mark.parametrize("change", [LINES[name] for name in SAMPLE], ids=SAMPLE)
each_way = pytest.mark.parametrize("change", (LINES | ROWS).values(), ids=(LINES | ROWS).keys())


def rewrite(line: bytes, change: Spoil) -> bytes:
    """Rewrite a line as another program would: with the same length, so that only the change is wrong."""
    record = parse_line(line)
    assert record is not None
    del record["crc"]
    change(record)
    text, room = orjson.dumps(record), len(line) - CHECKSUM_BYTES + 1
    return add_checksum(text[:-1] + b" " * (room - len(text)))


def replace_operation(folder: Path, seq: int, change: Spoil) -> int:
    """Put a line of another program in the place of an operation's; return where it begins."""
    return change_line(folder / SEGMENT, seq, lambda line: rewrite(line, change))


def seal_invalid_utf8(line: bytes) -> bytes:
    """Seal a line with bytes in a row that are no UTF-8."""
    return add_checksum(line[:-CHECKSUM_BYTES].replace(b"Wait", b"\xff\xfe\xfd\xfc"))


class RowListener:
    """Listens to a store, as projections do, and checks that it gets complete rows."""

    def __init__(self) -> None:
        self.seqs: list[int] = []

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None:
        assert account == "default"
        assert all(change.after["id"] == change.id for change in changes)
        self.seqs.append(seq)


@asynccontextmanager
async def reader_and_writer(folder: Path) -> AsyncIterator[tuple[Domain, Domain]]:
    async with open_domain(folder) as reader, open_domain(folder) as writer:
        reader.store.subscribe(RowListener())
        yield reader, writer


async def save(hub: Domain | Hub, text: str) -> str:
    return str((await hub.knowledge.records.save(local(), new_knowledge(f"{text}: {CONTENT}"))).record["id"])


async def list_seqs(operations: AsyncIterator[Operation]) -> list[int]:
    return [operation.seq async for operation in operations]


@each_way
async def test_a_follower_reports_a_foreign_line_and_continues(tmp_path: Path, change: Spoil) -> None:
    async with reader_and_writer(tmp_path) as (reader, writer):
        first = await save(writer, "first")
        await reader.store.refresh()
        await save(writer, "second")
        offset = replace_operation(tmp_path, 2, change)

        await reader.store.refresh()
        status = reader.store.status()
        history = await list_seqs(reader.store.operations("default"))

        assert f"{SEGMENT.name} at offset {offset}" in (status.reason or "")
        assert history == [1]
        assert (await reader.knowledge.records.get(local(), first)).version == 1
        with pytest.raises(ReadOnly):
            await reader.knowledge.records.save(local(), new_knowledge("third"))


@each_sample
async def test_a_foreign_line_does_not_change_rows(tmp_path: Path, change: Spoil) -> None:
    async with reader_and_writer(tmp_path) as (reader, writer):
        first = await save(writer, "first")
        before = await reader.knowledge.records.get(local(), first)
        await writer.knowledge.records.patch(local(), first, {"content": CONTENT})
        replace_operation(tmp_path, 2, change)

        await reader.store.refresh()
        followed = await reader.knowledge.records.get(local(), first)
    async with open_domain(tmp_path) as hub:
        reopened = await hub.knowledge.records.get(local(), first)

    assert followed == before
    assert reopened == before


@each_way
async def test_opening_reports_a_foreign_line_and_serves_the_rest(tmp_path: Path, change: Spoil) -> None:
    async with open_domain(tmp_path) as hub:
        for text in ("first", "second", "third"):
            await save(hub, text)
    offset = replace_operation(tmp_path, 2, change)

    async with open_domain(tmp_path) as hub:
        status = hub.store.status()
        history = await list_seqs(hub.store.operations("default"))

        assert [damage.offset for damage in status.damage] == [offset]
        assert history == [3, 1]
        with pytest.raises(ReadOnly):
            await hub.knowledge.records.save(local(), new_knowledge("fourth"))


@each_sample
async def test_history_reports_a_line_changed_later(tmp_path: Path, change: Spoil) -> None:
    async with open_domain(tmp_path) as hub:
        ids = [await save(hub, text) for text in ("first", "second")]
        (second, _) = [operation.operation_id async for operation in hub.store.operations("default")]
        offset = replace_operation(tmp_path, 2, change)

        history = await list_seqs(hub.store.operations("default"))
        touching = [await list_seqs(hub.store.operations_on("default", KNOWLEDGE, row_id)) for row_id in ids]

        assert await hub.store.operation("default", second) is None
        assert history == [1]
        assert touching == [[1], []]
        assert [damage.offset for damage in hub.store.status().damage] == [offset]


@each_sample
async def test_the_doctor_names_it_and_takes_it_out(tmp_path: Path, change: Spoil) -> None:
    async with open_domain(tmp_path) as hub:
        for text in ("first", "second", "third"):
            await save(hub, text)
    offset = replace_operation(tmp_path, 2, change)

    named = list_problems(tmp_path)
    repair_folder(tmp_path)

    assert any(f"{SEGMENT.name}: offset {offset}" in problem for problem in named)
    assert list_problems(tmp_path) == []
    async with open_domain(tmp_path) as hub:
        assert hub.store.status().damage == []
        assert [item.seq async for item in hub.store.operations("default") if item.changes] == [3, 1]
        await hub.knowledge.records.save(local(), new_knowledge("fourth"))


async def test_a_follower_reports_invalid_utf8(tmp_path: Path) -> None:
    async with reader_and_writer(tmp_path) as (reader, writer):
        await writer.knowledge.records.save(local(), new_knowledge(CONTENT))
        offset = change_line(tmp_path / SEGMENT, 1, seal_invalid_utf8)

        await reader.store.refresh()

        assert f"{SEGMENT.name} at offset {offset}" in (reader.store.status().reason or "")


@pytest.mark.parametrize(
    "anew",
    [seal_invalid_utf8, lambda line: rewrite(line, ROWS["a row without fields"])],
    ids=["no text", "a row without fields"],
)
async def test_recovery_after_a_dead_writer_reports_a_foreign_line(
    tmp_path: Path, anew: Callable[[bytes], bytes]
) -> None:
    async with reader_and_writer(tmp_path) as (reader, writer):
        with map_lock(tmp_path) as words:
            durable = words[4]
            await writer.knowledge.records.save(local(), new_knowledge(CONTENT))
            # The line is on the disk and the stamp is odd: this is where the writer died.
            words[4] = durable
            words[1] -= 1
        offset = change_line(tmp_path / SEGMENT, 1, anew)

        await reader.store.refresh()

        assert f"{SEGMENT.name} at offset {offset}" in (reader.store.status().reason or "")


@pytest.mark.parametrize("change", [drop_row_field("id"), drop_row_field("after"), set_row_field("before", 1)])
async def test_an_erasure_also_erases_from_foreign_lines(tmp_path: Path, change: Spoil) -> None:
    secret = "quaggaplatformnine sings the midnightsong of veldtgrass"
    async with open_hub_at(tmp_path) as hub:
        row_id = (await hub.knowledge.records.save(local(), new_knowledge(secret))).record["id"]
        await hub.knowledge.records.patch(local(), row_id, {"content": f"{secret}, again"})
        replace_operation(tmp_path, 2, change)

        await hub.operations.erasure.erase(local(), KNOWLEDGE, row_id)

    assert find_files_with(tmp_path, secret) == []


async def test_a_segment_that_does_not_follow_the_one_before_is_named(tmp_path: Path) -> None:
    async with open_domain(tmp_path, options=StoreOptions(segment_bytes=1)) as hub:
        await save(hub, "first")
    second = tmp_path / "change_log" / "segment-00000002.jsonl"
    change_line(second, 0, lambda line: rewrite(line, lambda header: header.update(first_seq=2)))

    async with open_domain(tmp_path) as hub:
        (damage, *_) = hub.store.status().damage

    assert (Path(damage.path), damage.reason) == (second, "it begins with operation 2, and 1 was to follow")


@pytest.mark.parametrize("change", [set_row_field("after", 1), drop_field("account"), drop_field("changes")])
async def test_odd_rows_in_a_base_are_named_and_the_rest_is_served(tmp_path: Path, change: Spoil) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge(CONTENT))
        await hub.compact(0)
        kept = (await hub.knowledge.records.save(local(), new_knowledge("behind the base"))).record["id"]
    (base,) = (tmp_path / "change_log").glob("base-*")
    offset = change_line(base, 1, lambda line: rewrite(line, change))

    async with open_hub_at(tmp_path) as hub:
        damage = hub.store.status().damage
        version = (await hub.knowledge.records.get(local(), kept)).version
    named = list_problems(tmp_path)

    assert [(Path(item.path).name, item.offset) for item in damage] == [(base.name, offset)]
    assert version == 1
    assert any(f"{base.name}: offset {offset}" in problem for problem in named)
