"""`knowhub snapshot`: create, list and delete snapshots, restore one, and unpack one into a new directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import load_settings, run_route
from knowhub.cli.options import CommonOptions, expand_options

app = typer.Typer(help="Back up everything in one file, and restore it.", no_args_is_help=True)

Timestamp = Annotated[str, typer.Argument(metavar="TS", help="The snapshot, such as 20261120T154500Z.")]


@app.command("create")
@expand_options
def create(options: CommonOptions) -> None:
    """Create a snapshot of everything that is saved. A server may be running."""
    snapshot = run_route(options, "upkeep.create_snapshot")
    line = f"snapshot {snapshot['ts']}: {snapshot['bytes']} bytes in {snapshot['path']}"
    output.print_answer(snapshot, line, as_json=options.as_json)


@app.command("list")
@expand_options
def list_snapshots(options: CommonOptions) -> None:
    """List the snapshots, the newest first."""
    listed = run_route(options, "upkeep.list_snapshots")
    if options.as_json:
        output.print_json(listed)
        return
    rows = [
        (item["ts"], item["bytes"], item["created_at"] or "", item["last_seq"], item["problem"] or item["reason"] or "")
        for item in listed["results"]
    ]
    output.print_table(("ts", "bytes", "created", "operation", "reason"), rows)


@app.command("delete")
@expand_options
def delete(ts: Timestamp, options: CommonOptions) -> None:
    """Delete a snapshot. This cannot be undone."""
    deleted = run_route(options, "upkeep.delete_snapshot", in_path={"ts": ts})
    output.print_answer(deleted, f"deleted snapshot {ts}", as_json=options.as_json)


@app.command("restore")
@expand_options
def restore(ts: Timestamp, options: CommonOptions) -> None:
    """Restore a snapshot. The present state is saved in another snapshot, and the restore can be undone."""
    done = run_route(options, "upkeep.restore_snapshot", in_path={"ts": ts})
    lines = [f"restored {done['restored']} rows and removed {done['removed']}, as of snapshot {ts}"]
    lines += [
        f"{row['collection']} {row['id']} was erased after the snapshot, and stays erased" for row in done["erased"]
    ]
    if done["safety_snapshot"] is not None:
        lines.append(f"the state before the restore is in snapshot {done['safety_snapshot']}")
    output.print_answer(done, *lines, as_json=options.as_json, undo=done["restore_id"])


@app.command("unpack")
@expand_options
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
    output.print_answer(answer, line, as_json=options.as_json)
