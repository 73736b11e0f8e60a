"""Looking at what is derived from the log: record files, indexes, maps and kept caches, each held against the log."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.derived.derived_maps import NOTE, MapNote, map_files, read_note
from knowhub.stores.files.derived.map_files import INFOS, LINKS, NODES, map_plan, map_sums
from knowhub.stores.files.directories.context_walk import CHECKPOINT
from knowhub.stores.files.doctor.findings import Finding, Severity, some_of
from knowhub.stores.files.doctor.inspected_context import compare, names_below
from knowhub.stores.files.doctor.inspected_log import LogRead
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import parsed

_PIECE_BYTES = 1024 * 1024
_ROW_BYTES = 16
_REPAIR = "or stop every KnowHub on this directory and run `knowhub doctor --repair`"
_REINDEX = f"run `knowhub reindex`; searching goes on meanwhile, by reading what the index lacks; {_REPAIR}"
_ANEW = "the keeper writes them anew"
_REPAIR_LEFT = "the next keeper that looks at every directory removes them, and so does `knowhub doctor --repair`"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of something derived, and what of it is to be removed, so that it is written anew.

    `folders` go with all that is in them.
    """

    finding: Finding
    unfit: Sequence[Path] = field(default_factory=tuple)
    folders: Sequence[Path] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class DerivedNotes:
    """What the derived things say of themselves, read before the log is, which may go on meanwhile."""

    records: Mapping[str, Any] | None
    indexes: Mapping[Path, Mapping[str, Any] | None]
    maps: MapNote
    caches: Mapping[Path, Mapping[str, Any] | None]
    context: Mapping[str, Any] | None

    @classmethod
    def of(cls, files: FileSystem, directory: DataDirectory) -> "DerivedNotes":
        return cls(
            _json(files, directory.records / "checkpoint.json"),
            {path: _json(files, path) for path in _built(directory)},
            read_note(files, directory.indexes),
            {path: _sealed(files, path) for path in sorted(directory.cache.glob("*.json"))},
            _sealed(files, directory.context / CHECKPOINT),
        )

    @property
    def rows_up_to(self) -> int:
        """The number of the operation up to which the record files are written."""
        return _number(self.records, "seq")


def derived_judgements(
    files: FileSystem, directory: DataDirectory, notes: DerivedNotes, read: LogRead
) -> Iterator[Judgement]:
    """Hold everything that is derived against the log. Raises OSError."""
    records = list(_records(directory, notes.records, read))
    yield from records
    yield from _indexes(directory, notes.indexes, read)
    are_right = all(one.finding.severity is not Severity.PROBLEM and not one.unfit for one in records)
    yield from _maps(files, directory, notes.maps, read, are_right=are_right)
    yield from _caches(directory, notes.caches, read)
    yield from _context(files, directory, notes.context, read)


def _records(directory: DataDirectory, checkpoint: Mapping[str, Any] | None, read: LogRead) -> Iterator[Judgement]:
    seq, lengths = _number(checkpoint, "seq"), _part(checkpoint, "lengths", dict)
    if checkpoint is None or not read.last_seq:
        yield _note("records", "not written yet; the keeper writes them")
        return
    if read.damaged:
        yield _note("records", "not compared, as the log is damaged")
        return
    short = [name for name, length in lengths.items() if _length(directory.records / name) < length]
    is_of_base = _number(checkpoint, "base") == read.base_seq
    all_files = [*directory.records.rglob("*.jsonl"), directory.records / "checkpoint.json"]
    if short or not is_of_base or _is_old(checkpoint, read) or not _holds(checkpoint, read):
        yield _note("records", f"do not fit the log; {_ANEW}", all_files)
        return
    for name in sorted(lengths.keys() | read.rows.keys()):
        if _checksum(directory.records / name, lengths.get(name, 0)) != read.rows.get(name, 0):
            advice = f"nothing is lost: delete {directory.records}, and the next server writes it anew; {_REPAIR}"
            found = Finding(Severity.PROBLEM, str(directory.records / name), "does not say what the log says", advice)
            yield Judgement(found, all_files)
    yield _lag("records", seq, read, "as the log says")


