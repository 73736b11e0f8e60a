"""`knowhub snapshot`: create, list and delete snapshots, restore one, and unpack one into a new directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import load_settings
from knowhub.cli.options import CommonOptions

app = typer.Typer(help="Back up everything in one file, and restore it.", no_args_is_help=True)

Timestamp = Annotated[str, typer.Argument(metavar="TS", help="The snapshot, such as 20261120T154500Z.")]


@route_command(app, "create", "maintenance.create_snapshot", common=CommonOptions)
def create(snapshot: Answer) -> Lines:
    """Create a snapshot of everything that is saved. A server may be running."""
    yield f"snapshot {snapshot['ts']}: {snapshot['bytes']} bytes in {snapshot['path']}"


@route_command(app, "list", "maintenance.list_snapshots", common=CommonOptions)
def list_snapshots(page: Answer) -> Lines:
    """List the snapshots, the newest first."""
    columns: output.Columns = {
        "ts": "ts",
        "bytes": "bytes",
        "created": lambda item: item["created_at"] or "",
        "operation": "last_seq",
        "reason": lambda item: item["problem"] or item["reason"] or "",
    }
    return output.list_page(page, columns)


@route_command(app, "delete", "maintenance.delete_snapshot", common=CommonOptions)
def delete(deleted: Answer, ts: Timestamp) -> Lines:
    """Delete a snapshot. This cannot be undone."""
    yield f"deleted snapshot {ts}"


@route_command(app, "restore", "maintenance.restore_snapshot", common=CommonOptions)
def restore(done: Answer, ts: Timestamp) -> Lines:
    """Restore a snapshot. The present state is saved in another snapshot, and the restore can be undone."""
    yield f"restored {done['restored']} rows and removed {done['removed']}, as of snapshot {ts}"
    for row in done["erased"]:
        yield f"{row['collection']} {row['id']} was erased after the snapshot, and stays erased"
    if done["safety_snapshot"] is not None:
        yield f"the state before the restore is in snapshot {done['safety_snapshot']}"
    yield from output.list_undo(done["restore_id"])


@command(app, "unpack")
def unpack_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of a snapshot, from any machine.")],
    options: CommonOptions,
) -> None:
    """Unpack a snapshot with its whole history into an empty data directory."""
    from knowhub.bootstrap import unpack_snapshot

    settings = load_settings(options)
    manifest = unpack_snapshot(file, settings)
    answer = {"ts": manifest.ts, "path": str(settings.data_dir), "last_seq": manifest.last_seq}
    line = f"{settings.data_dir} now holds snapshot {manifest.ts}, up to operation {manifest.last_seq}"
    output.print_answer(answer, [line], as_json=options.as_json)
