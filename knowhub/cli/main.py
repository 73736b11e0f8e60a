"""The `knowhub` command: what it can do, and how it ends — 0 done, 1 refused or failed, 2 asked wrongly."""

import io
import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import structlog
import typer

from knowhub.cli import (
    audit,
    context,
    demo,
    exchange,
    extract,
    keys,
    maintain,
    master_key,
    output,
    query,
    replay,
    resource,
    serve,
    slim,
    snapshot,
    tree,
)
from knowhub.core.errors import KnowHubError

app = typer.Typer(
    name="knowhub",
    help="Keep what agents learn, and hand it back at the moment it is needed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("save")(query.save)
app.command("search")(query.search)
app.command("list")(query.list_records)
app.command("get")(query.get)
app.command("feedback")(query.feedback)
app.command("extract")(extract.extract)
app.command("slim")(slim.slim)
app.command("undo")(query.undo)
app.add_typer(tree.app, name="tree")
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(keys.app, name="keys")
keys.app.command("rotate-master")(master_key.rotate_master)
app.add_typer(resource.app, name="resource")
app.add_typer(context.app, name="context")
app.command("replay")(replay.replay)
app.command("import")(exchange.import_file)
app.command("export")(exchange.export_file)
app.command("reindex")(maintain.reindex)
app.command("compact")(maintain.compact)
app.command("doctor")(maintain.doctor)
app.command("audit")(audit.audit)


def _show_version(wanted: bool) -> None:
    if wanted:
        output.say(f"knowhub {version('knowhub')}")
        raise typer.Exit


@app.callback()
def knowhub(
    _version: Annotated[
        bool, typer.Option("--version", help="Say which KnowHub this is.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Keep what agents learn, and hand it back at the moment it is needed."""


def run() -> None:
    """Run the command line; a failure is told in a line on stderr, never as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows another: that is no reason to fail.
            stream.reconfigure(errors="replace")
    # stdout is for answers only.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        app()
    except KnowHubError as problem:
        output.print_refusal(problem)
        sys.exit(1)
    except OSError as problem:
        output.warn(f"knowhub: {problem}")
        sys.exit(1)
    except Exception as problem:  # noqa: BLE001 -- whatever it is, it is told in one line and ends with 1
        place = traceback.extract_tb(problem.__traceback__)[-1]
        output.warn(f"knowhub: unexpected {type(problem).__name__}: {problem} ({place.filename}:{place.lineno})")
        sys.exit(1)
