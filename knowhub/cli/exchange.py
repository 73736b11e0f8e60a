"""`import` and `export`: records as JSON lines or a workspace folder, the keyword tree in four formats."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hub_access import load_settings, run_on_hub
from knowhub.cli.importers.formats import ImportFormat
from knowhub.cli.inputs import read_bytes
from knowhub.cli.options import CallerOptions
from knowhub.core.errors import Conflict, NotFound
from knowhub.keywords.model import TreeFormat
from knowhub.knowledge.model import OnConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext
    from knowhub.knowledge.exchange import ImportResult

app = typer.Typer()
tree_app = typer.Typer()

STDOUT = "-"
_SUFFIXES = {".jsonl": "jsonl", ".rdf": "skos", ".xml": "skos", ".txt": "outline", ".md": "outline", ".csv": "csv"}


FormatOption = Annotated[
    TreeFormat | None,
    typer.Option("--format", help="jsonl has everything; skos (RDF/XML), outline and csv have keywords alone."),
]


class Layout(StrEnum):
    """The forms of an export: one file of JSON lines, or a folder of JSON files."""

    JSONL = "jsonl"
    WORKSPACE = "workspace"


@command(app, "import")
def import_file(
    file: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="JSON lines, - reads stdin; with --from a file, a folder or an archive.",
            show_default=False,
        ),
    ],
    options: CallerOptions,
    form: Annotated[
        ImportFormat | None, typer.Option("--from", help="The program that wrote PATH. Default: KnowHub.")
    ] = None,
    on_conflict: Annotated[
        OnConflict | None,
        typer.Option(help="What to do when an id exists. Default: fail, with --from skip.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be imported, and write nothing.")
    ] = False,
) -> None:
    """Import all records of a file, or none; or what another program kept.

    Each record keeps its id, owner, scopes, evidence and time of creation.
    """
    if form is not None:
        from knowhub.cli.importers.run import import_foreign

        import_foreign(form, Path(file), options, on_conflict or OnConflict.SKIP, dry_run=dry_run)
    else:
        _import_records(file, options, on_conflict or OnConflict.FAIL, dry_run=dry_run)


def _import_records(file: str, options: CallerOptions, on_conflict: OnConflict, *, dry_run: bool) -> None:
    from knowhub.knowledge.exchange import ImportRun
    from knowhub.web.json_limits import make_json_limits
    from knowhub.web.schemas.exchange import parse_import
    from knowhub.web.views import make_import_view

    text = read_bytes(file)
    with output.show_progress(options.as_json) as bars:
        limits = make_json_limits(load_settings(options))
        records = parse_import(text, limits, None, lambda rows: bars.track(rows, description="checking"))
        if dry_run:
            answer = {"dry_run": True, "records": len(records)}
            output.print_answer(answer, [f"would import {len(records)} records"], as_json=options.as_json)
            return
        task = bars.add_task("writing", total=len(records))

        def write(hub: Hub, ctx: RequestContext) -> Awaitable[ImportResult]:
            exchange = hub.knowledge.exchange
            run = ImportRun(exchange.make_import_id(), lambda count: bars.update(task, completed=count))
            return exchange.import_lines(ctx, records, on_conflict, run=run)

        result = run_on_hub(options, write, create=True)
    line = f"imported {result.imported}, replaced {result.replaced}, skipped {result.skipped}"
    lines = [line, *output.list_undo(result.import_id)]
    output.print_answer(make_import_view(result), lines, as_json=options.as_json)


@command(app, "export")
def export_file(
    options: CallerOptions,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="- writes to stdout.", show_default=False)] = STDOUT,
    layout: Annotated[
        Layout, typer.Option(help="workspace writes a folder of JSON files; FILE names the folder.")
    ] = Layout.JSONL,
) -> None:
    """Export every record that the caller may see, the oldest first.

    `knowhub import` reads the file.
    """
    if layout is Layout.WORKSPACE and file == STDOUT:
        raise typer.BadParameter("--layout workspace needs the name of a folder")

    async def work(hub: Hub, ctx: RequestContext) -> list[bytes]:
        return list(filter(None, await hub.knowledge.exchange.export(ctx)))

    records = run_on_hub(options, work)
    with output.show_progress(options.as_json) as bars:
        rows = bars.track(records, description="writing")
        files = _write_workspace(Path(file), rows) if layout is Layout.WORKSPACE else _write_parts(file, rows)
    if file != STDOUT:
        answer = {"exported": len(records), "files": files}
        output.print_answer(answer, [f"exported {len(records)} records to {file}"], as_json=options.as_json)


@command(tree_app, "load")
def load_tree(
    file: Annotated[str, typer.Argument(metavar="FILE", help="- reads stdin.", show_default=False)],
    options: CallerOptions,
    form: FormatOption = None,
) -> None:
    """Import a file of keywords: all of it, or nothing. The same file twice changes nothing.

    Without --format the suffix says what the file is: .jsonl, .rdf, .xml, .txt, .md or .csv.
    """
    from knowhub.web.json_limits import make_json_limits
    from knowhub.web.tree_files.formats import import_tree_file, parse_tree_file
    from knowhub.web.views import make_tree_import_view

    wanted = _get_format(form, file)
    parsed = parse_tree_file(read_bytes(file), wanted, make_json_limits(load_settings(options)))
    done = run_on_hub(options, lambda hub, ctx: import_tree_file(hub, ctx, parsed), create=True)
    line = f"loaded {done.keywords} keywords and {done.infos} infos with {done.links} links"
    if done.changed:
        line += f"; added to {done.changed} that were there"
    answer = make_tree_import_view(done, parsed.dropped)
    if answer["dropped"]:
        left_out = (f"{item['count']} {item['what']} ({item['why']})" for item in answer["dropped"])
        line += f"; left out {', '.join(left_out)}"
    output.print_answer(answer, [line, *output.list_undo(done.import_id)], as_json=options.as_json)


@command(tree_app, "export")
def export_tree(
    options: CallerOptions,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="- writes to stdout.", show_default=False)] = STDOUT,
    form: FormatOption = None,
) -> None:
    """Export the keywords that the caller sees; `knowhub tree load` reads the file."""
    from knowhub.web.tree_files.formats import render_tree

    wanted = _get_format(form, file)

    async def work(hub: Hub, ctx: RequestContext) -> list[str]:
        exchange = hub.keywords.exchange
        parts = render_tree(wanted, await exchange.export_keywords(ctx), await exchange.export_infos(ctx))
        return _write_parts(file, parts)

    files = run_on_hub(options, work)
    if file != STDOUT:
        answer = {"format": wanted.value, "files": files}
        output.print_answer(answer, [f"exported the keyword tree to {file}"], as_json=options.as_json)


def _get_format(chosen: TreeFormat | None, file: str) -> TreeFormat:
    return chosen or TreeFormat(_SUFFIXES.get(Path(file).suffix.lower(), "jsonl"))


def _write_parts(file: str, parts: Iterable[bytes]) -> list[str]:
    """Write the parts of an export to a file, which is replaced when they are complete, or to stdout for `-`.

    Returns the files. Raises NotFound when the folder does not exist, and OSError.
    """
    if file == STDOUT:
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()
        return []
    with _replace_file(Path(file)) as target:
        target.writelines(parts)
    return [file]


@contextmanager
def _replace_file(path: Path) -> Iterator[BinaryIO]:
    """Write a temporary file and rename it to `path` when it is complete. A pipe or a device is written directly.

    Raises NotFound when the folder does not exist, and OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as target:
            yield target
        return
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}")
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as target:
            yield target
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_workspace(folder: Path, records: Iterable[bytes]) -> list[str]:
    import orjson

    from knowhub.knowledge.exchange import group_by_workspace_file

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not an empty folder; name an empty or a new folder")
    files = []
    for name, rows in sorted(group_by_workspace_file([orjson.loads(record) for record in records]).items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        files.append(str(path))
    folder.mkdir(parents=True, exist_ok=True)
    return files
