"""`knowhub doctor` and `knowhub doctor --repair`: what is named, and that a check writes nothing."""

import asyncio
import fcntl
import gzip
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest

from knowhub.bootstrap import Hub, check_directory, open_hub, repair_directory
from knowhub.core.errors import Conflict, Unavailable
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.keywords.tree_check import TreeCheck
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.table import list_live_records
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Finding
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.log.log_line import add_checksum
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, local, new_knowledge
from tests.doctoring import inspect
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.fakes.plain_text import PlainText
from tests.keyword_rows import info_row, keyword_row, link_row

RECORDS = 12
REBUILT = "does not fit the log; the leader writes it again"
STUMP = b'{"seq":99,"ba'
Spoil: TypeAlias = Callable[[Path], object]


def make_settings(root: Path) -> Settings:
    return Settings(data_dir=root, owner=OWNER, maps_interval_s=0, segment_bytes=4096)


def run_in_hub(root: Path, work: Callable[[Hub], Any] | None = None) -> None:
    async def run() -> None:
        async with open_hub(make_settings(root), Overrides(text=PlainText()), maintain=False) as hub:
            if work is not None:
                await work(hub)

    asyncio.run(run())


async def fill(hub: Hub) -> None:
    keyword = await hub.keywords.tree.create(local(), NewKeyword("Python", allow_duplicate=True), auto_place=False)
    await hub.keywords.infos.create(local(), NewInfo("said", keyword_ids=[keyword.record["id"]]))
    for number in range(RECORDS):
        await hub.knowledge.records.save(local(), new_knowledge(f"text {number}"))


async def compact(hub: Hub) -> None:
    await hub.compact(0)


async def snap(hub: Hub) -> None:
    await hub.operations.snapshots.create()


async def erase(hub: Hub) -> None:
    record = next(iter(list_live_records(hub.store.view("default"))))
    await hub.operations.erasure.erase(local(), KNOWLEDGE, record.id)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    run_in_hub(root, fill)
    return root


def segment(root: Path, index: int) -> Path:
    return sorted((root / "change_log").glob("segment-*"))[index]


def base(root: Path) -> Path:
    return next((root / "change_log").glob("base-*"))


def rewrite_line(path: Path, line: int, **fields: object) -> None:
    """Rewrite one line of a file with other fields and a right checksum."""
    lines = path.read_bytes().splitlines(keepends=True)
    record = orjson.loads(lines[line])
    del record["crc"]
    lines[line] = add_checksum(orjson.dumps(record | fields)[:-1])
    path.write_bytes(b"".join(lines))


def replace_byte(path: Path, where: bytes) -> None:
    content = path.read_bytes()
    at = content.index(where)
    path.write_bytes(content[:at] + b"#" + content[at + 1 :])


def append(path: Path, data: bytes) -> None:
    path.write_bytes((path.read_bytes() if path.exists() else b"") + data)


def copy_lock(root: Path) -> None:
    shutil.copy(root / "LOCK", root / "LOCK.copy")
    (root / "LOCK.copy").rename(root / "LOCK")


def mark_suspect(root: Path) -> None:
    lock = LockFile(FileSystem(), root / "LOCK")
    lock.mark_suspect()
    lock.close()


def index_metadata(root: Path) -> Path:
    return next(root.glob("indexes/lexical/*/built.json"))


def change_index_log(root: Path) -> None:
    metadata = orjson.loads(index_metadata(root).read_bytes())
    index_metadata(root).write_bytes(orjson.dumps(metadata | {"log_id": "f" * 32}))


def forget_length(root: Path) -> None:
    checkpoint = root / "records/checkpoint.json"
    lengths = orjson.loads(checkpoint.read_bytes())["lengths"]
    del lengths["links.jsonl"]
    rewrite_line(checkpoint, 0, lengths=lengths)


def remove_maps(root: Path) -> None:
    for path in (root / "indexes").glob("*.json"):
        path.unlink()


def keep_derived(root: Path, work: Callable[[Hub], Any]) -> None:
    """Do work, and bring the derived files back as they were before it."""
    for name in ("records", "indexes"):
        shutil.copytree(root / name, root.parent / name)
    run_in_hub(root, work)
    for name in ("records", "indexes"):
        shutil.rmtree(root / name)
        shutil.copytree(root.parent / name, root / name)


def add_snapshots(root: Path) -> None:
    run_in_hub(root, snap)
    append(root / "snapshots/snapshot_20261121T120000Z.tar.gz", gzip.compress(b"no archive"))
    append(root / "snapshots/snapshot_20261121T120001Z.tar.gz.tmp", b"half")
    append(root / "snapshots/read me.txt", b"weekly ones lie elsewhere")


def leave_torn_end(root: Path) -> None:
    append(segment(root, -1), bytes(100))
    run_in_hub(root)


