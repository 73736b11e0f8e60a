"""`knowhub doctor` on maps, caches, the structure of the tree, snapshots, and leftovers."""

import asyncio
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, check_directory, open_hub, repair_directory
from knowhub.core.errors import Conflict, Unavailable
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.keywords.tree_check import TreeCheck
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.log.log_line import seal
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, local, new_knowledge
from tests.fakes.plain_text import PlainText
from tests.keyword_rows import info_row, keyword_row, link_row


def make_settings(root: Path) -> Settings:
    return Settings(data_dir=root, owner=OWNER, maps_interval_s=0)


def run_in_hub(root: Path, work: Callable[[Hub], Any] | None = None) -> None:
    async def run() -> None:
        async with open_hub(make_settings(root), Overrides(text=PlainText()), maintain=False) as hub:
            python = (
                await hub.keywords.tree.create(local(), NewKeyword("Python", allow_duplicate=True), auto_place=False)
            ).record["id"]
            await hub.keywords.infos.create(local(), NewInfo("said", keyword_ids=[python]))
            await hub.knowledge.records.save(local(), new_knowledge())
            if work is not None:
                await work(hub)

    asyncio.run(run())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    run_in_hub(root)
    return root


def list_problems(root: Path) -> list[Finding]:
    return [finding for finding in check_directory(make_settings(root)) if finding.severity is Severity.PROBLEM]


def findings_on(root: Path, subject: str) -> list[tuple[str, str]]:
    found = check_directory(make_settings(root))
    return [(finding.severity.value, finding.detail) for finding in found if finding.subject.endswith(subject)]


def test_a_map_that_was_edited_is_a_problem(data: Path) -> None:
    path = data / "indexes/children.json"
    path.write_bytes(path.read_bytes().replace(b"root", b"toor"))

    (found,) = list_problems(data)

    assert (found.subject, found.detail) == ("maps", "not as the log says: indexes/children.json")
    assert "knowhub reindex" in found.advice


def remove_note(root: Path) -> None:
    (root / "indexes/derived.json").unlink()


def change_log_id(root: Path) -> None:
    note = root / "indexes/derived.json"
    said = orjson.loads(note.read_bytes())
    del said["crc"]
    note.write_bytes(seal(orjson.dumps(said | {"log_id": "f" * 32})[:-1]))


@pytest.mark.parametrize("spoil", [remove_note, change_log_id])
def test_maps_that_do_not_fit_are_noted(data: Path, spoil: Callable[[Path], None]) -> None:
    spoil(data)

    assert list_problems(data) == []
    assert findings_on(data, "maps") == [("note", "does not fit the log; the leader writes it again")]


def test_maps_that_were_never_written_are_noted(data: Path) -> None:
    for path in (data / "indexes").glob("*.json"):
        path.unlink()

    assert findings_on(data, "maps") == [("note", "not written yet; the leader writes it")]


def test_outdated_maps_report_their_lag(data: Path) -> None:
    kept = {path: path.read_bytes() for path in (data / "indexes").glob("*.json")}
    run_in_hub(data)
    for path, content in kept.items():
        path.write_bytes(content)

    assert findings_on(data, "maps") == [
        ("note", "as the record files say; 2 operations behind the log, which the leader brings in")
    ]


def tree_of(rows: Sequence[tuple[str, dict[str, Any]]]) -> TreeCheck:
    tree = TreeCheck(lambda name: [name.casefold()])
    for collection, row in rows:
        tree.add("default", collection, row)
    return tree


ROOT = ("keywords", keyword_row("root", "root") | {"parent_id": None})


def keyword_below(row_id: str, parent_id: str | None) -> tuple[str, dict[str, Any]]:
    return "keywords", keyword_row(row_id, row_id) | {"parent_id": parent_id}


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


def test_a_snapshot_that_does_not_open_is_a_problem(data: Path) -> None:
    (data / "snapshots").mkdir(exist_ok=True)
    (data / "snapshots/snapshot_20261121T120000Z.tar.gz").write_bytes(gzip.compress(b"no archive"))
    (data / "snapshots/snapshot_20261121T120001Z.tar.gz.tmp").write_bytes(b"half")

    (found,) = list_problems(data)

    assert found.subject.endswith("snapshot_20261121T120000Z.tar.gz")
    assert found.detail.startswith("does not open: manifest.json: ")
    assert findings_on(data, ".tmp") == [("note", "is left over from a snapshot that was broken off")]


def test_snapshots_that_open_are_counted(data: Path) -> None:
    async def snap(hub: Hub) -> None:
        await hub.operations.snapshots.create()

    run_in_hub(data, snap)

    ((severity, detail),) = findings_on(data, "snapshots")
    assert severity == "ok"
    assert detail.startswith("snapshots: 1, the newest of ")