def _built(directory: DataDirectory) -> Iterator[Path]:
    """Yield the note of each index: those of records, then those of memories."""
    for pattern in ("*/*/built.json", "context/*/*/built.json"):
        yield from sorted(directory.indexes.glob(pattern))


def _indexes(
    directory: DataDirectory, notes: Mapping[Path, Mapping[str, Any] | None], read: LogRead
) -> Iterator[Judgement]:
    if not notes and read.last_seq:
        yield _note("indexes", "not built yet; the keeper builds them, search reads the records")
    for path, built in notes.items():
        subject, seq = str(path.parent.relative_to(directory.root)), _number(built, "seq")
        if built is None or not _stands(path.parent / f"build-{_number(built, 'build')}", built):
            yield Judgement(Finding(Severity.PROBLEM, subject, "is damaged", _REINDEX), [path])
        elif not read.damaged and _is_old(built, read):
            yield _note(subject, "was built before something was erased; the keeper builds it anew", [path])
        elif not read.damaged and 0 < seq < read.base_seq:
            yield _note(subject, "is older than the base of the log; the keeper builds it anew", [path])
        elif not read.damaged and not _holds(built, read):
            yield Judgement(Finding(Severity.PROBLEM, subject, "was built for another log", _REINDEX), [path])
        else:
            yield _lag(subject, seq, read, f"{_number(built, 'documents')} records")


def _stands(build: Path, built: Mapping[str, Any]) -> bool:
    """Tell whether what a note speaks of is there; of vectors, which have no library that would look, every byte."""
    if "crc" not in built:
        return build.is_dir()
    length = _number(built, "documents") * (_ROW_BYTES + 2 * _number(built, "dimensions"))
    rows = build / "rows.bin"
    return _length(rows) >= length and _checksum(rows, length) == _number(built, "crc")


def _maps(
    files: FileSystem, directory: DataDirectory, note: MapNote, read: LogRead, *, are_right: bool
) -> Iterator[Judgement]:
    everything = map_files(directory.indexes)
    if not everything and not note.files:
        if any(tree.parents for tree in read.trees.values()):
            yield _note("maps", "not written yet; the keeper writes them")
        return
    if read.damaged:
        yield _note("maps", "not compared, as the log is damaged")
        return
    if not note.log_id:
        yield _note("maps", f"{NOTE} is missing or damaged; {_ANEW}", everything)
        return
    stands = read.holds(note.log_id, note.seq, note.checksum) and note.erases == read.erases
    if not stands or note.base != read.base_seq:
        yield _note("maps", f"do not fit the log; {_ANEW}", everything)
        return
    wrong = _wrong_maps(files, directory, note, are_right=are_right)
    for name in wrong:
        advice = f"nothing is lost: run `knowhub reindex`, {_REPAIR}"
        found = Finding(
            Severity.PROBLEM, str(directory.indexes / name), "does not say what the record files say", advice
        )
        yield Judgement(found, everything)
    if not wrong:
        yield _lag("maps", note.seq, read, "as the record files say" if are_right else "as they were written")


def _wrong_maps(files: FileSystem, directory: DataDirectory, note: MapNote, *, are_right: bool) -> list[str]:
    wrong = [name for name, noted in note.files.items() if _sum_of(directory.indexes / name) != noted]
    if not are_right:
        return sorted(wrong)
    # The record files were held against the log: what is made of them now is what the maps are to be.
    for account in sorted({name[: name.rfind("/") + 1] for name in note.lengths}):
        names = [account + name for name in (NODES, INFOS, LINKS)]
        if all(
            _length(directory.records / name) >= note.lengths.get(name, 0) for name in names if note.lengths.get(name)
        ):
            expected = map_sums(files, map_plan(directory, account, note.lengths))
            wrong += [account + name for name, sums in expected.items() if note.files.get(account + name) != sums]
    return sorted(set(wrong))