def leave_old_segment(root: Path) -> None:
    content, path = segment(root, 0).read_bytes(), segment(root, 0)
    run_in_hub(root, compact)
    path.write_bytes(content)


def lose_rows(root: Path) -> None:
    run_in_hub(root, compact)
    rewrite_line(base(root), -1, rows=99)


def lose_segments(root: Path) -> None:
    run_in_hub(root, compact)
    for path in (root / "change_log").glob("segment-*"):
        path.unlink()


# What is done to a directory, and what is found: severity, a part of the subject, and a part of the detail.
CASES: dict[str, tuple[Spoil, Sequence[tuple[str, str, str]]]] = {
    "nothing": (
        lambda _root: None,
        [
            ("ok", "change_log", "operations: 15, "),
            ("ok", "LOCK", "the log is durable up to offset"),
            ("ok", "records", "as the log says"),
            ("ok", "maps", "as the record files say"),
            ("note", "KEEPER", "no server"),
        ],
    ),
    "a compaction": (lambda root: run_in_hub(root, compact), [("ok", "change_log", "operations since operation ")]),
    "a newer format": (
        lambda root: (root / "FORMAT").write_text('{"knowhub_data":99}\n'),
        [("problem", "FORMAT", "data format 99")],
    ),
    "a damaged line": (
        lambda root: replace_byte(segment(root, 0), b'"content":"text'),
        [("problem", "segment-00000001", ": its checksum, its JSON or its sequence number is wrong")],
    ),
    "a damaged header": (
        lambda root: replace_byte(segment(root, 1), b"knowhub_log"),
        [("problem", "segment-00000002", "the segment's header is damaged")],
    ),
    "the header of another segment": (
        lambda root: rewrite_line(segment(root, 0), 0, segment=2),
        [("problem", "segment-00000001", "by its header this is segment 2")],
    ),
    "missing bytes": (
        lambda root: os.truncate(segment(root, -1), segment(root, -1).stat().st_size - 7),
        [("problem", "segment", "7 acknowledged bytes are gone"), ("problem", "segment", "a line without an end")],
    ),
    "a torn end": (
        lambda root: append(segment(root, -1), STUMP),
        [("note", "segment", f"{len(STUMP)} bytes of a write that was never acknowledged; the next opening")],
    ),
    "a torn end that was cut": (leave_torn_end, [("note", "/quarantine/", "100 bytes that were cut from the log")]),
    "a missing segment": (
        lambda root: segment(root, 1).unlink(),
        [
            ("problem", "segment-00000002", "is missing; later segments are there"),
            ("problem", "segment-00000001", "acknowledged bytes are gone"),
        ],
    ),
    "a missing last segment": (lambda root: segment(root, -1).unlink(), [("problem", "LOCK", "which is not there")]),
    "a missing log": (
        lambda root: shutil.rmtree(root / "change_log"),
        [("problem", "change_log", "the log is gone"), ("problem", "LOCK", "which is not there")],
    ),
    "a strange name": (
        lambda root: append(root / "change_log/segment-x.jsonl", b""),
        [("problem", "change_log", "no number")],
    ),
    "a base that lost rows": (lose_rows, [("problem", "base-", "and by its end it held 99")]),
    "a base without segments": (
        lose_segments,
        [("problem", "segment-", "is missing; the log goes on with it"), ("problem", "LOCK", "which is not there")],
    ),
    "a segment that a base replaced": (leave_old_segment, [("note", "segment-00000001", "not in force any more")]),
    "a copied LOCK": (copy_lock, [("note", "LOCK", "is of another boot, another directory or a dead writer")]),
    "an empty LOCK": (lambda root: (root / "LOCK").write_bytes(b""), [("note", "LOCK", "is missing or too short")]),
    "a short LOCK": (lambda root: os.truncate(root / "LOCK", 10), [("note", "LOCK", "is missing or too short")]),
    "no LOCK": (lambda root: (root / "LOCK").unlink(), [("note", "LOCK", "is missing or too short")]),
    "a failed write": (mark_suspect, [("note", "LOCK", "so the next one begins a fresh segment")]),
    "no KEEPER": (lambda root: (root / "KEEPER").unlink(), [("note", "KEEPER", "no server")]),
    "a write that died": (
        lambda root: append(root / "change_log/base-00000002.jsonl.tmp", b"half"),
        [("note", ".jsonl.tmp", "is left over from a write that was broken off")],
    ),
    "an index of another log": (change_index_log, [("note", "indexes/lexical", REBUILT)]),
    "index metadata that does not read": (
        lambda root: index_metadata(root).write_text("[1"),
        [("problem", "indexes/lexical", "not as the log says: indexes/lexical")],
    ),
    "an edited record file": (
        lambda root: replace_byte(root / "records/knowledge.jsonl", b"text 1"),
        [("problem", "records", "not as the log says: records/knowledge.jsonl")],
    ),
    "a record file without a length": (
        forget_length,
        [("problem", "records", "not as the log says: records/links.jsonl")],
    ),
    "a short record file": (
        lambda root: os.truncate(root / "records/knowledge.jsonl", 10),
        [("note", "records", REBUILT)],
    ),
    "an edited map": (
        lambda root: replace_byte(root / "indexes/children.json", b"root"),
        [("problem", "maps", "not as the log says: indexes/children.json")],
    ),
    "maps without a note": (lambda root: (root / "indexes/derived.json").unlink(), [("note", "maps", REBUILT)]),
    "maps of another log": (
        lambda root: rewrite_line(root / "indexes/derived.json", 0, log_id="f" * 32),
        [("note", "maps", REBUILT)],
    ),
    "no maps": (remove_maps, [("note", "maps", "not written yet; the leader writes it")]),
    "derived files that are behind": (
        lambda root: keep_derived(root, fill),
        [
            ("note", "indexes/lexical", "operations behind the log, which the leader brings in"),
            ("note", "maps", "operations behind the log, which the leader brings in"),
        ],
    ),
    "derived files that are older than an erase": (
        lambda root: keep_derived(root, erase),
        [("note", "records", REBUILT), ("note", "maps", REBUILT), ("note", "indexes/lexical", REBUILT)],
    ),
    "snapshots": (
        add_snapshots,
        [
            ("problem", "snapshot_20261121T120000Z.tar.gz", "does not open: manifest.json: "),
            ("note", ".tmp", "is left over from a snapshot that was broken off"),
            ("ok", "snapshots", "snapshots: 1, the newest of "),
        ],
    ),
}
NOT_REPAIRED = ("a newer format", "a missing log", "a strange name", "snapshots")
NO_LOG_LEFT = {"a newer format": "99", "a missing log": "is gone or empty", "a strange name": "no number"}


