"""`knowhub tree load` and `export`: the keyword tree in and out, as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowhub.cli import output
from knowhub.cli.exchange import STDOUT, write_parts
from knowhub.cli.hub_access import load_settings, run_on_hub
from knowhub.cli.inputs import read_bytes
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.keywords.model import TreeFormat

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext

_SUFFIXES = {".jsonl": "jsonl", ".rdf": "skos", ".xml": "skos", ".txt": "outline", ".md": "outline", ".csv": "csv"}


FormatOption = Annotated[
    TreeFormat | None,
    typer.Option("--format", help="jsonl has everything; skos (RDF/XML), outline and csv have keywords alone."),
]


def _get_format(chosen: TreeFormat | None, file: str) -> TreeFormat:
    return chosen or TreeFormat(_SUFFIXES.get(Path(file).suffix.lower(), "jsonl"))


@expand_options
def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="- reads stdin.", show_default=False)],
    options: CallerOptions,
    form: FormatOption = None,
) -> None:
    """Import a file of keywords: all of it, or nothing. The same file twice changes nothing.

    Without --format the suffix says what the file is: .jsonl, .rdf, .xml, .txt, .md or .csv.
    """
    from knowhub.web.json_text import json_limits
    from knowhub.web.tree_files.formats import import_tree_file, parse_tree_file
    from knowhub.web.views import make_tree_import_view

    wanted = _get_format(form, file)
    parsed = parse_tree_file(read_bytes(file), wanted, json_limits(load_settings(options)))

    done = run_on_hub(options, lambda hub, ctx: import_tree_file(hub, ctx, parsed), create=True)
    line = f"loaded {done.keywords} keywords and {done.infos} infos with {done.links} links"
    if done.changed:
        line += f"; added to {done.changed} that were there"
    if parsed.dropped:
        line += f"; left out {', '.join(f'{count} {what}' for what, count in parsed.dropped.items())}"
    if done.not_own:
        line += f"; added nothing to {done.not_own} of others"
    output.print_answer(make_tree_import_view(done, parsed.dropped), line, as_json=options.as_json, undo=done.import_id)


@expand_options
def export(
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
        return write_parts(file, parts)

    files = run_on_hub(options, work)
    if file != STDOUT and options.as_json:
        output.print_json({"format": wanted.value, "files": files})
    elif file != STDOUT:
        output.say(f"exported the keyword tree to {file}")