def _caches(
    directory: DataDirectory, kept: Mapping[Path, Mapping[str, Any] | None], read: LogRead
) -> Iterator[Judgement]:
    for path, head in kept.items():
        subject, seq = str(path.relative_to(directory.root)), _number(head, "seq")
        if head is None:
            yield _note(subject, "is damaged; it counts as empty, and the keeper writes it anew", [path])
        elif not read.damaged and (_is_old(head, read) or not _holds(head, read)):
            yield _note(subject, "does not fit the log; it counts as empty, and the keeper writes it anew", [path])
        else:
            yield Judgement(
                Finding(Severity.OK, subject, f"{len(_part(head, 'entries', list))} entries, of operation {seq}")
            )


def _context(
    files: FileSystem, directory: DataDirectory, note: Mapping[str, Any] | None, read: LogRead
) -> Iterator[Judgement]:
    root, seq = directory.context, _number(note, "seq")
    if note is None and not read.context.nodes and not files.names(root):
        return
    if read.damaged:
        yield _note("context", "not compared, as the log is damaged")
        return
    if note is None or _is_old(note, read) or not _holds(note, read):
        is_there = bool(files.names(root))
        detail = f"do not fit the log; {_ANEW}" if is_there else "not written yet; the keeper writes them"
        finding = Finding(Severity.NOTE, "context", detail)
        yield Judgement(finding, folders=[root] if is_there else [])
        return
    found = compare(files, root, read.context, seq)
    anew = [root / CHECKPOINT]
    advice = f"nothing is lost: delete {root / CHECKPOINT}, and the next server looks at every directory; {_REPAIR}"
    for paths, what in ((found.wrong, "not as the log says"), (found.missing, "not there")):
        if paths:
            finding = Finding(Severity.PROBLEM, "context", f"{what}: {some_of(list(names_below(root, paths)))}", advice)
            yield Judgement(finding, anew, paths)
    for paths, what in ((found.dead, "of no memory of the log"), (found.strangers, "nothing that KnowHub keeps here")):
        if paths:
            detail = f"{what}: {some_of(list(names_below(root, paths)))}"
            yield Judgement(Finding(Severity.NOTE, "context", detail, _REPAIR_LEFT), anew, paths)
    if not found.wrong and not found.missing:
        yield _lag("context", seq, read, f"directories: {found.right}, each as the log says")


def _note(subject: str, detail: str, unfit: Sequence[Path] = ()) -> Judgement:
    return Judgement(Finding(Severity.NOTE, subject, detail), unfit)


def _lag(subject: str, seq: int, read: LogRead, detail: str) -> Judgement:
    behind = read.last_seq - seq
    if behind <= 0:
        return Judgement(Finding(Severity.OK, subject, detail))
    return _note(subject, f"{detail}; {behind} operations behind the log, which the keeper brings in")


def _holds(note: Mapping[str, Any] | None, read: LogRead) -> bool:
    return read.holds(_part(note, "log_id", str), _number(note, "seq"), _part(note, "checksum", str))


def _is_old(note: Mapping[str, Any] | None, read: LogRead) -> bool:
    """Tell whether something says that it was made before the newest erasing, or after one that never was."""
    return note is not None and "erases" in note and _number(note, "erases") != read.erases


def _json(files: FileSystem, path: Path) -> Mapping[str, Any] | None:
    try:
        value = orjson.loads(files.read(path))
    except (OSError, orjson.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _sealed(files: FileSystem, path: Path) -> Mapping[str, Any] | None:
    try:
        return parsed(files.read(path))
    except OSError:
        return None


def _part(value: Mapping[str, Any] | None, name: str, kind: type) -> Any:  # noqa: ANN401 -- JSON, of the kind that is asked for
    part = value.get(name) if value is not None else None
    return part if isinstance(part, kind) else kind()


def _number(value: Mapping[str, Any] | None, name: str) -> int:
    return int(_part(value, name, int))


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _sum_of(path: Path) -> tuple[int, int]:
    length = _length(path)
    return length, _checksum(path, length) if length > 0 else 0


def _checksum(path: Path, length: int) -> int:
    if length <= 0:
        return 0
    checksum = 0
    with path.open("rb") as file:
        while length > 0 and (piece := file.read(min(length, _PIECE_BYTES))):
            checksum = zlib.crc32(piece, checksum)
            length -= len(piece)
    return checksum