def find(root: Path, severity: str, files: FileSystem | None = None) -> list[Finding]:
    return [finding for finding in inspect(root, files) if finding.severity == severity]


def read_files(root: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_a_check_names_what_is_wrong_and_writes_nothing(data: Path, name: str) -> None:
    spoil, expected = CASES[name]
    spoil(data)
    before = read_files(data)

    found = check_directory(make_settings(data))

    for severity, subject, detail in expected:
        assert any(item.severity == severity and subject in item.subject and detail in item.detail for item in found), (
            found
        )
    problems = [item for item in found if item.severity == "problem"]
    assert len(problems) == sum(severity == "problem" for severity, _, _ in expected)
    assert all(item.advice for item in problems)
    assert read_files(data) == before


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_REPAIRED])
def test_a_repair_leaves_no_problem(data: Path, name: str) -> None:
    spoil, _ = CASES[name]
    spoil(data)

    repair_directory(make_settings(data))

    assert find(data, "problem") == []
    run_in_hub(data)
    assert find(data, "problem") == []


@pytest.mark.parametrize("name", NO_LOG_LEFT)
def test_a_directory_without_a_readable_log_is_not_repaired(data: Path, name: str) -> None:
    CASES[name][0](data)

    with pytest.raises(Unavailable, match=NO_LOG_LEFT[name]):
        repair_directory(make_settings(data))


def test_a_repair_of_a_healthy_directory_changes_nothing(data: Path) -> None:
    before = {name: content for name, (content, _) in read_files(data).items()}

    assert repair_directory(make_settings(data)) == []
    assert {name: content for name, (content, _) in read_files(data).items()} == before


def test_a_repair_is_refused_while_somebody_has_the_directory_open(data: Path) -> None:
    async def repair(_hub: Hub) -> None:
        with pytest.raises(Conflict, match="is open in a running KnowHub"):
            repair_directory(make_settings(data))

    run_in_hub(data, repair)


def test_each_repair_keeps_the_record_files_that_it_found(data: Path) -> None:
    for _ in range(2):
        replace_byte(segment(data, 0), b'"content":"text')
        repair_directory(make_settings(data))
        run_in_hub(data)

    kept = sorted(path.name for path in (data / "quarantine").glob("records-*knowledge.jsonl"))
    assert kept == ["records-1-knowledge.jsonl", "records-2-knowledge.jsonl"]


def test_doctor_names_keywords_whose_parent_was_lost(data: Path) -> None:
    async def deeper(hub: Hub) -> None:
        parent = (await hub.keywords.tree.create(local(), NewKeyword("lost"), auto_place=False)).record["id"]
        await hub.keywords.tree.create(local(), NewKeyword("orphan", parent), auto_place=False)

    run_in_hub(data, deeper)
    replace_byte(segment(data, -1), b'"name":"lost"')

    repair_directory(make_settings(data))

    (found,) = find(data, "problem")
    assert (found.subject, found.detail[:25]) == ("tree of default", "its parent is not there: ")