def test_other_files_in_the_snapshot_folder_are_ignored(data: Path) -> None:
    (data / "snapshots").mkdir(exist_ok=True)
    (data / "snapshots/read me.txt").write_text("weekly ones lie elsewhere")

    assert findings_on(data, "read me.txt") == []
    assert list_problems(data) == []


def test_a_record_file_that_the_checkpoint_does_not_name_is_a_problem(data: Path) -> None:
    checkpoint = data / "records/checkpoint.json"
    said = orjson.loads(checkpoint.read_bytes())
    del said["lengths"]["links.jsonl"]
    del said["crc"]
    checkpoint.write_bytes(seal(orjson.dumps(said)[:-1]))

    assert [problem.detail for problem in list_problems(data)] == ["not as the log says: records/links.jsonl"]


def test_leftovers_of_writes_are_noted_and_removed_by_a_repair(data: Path) -> None:
    (data / "change_log/base-00000002.jsonl.tmp").write_bytes(b"half")

    before = findings_on(data, ".jsonl.tmp")
    repair_directory(make_settings(data))

    assert before == [("note", "is left over from a write that was broken off; nothing reads it")]
    assert findings_on(data, ".jsonl.tmp") == []


def test_a_damaged_erase_journal_is_quarantined(data: Path) -> None:
    (data / "change_log/erase.journal").write_bytes(b"half")

    before = findings_on(data, "erase.journal")
    (done,) = repair_directory(make_settings(data))

    assert [severity for severity, _ in before] == ["note"]
    assert "erase the record again" in done.detail
    assert [path.read_bytes() for path in (data / "quarantine").iterdir()] == [b"half"]
    run_in_hub(data)


def test_an_erase_journal_without_its_operation_is_discarded(data: Path) -> None:
    header = {"knowhub_erase": 1, "account": "default", "operation_id": "none", "overwrites": 0}
    (data / "change_log/erase.journal").write_bytes(seal(orjson.dumps(header)[:-1]))

    (done,) = repair_directory(make_settings(data))

    assert done.detail == "an erasing that was broken off was carried out, or thrown away"
    assert not (data / "change_log/erase.journal").exists()


@pytest.mark.parametrize(
    "name",
    ["records/nodes.jsonl", "records/knowledge.jsonl", "indexes/inverted.json", "indexes/derived.json", "LEXICAL"],
)
def test_a_repair_removes_wrong_derived_files_to_be_rebuilt(data: Path, name: str) -> None:
    path = next(data.glob("indexes/lexical/*/built.json")) if name == "LEXICAL" else data / name
    content = path.read_bytes()
    path.write_bytes(b"#" + content[1:])

    repair_directory(make_settings(data))
    after_repair = list_problems(data)
    run_in_hub(data)

    assert after_repair == []
    assert list_problems(data) == []
    assert not (data / "quarantine").exists()
    assert path.exists()
    assert path.read_bytes()[:1] == content[:1]


def test_a_repair_of_a_healthy_directory_changes_nothing(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}

    done = repair_directory(make_settings(data))

    assert done == []
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_repair_is_refused_while_a_hub_has_the_directory_open(data: Path) -> None:
    async def repair(_hub: Hub) -> None:
        with pytest.raises(Conflict, match="is open in a running KnowHub"):
            repair_directory(make_settings(data))

    run_in_hub(data, repair)


def test_a_repair_of_a_newer_format_or_a_missing_log_is_refused(data: Path, tmp_path: Path) -> None:
    (data / "FORMAT").write_text('{"knowhub_data":99}\n')
    with pytest.raises(Unavailable, match="99"):
        repair_directory(make_settings(data))

    (data / "FORMAT").unlink()
    for path in (data / "change_log").iterdir():
        path.unlink()
    with pytest.raises(Unavailable, match="is gone or empty"):
        repair_directory(make_settings(data))

    (tmp_path / "empty").mkdir()
    assert repair_directory(make_settings(tmp_path / "empty")) == []


def test_doctor_names_keywords_whose_parent_was_lost(data: Path) -> None:
    async def deeper(hub: Hub) -> None:
        parent = (await hub.keywords.tree.create(local(), NewKeyword("lost"), auto_place=False)).record["id"]
        await hub.keywords.tree.create(local(), NewKeyword("orphan", parent), auto_place=False)

    run_in_hub(data, deeper)
    (path,) = (data / "change_log").glob("segment-*")
    content = path.read_bytes()
    at = content.index(b'"name":"lost"')
    path.write_bytes(content[:at] + b"#" + content[at + 1 :])

    repair_directory(make_settings(data))

    (found,) = list_problems(data)
    assert found.subject == "tree of default"
    assert found.detail.startswith("its parent is not there: ")
