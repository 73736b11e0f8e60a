"""`knowhub connect` and `knowhub disconnect`: write what a coding agent needs into its files, and take it out again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hosts.connection import DEFAULT_URL, HOSTS, KEY_VARIABLE, PLUGIN, Connection, check_url, list_edits
from knowhub.cli.hosts.edits import plan_changes

if TYPE_CHECKING:
    from knowhub.cli.hosts.edits import FileChange

app = typer.Typer()


HostName = StrEnum("HostName", {name.upper(): name for name in HOSTS})  # type: ignore[misc]  # not a literal dictionary
HostArgument = Annotated[HostName, typer.Argument(metavar="HOST", help="claude, codex, cursor or vscode.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes and write nothing.")]


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """What is connected, and as whom."""

    user: Annotated[str | None, typer.Option(help="Act as this user.")] = None
    project: Annotated[
        str | None, typer.Option(help="Also see project:ID. The files of this folder are written, not your own.")
    ] = None
    url: Annotated[str, typer.Option(help="The address of KnowHub.")] = DEFAULT_URL
    with_key: Annotated[bool, typer.Option("--with-key", help=f"Send the key that is in {KEY_VARIABLE}.")] = False
    hooks_only: Annotated[bool, typer.Option("--hooks-only", help="Without MCP.")] = False
    mcp_only: Annotated[bool, typer.Option("--mcp-only", help="Without hooks.")] = False
    dry_run: DryRun = False
    plugin_folder: Annotated[
        bool, typer.Option("--plugin-folder", help="Print the folder of the plugin for Claude Code, and write nothing.")
    ] = False


@command(app, "connect")
def connect(options: ConnectOptions, host: HostArgument) -> None:
    """Connect a coding agent: write its hooks and its MCP server into its files.

    What others wrote there stays. The changes are shown.
    """
    if options.plugin_folder:
        output.say(str(PLUGIN))
        return
    if options.hooks_only and options.mcp_only:
        raise typer.BadParameter("--hooks-only and --mcp-only leave nothing")
    if options.hooks_only and host == "vscode":
        raise typer.BadParameter("KnowHub answers no hooks of VS Code; leave --hooks-only out")
    if options.project and not options.user and not options.with_key:
        raise typer.BadParameter("--project needs --user: what is said in a session belongs to somebody")
    check_url(options.url)
    connection = _make_connection(host, options)
    edits = list_edits(host, connection, has_hooks=not options.mcp_only, has_mcp=not options.hooks_only)
    changes, _ = plan_changes(edits, is_removal=False)
    _apply(changes, dry_run=options.dry_run, nothing=f"{host} is connected like this already.")
    if changes and not options.dry_run:
        output.say(HOSTS[host].next_step)


@app.command("disconnect")
def disconnect(host: HostArgument, dry_run: DryRun = False) -> None:
    """Take out what `connect` wrote, in your own files and in those of this folder."""
    connections = [
        _make_connection(host, options) for options in (ConnectOptions(), ConnectOptions(project="this folder"))
    ]
    edits = [edit for connection in connections for edit in list_edits(host, connection, has_hooks=True, has_mcp=True)]
    changes, kept = plan_changes(edits, is_removal=True)
    _apply(changes, dry_run=dry_run, nothing=f"{host} is not connected.")
    for name in kept:
        output.say(f"{name} stays: it is not as connect writes it, so it is not ours.")


def _make_connection(host: HostName, options: ConnectOptions) -> Connection:
    from knowhub.settings import find_folder

    variable = HOSTS[host].config_variable
    config = find_folder(variable) if variable else None
    ids = {name: value for name, value in (("user", options.user), ("project", options.project)) if value}
    folder = Path.cwd() if options.project is not None else None
    return Connection(Path.home(), options.url, ids, folder, config, options.with_key)


def _apply(changes: list[FileChange], *, dry_run: bool, nothing: str) -> None:
    # Before anything is printed: whoever reads the differences may stop reading.
    for change in changes if not dry_run else ():
        change.write()
    for change in changes:
        output.say(change.make_diff())
    if not changes:
        output.say(nothing)