def test_locks_that_others_hold_are_reported(data: Path) -> None:
    with (data / "KEEPER").open() as keeper, (data / "LOCK").open() as lock:
        fcntl.flock(keeper, fcntl.LOCK_EX)
        assert "KEEPER" in [finding.subject for finding in find(data, "ok")]

        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "one process has held it for a second" in [finding.detail for finding in find(data, "problem")]


def test_a_place_without_a_directory_is_named_and_none_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    assert ["--data-dir" in item.advice for item in inspect(tmp_path / "elsewhere")] == [True]
    assert [item.detail for item in inspect(tmp_path / "file")] == ["is not a directory"]
    assert not (tmp_path / "elsewhere").exists()


def test_an_empty_directory_is_no_problem(tmp_path: Path) -> None:
    assert find(tmp_path, "problem") == []
    assert repair_directory(make_settings(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


class LimitedFileSystem(FaultyFileSystem):
    """The file system of a user without all rights, on a disk with little room."""

    def __init__(self, forbidden: int = 0, room: int | None = None) -> None:
        super().__init__()
        self.forbidden = forbidden
        self.room = room

    def has_access(self, path: Path, mode: int) -> bool:
        return not mode & self.forbidden and super().has_access(path, mode)

    def free(self, folder: Path) -> int:
        return super().free(folder) if self.room is None else self.room


@pytest.mark.parametrize(
    ("files", "severity", "detail"),
    [
        (LimitedFileSystem(room=100), "problem", "100 bytes free"),
        (LimitedFileSystem(room=200 * 1024 * 1024), "note", "200 MiB free"),
        (LimitedFileSystem(room=2048 * 1024 * 1024), "ok", "2048 MiB free"),
        (LimitedFileSystem(forbidden=os.R_OK), "problem", "is not readable"),
        (LimitedFileSystem(forbidden=os.X_OK), "problem", "is not readable"),
        (LimitedFileSystem(forbidden=os.W_OK), "problem", "is not writable for this user"),
    ],
)
def test_a_full_disk_and_missing_rights_are_named(
    data: Path, files: LimitedFileSystem, severity: str, detail: str
) -> None:
    assert detail in [finding.detail for finding in find(data, severity, files)]


def test_a_file_that_cannot_be_read_is_a_problem_and_the_rest_is_looked_at(data: Path) -> None:
    files = FaultyFileSystem()
    files.begin(Plan(fail_at=1, kinds=("read_at",)))

    found = {finding.subject: finding.detail for finding in inspect(data, files)}

    assert "could not be read: [Errno 5]" in found["change_log"]
    assert "disk" in found


def tree_of(rows: Sequence[tuple[str, dict[str, Any]]]) -> TreeCheck:
    tree = TreeCheck(lambda name: [name.casefold()])
    for collection, row in rows:
        tree.add("default", collection, row)
    return tree


def keyword_below(row_id: str, parent_id: str | None) -> tuple[str, dict[str, Any]]:
    return "keywords", keyword_row(row_id, row_id) | {"parent_id": parent_id}


ROOT = keyword_below("root", None)


def test_keys_of_an_older_normaliser_are_noted() -> None:
    old = keyword_below("a", "root")[1] | {"name": "A b", "aliases": [], "normalized": ["ab"]}

    (noted,) = tree_of([ROOT, ("keywords", old)]).find_problems()

    assert (noted.rows, noted.is_note) == (["a"], True)
    assert "PATCH" in noted.advice
    assert list(tree_of([ROOT, ("keywords", old), ("keywords", old | {"normalized": ["a b"]})]).find_problems()) == []


@pytest.mark.parametrize(
    ("rows", "detail"),
    [
        ([keyword_below("a", "root")], "there is no root: root"),
        ([ROOT, keyword_below("a", None)], "hangs below nothing and is not the root: a"),
        ([ROOT, keyword_below("a", "gone")], "its parent is not there: a"),
        (
            [ROOT, keyword_below("a", "b"), keyword_below("b", "a"), keyword_below("c", "a")],
            "hangs below itself: a, b, c",
        ),
        ([ROOT, ("links", link_row("i", "root"))], "a link whose info is not there: i:root"),
        ([ROOT, ("infos", info_row("i")), ("links", link_row("i", "k"))], "a link whose keyword is not there: i:k"),
    ],
)
def test_problems_of_a_tree_are_named(rows: Sequence[tuple[str, dict[str, Any]]], detail: str) -> None:
    found = list(tree_of(rows).find_problems())

    assert detail in [f"{problem.detail}: {', '.join(problem.rows)}" for problem in found]
    assert {problem.subject for problem in found} == {"tree of default"}
