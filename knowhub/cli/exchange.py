"""Records into KnowHub and out of it: JSON lines, and the workspace tree of seed 004."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import ids_of, settings_of, use_hub
from knowhub.cli.options import Caller, Place, spread
from knowhub.core.errors import Conflict, NotFound
from knowhub.knowledge.exchange import Imported, workspace_files
from knowhub.knowledge.model import OnConflict

_STREAM = "-"


class Layout(StrEnum):
    """The forms of an export: one file of JSON lines, or a folder of JSON files."""

    JSONL = "jsonl"
    WORKSPACE = "workspace"


@spread
def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - is stdin.", show_default=False)],
    caller: Caller,
    place: Place,
    on_conflict: Annotated[OnConflict, typer.Option(help="What to do with an id that is taken.")] = OnConflict.FAIL,
) -> None:
    """Import records, all or none: each keeps its id, owner, scopes, evidence and time of creation."""
    # Imported here, as it brings the web framework along: no other command waits for that.
    from knowhub.web.routes.exchange import parse_lines

    ids = ids_of(caller)
    text = sys.stdin.buffer.read() if file == _STREAM else Path(file).read_bytes()
    with output.progress(place.as_json) as bars:
        reading = bars.add_task("checking", total=None)
        lines = parse_lines(text, settings_of(place).max_json_depth)
        bars.update(reading, description=f"writing {len(lines)} records")

        async def work(hub: Hub) -> Imported:
            return await hub.exchange.import_lines(ids.context(hub.default_owner), lines, on_conflict)

        done = use_hub(place, work, make=True)
    if place.as_json:
        output.print_json(_answer(done))
        return
    output.say(f"imported {done.imported}, replaced {done.replaced}, skipped {done.skipped}")
    if done.import_id:
        output.say(f"undo it with: knowhub undo {done.import_id}")


@spread
def export_file(
    caller: Caller,
    place: Place,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="- is stdout.", show_default=False)] = _STREAM,
    layout: Annotated[
        Layout, typer.Option(help="workspace writes seed 004's folders of JSON files into FILE.")
    ] = Layout.JSONL,
) -> None:
    """Export every record that the caller sees, the oldest first; `import` takes it back."""
    ids = ids_of(caller)
    if layout is Layout.WORKSPACE and file == _STREAM:
        raise typer.BadParameter("--layout workspace needs a folder to write into")

    async def work(hub: Hub) -> list[bytes]:
        return list(await hub.exchange.export(ids.context(hub.default_owner)))

    records = use_hub(place, work)
    with output.progress(place.as_json) as bars:
        rows = bars.track(records, description="writing")
        written = _write_workspace(Path(file), rows) if layout is Layout.WORKSPACE else _write_lines(file, rows)
    if file != _STREAM and place.as_json:
        output.print_json({"exported": len(records), "files": written})
    elif file != _STREAM:
        output.say(f"exported {len(records)} records to {file}")


def _answer(done: Imported) -> dict[str, object]:
    return {
        "imported": done.imported,
        "replaced": done.replaced,
        "skipped": done.skipped,
        "import_id": done.import_id,
        "operation_ids": done.operation_ids,
        "operation_id": done.operation_ids[-1] if done.operation_ids else None,
    }


def _write_lines(file: str, records: Iterable[bytes]) -> list[str]:
    if file == _STREAM:
        for record in records:
            sys.stdout.buffer.write(record + b"\n")
        sys.stdout.buffer.flush()
        return []
    with _replaced(Path(file)) as target:
        for record in records:
            target.write(record + b"\n")
    return [file]


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    """Write beside `path` and put it in its place when it is whole; a pipe or a device is written to as it is.

    Raises NotFound when the folder is not there, and OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as target:
            yield target
        return
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}")
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as target:
            yield target
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write_workspace(folder: Path, records: Iterable[bytes]) -> list[str]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not an empty folder; name one that is, or one that is not there yet")
    written = []
    for name, rows in sorted(workspace_files([orjson.loads(record) for record in records]).items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        written.append(str(path))
    folder.mkdir(parents=True, exist_ok=True)
    return written
