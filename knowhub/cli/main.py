"""The `knowhub` command: its subcommands and its exit status (0 done, 1 refused or failed, 2 wrong usage).

`--help` and `--version` import no command module, and `knowhub COMMAND --help` imports only the module of this command.
The command modules import the server, the web framework and pydantic inside their functions.
"""

import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from knowhub.cli import output
from knowhub.core.errors import KnowHubError


class CommandEntry(NamedTuple):
    """The module of a command, and its line in `knowhub --help`. A group has the `app` of its module to itself."""

    module: str
    summary: str
    is_group: bool = False


COMMANDS = {
    "serve": CommandEntry("serve", "Run the server until Ctrl-C or SIGTERM."),
    "mcp": CommandEntry("mcp", "Serve MCP on stdin and stdout, for agents that start it themselves."),
    "connect": CommandEntry("connect", "Connect a coding agent: write its hooks and its MCP server into its files."),
    "disconnect": CommandEntry(
        "connect", "Take out what `connect` wrote, in your own files and in those of this folder."
    ),
    "demo": CommandEntry("demo", "Load examples into a directory of their own, ask ten questions, and serve."),
    "save": CommandEntry("records", "Save what was learned, and print its id."),
    "search": CommandEntry("records", "Find records about QUERY, the best first."),
    "list": CommandEntry("records", "List records, the newest first."),
    "get": CommandEntry("records", "Show all fields of a record."),
    "feedback": CommandEntry("records", "Rate a record. Search ranks by these ratings."),
    "extract": CommandEntry("curation", "Find what is worth keeping in a conversation, and save it."),
    "slim": CommandEntry("curation", "Merge copies, near copies, and records that a model finds equal."),
    "audit": CommandEntry("curation", "Report duplicates, copied search results, expired records and secrets."),
    "undo": CommandEntry("records", "Undo an operation, or a whole import by its import_id."),
    "tree": CommandEntry("tree", "The keyword tree: search, add, move, merge, tidy.", is_group=True),
    "context": CommandEntry("context", "Sessions and memories.", is_group=True),
    "resource": CommandEntry("resource", "Code, credentials, cookies and other texts.", is_group=True),
    "replay": CommandEntry("replay", "Show what the language model was asked and what it decided."),
    "import": CommandEntry("exchange", "Import all records of a file, or none; or what another program kept."),
    "export": CommandEntry("exchange", "Export every record that the caller may see, the oldest first."),
    "snapshot": CommandEntry("snapshot", "Back up everything in one file, and restore it.", is_group=True),
    "keys": CommandEntry("keys", "Manage API keys (KNOWHUB_AUTH=api-key) and the master key.", is_group=True),
    "reindex": CommandEntry("maintenance", "Rebuild every index from the log."),
    "compact": CommandEntry("maintenance", "Forget old operations and free their space."),
    "doctor": CommandEntry("maintenance", "Look for damage, incomplete writes, outdated files and embedder problems."),
}


def load_command(name: str) -> Any:  # noqa: ANN401 -- a command of click, which typer vendors under a private name
    """Import the module of a command and return the command."""
    entry = COMMANDS[name]
    group = typer.main.get_group(import_module(f"knowhub.cli.{entry.module}").app)
    return group if entry.is_group else group.commands[name]


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when the command is called."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 -- as typer passes them
        super().__init__(**attributes)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=entry.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 -- click's
        """Return the command that `args` name, and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


app = typer.Typer(
    name="knowhub", cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        output.say(f"knowhub {version('knowhub')}")
        raise typer.Exit


@app.callback()
def knowhub(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version of KnowHub.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Store what agents learn, and return it when it is needed."""


def run() -> None:
    """Run the command line. A failure is one line on stderr, never a traceback."""
    # Numpy reads it when it is imported. A scan of vectors is short: more threads spin longer than they compute, on
    # cores that requests need.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 -- no setting of ours
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows a replacement. That is no reason to fail.
            stream.reconfigure(errors="replace")
    try:
        app()
    except KnowHubError as error:
        output.print_refusal(error)
        sys.exit(1)
    except OSError as error:
        output.warn(f"knowhub: {error}")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 -- any failure is reported in one line and ends with 1
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        output.warn(f"knowhub: unexpected {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})")
        sys.exit(1)
