"""What a restore does in a process of its own: check a snapshot, lay it out, and find what differs from the log."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from knowhub.core.erasing import is_erased
from knowhub.core.errors import StorageFull
from knowhub.core.operation import Operation, Row, is_live
from knowhub.keywords.model import LINKS, link_id
from knowhub.operations.restore import differs
from knowhub.stores.files.data_directory import KEYRING, DataDirectory
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.keys.keyring import read_keyring
from knowhub.stores.files.log.log_line import RawChange
from knowhub.stores.files.log.log_reading import DamagedLog, LogEnd
from knowhub.stores.files.log.log_rows import LogRows, latest_rows
from knowhub.stores.files.rows.state import AccountState, Pending
from knowhub.stores.files.snapshots.snapshot_manifest import DamagedSnapshot, Manifest
from knowhub.stores.files.snapshots.snapshot_reading import unpack_snapshot

ItemT = TypeVar("ItemT")

DIFFERENCES = "differences.jsonl"

_ROWS_A_PIECE = 1000
_Rows = Mapping[tuple[str, str], bytes]
_Wanted = tuple[tuple[str, str], Row | None]


@dataclass(frozen=True, slots=True)
class _Order:
    """What to restore and where to: `fixed` are ids that every account has, by collection, in the order of writing."""

    archive: Path
    scratch: Path
    account: str
    fixed: Mapping[str, Sequence[str]]
    end: LogEnd
    max_bytes: int


def prepare_restore(files: FileSystem, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write to DIFFERENCES, in the folder `scratch`, each row that an archive and the log have otherwise.

    The answer has `count`; or `damaged` with archive, member and reason; or `no_room`; or `unreadable`, the log's own
    damage. Raises OSError. `scratch` is the caller's to remove.
    """
    order = _Order(
        archive=Path(arguments["archive"]),
        scratch=Path(arguments["scratch"]),
        account=arguments["account"],
        fixed=arguments["fixed"],
        end=LogEnd(*arguments["end"]),
        max_bytes=arguments["max_bytes"],
    )
    directory = DataDirectory(root)
    try:
        then = _rows_then(files, order)
        now = latest_rows(files, directory.change_log, order.account, end=order.end)
        return {"count": _write_differences(files, order, then, now.rows)}
    except DamagedSnapshot as problem:
        return {"damaged": [problem.archive, problem.member, problem.reason]}
    except StorageFull as problem:
        return {"no_room": problem.detail}
    except DamagedLog as problem:
        return {"unreadable": problem.detail}


def remove_tree(files: FileSystem, folder: Path) -> None:
    """Remove a folder with all in it, and follow no link. Raises OSError."""
    for name in files.names(folder):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            remove_tree(files, path)
        else:
            files.remove(path)
    with suppress(FileNotFoundError):
        files.remove_folder(folder)


def check_rows(files: FileSystem, archive: str, folder: Path, manifest: Manifest, account: str | None) -> LogRows:
    """Read a snapshot that was laid out in a folder, and return the rows of an account, of none if it is None.

    Raises DamagedSnapshot where its log is not whole, or its keyring is none.
    """
    try:
        read_keyring(files, folder / KEYRING)
    except ValueError as problem:
        raise DamagedSnapshot(archive, KEYRING, str(problem)) from problem
    try:
        found = latest_rows(files, folder / "change_log", account)
    except DamagedLog as problem:
        member = f"change_log/{problem.path.name}"
        raise DamagedSnapshot(archive, member, f"offset {problem.offset}: {problem.reason}") from problem
    if (found.told.log_id, found.told.last_seq) != (manifest.log_id, manifest.last_seq):
        raise DamagedSnapshot(archive, "manifest.json", "tells of another log than the one that is in the archive")
    return found


def _rows_then(files: FileSystem, order: _Order) -> _Rows:
    manifest = unpack_snapshot(files, order.archive, order.scratch, order.max_bytes)
    found = check_rows(files, order.archive.name, order.scratch, manifest, order.account)
    # From here on the log that was laid out is not needed, and what is to be written may be as much again.
    remove_tree(files, order.scratch / "change_log")
    return found.rows


def _write_differences(files: FileSystem, order: _Order, then: _Rows, now: _Rows) -> int:
    descriptor = files.open(order.scratch / DIFFERENCES, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        count = offset = 0
        for part in _parts(_differences(order.fixed, then, now)):
            _check(order, part)
            data = b"".join(_line(*one) for one in part)
            write_all(files, descriptor, data, offset)
            offset += len(data)
            count += len(part)
    finally:
        files.close(descriptor)
    return count


def _differences(fixed: Mapping[str, Sequence[str]], then: _Rows, now: _Rows) -> Iterator[_Wanted]:
    """Yield what is to go, the newest first, and then what is to stand: each row after what it refers to.

    Before those, what was deleted already and was erased since: nothing is written of it, and others may quote it.
    """
    for key, text in then.items():
        row = _row(text)
        if key[0] in fixed and not is_live(row) and not is_erased(row) and is_erased(_row(now.get(key))):
            yield key, None
    gone = [key for key, text in now.items() if key[0] in fixed and is_live(_row(text)) and not _stands(then.get(key))]
    for collection in reversed(list(fixed)):
        for key in reversed(gone):
            if key[0] == collection and key[1] not in fixed[collection]:
                yield key, None
    for collection in fixed:
        for key, text in then.items():
            if key[0] == collection and text != now.get(key):
                row = _row(text)
                if is_live(row) and differs(row, _row(now.get(key))):
                    yield key, row


def _check(order: _Order, part: Sequence[_Wanted]) -> None:
    """Raise DamagedSnapshot for a row that this KnowHub could not hold."""
    held = Pending(AccountState(lambda _segment, _start, _end: b""))
    for (collection, row_id), row in part:
        if row is None:
            continue
        try:
            named = link_id(row["info_id"], row["keyword_id"]) if collection == LINKS else row["id"]
            change = RawChange(collection, row_id, None, b"", row, None)
            held.take(Operation(1, "", "", order.account, "", 0.0, ()), [change])
            is_right = named == row_id and isinstance(named, str) and int(row["version"]) > 0
        except (KeyError, TypeError, ValueError, AttributeError):
            is_right = False
        if not is_right:
            raise DamagedSnapshot(
                order.archive.name, "change_log", f"{collection} {row_id!r} is no row of this KnowHub"
            )


def _stands(text: bytes | None) -> bool:
    return is_live(_row(text))


def _row(text: bytes | None) -> Row | None:
    row: Row | None = None if text is None else orjson.loads(text)
    return row


def _line(key: tuple[str, str], row: Row | None) -> bytes:
    return orjson.dumps({"collection": key[0], "id": key[1], "row": row}, option=orjson.OPT_APPEND_NEWLINE)


def _parts(items: Iterable[ItemT]) -> Iterator[list[ItemT]]:
    part: list[ItemT] = []
    for item in items:
        part.append(item)
        if len(part) == _ROWS_A_PIECE:
            yield part
            part = []
    if part:
        yield part
