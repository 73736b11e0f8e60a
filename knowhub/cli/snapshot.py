"""`knowhub snapshot`: create, list and delete snapshots, restore one, and unpack one into a new directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import load_settings, run_on_hub
from knowhub.cli.options import CommonOptions, expand_options

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext
    from knowhub.core.store_results import SnapshotEntry

app = typer.Typer(help="Back up everything in one file, and restore it.", no_args_is_help=True)

Timestamp = Annotated[str, typer.Argument(metavar="TS", help="The snapshot, such as 20261120T154500Z.")]


@app.command("create")
@expand_options
def create(options: CommonOptions) -> None:
    """Create a snapshot of everything that is saved. A server may be running."""
    from knowhub.web.routes.upkeep import make_snapshot_view

    entry = run_on_hub(options, lambda hub, _: hub.operations.snapshots.create())
    if options.as_json:
        output.print_json(make_snapshot_view(entry))
    else:
        output.say(f"snapshot {entry.ts}: {entry.size} bytes in {entry.path}")


@app.command("list")
@expand_options
def list_snapshots(options: CommonOptions) -> None:
    """List the snapshots, the newest first."""
    from knowhub.web.routes.upkeep import make_snapshot_view

    async def work(hub: Hub, _: RequestContext) -> list[SnapshotEntry]:
        return list(await hub.operations.snapshots.entries())

    entries = run_on_hub(options, work)
    if options.as_json:
        output.print_json({"results": [make_snapshot_view(entry) for entry in entries], "count": len(entries)})
        return
    rows = [
        (entry.ts, entry.size, entry.created_at or "", entry.last_seq, entry.problem or entry.reason or "")
        for entry in entries
    ]
    output.print_table(("ts", "bytes", "created", "operation", "reason"), rows)


@app.command("delete")
@expand_options
def delete(ts: Timestamp, options: CommonOptions) -> None:
    """Delete a snapshot. This cannot be undone."""

    async def work(hub: Hub, _: RequestContext) -> None:
        await hub.operations.snapshots.delete(ts)

    run_on_hub(options, work)
    if options.as_json:
        output.print_json({"ts": ts, "deleted": True})
    else:
        output.say(f"deleted snapshot {ts}")


@app.command("restore")
@expand_options
def restore(ts: Timestamp, options: CommonOptions) -> None:
    """Restore a snapshot. The present state is saved in another snapshot, and the restore can be undone."""
    from knowhub.web.routes.upkeep import make_restore_view

    result = run_on_hub(options, lambda hub, ctx: hub.operations.snapshots.restore(ctx, ts))
    if options.as_json:
        operation_id = result.operation_ids[-1] if result.operation_ids else None
        output.print_json(make_restore_view(result) | {"operation_id": operation_id})
        return
    output.say(f"restored {result.restored} rows and removed {result.removed}, as of snapshot {ts}")
    for collection, row_id in result.erased:
        output.say(f"{collection} {row_id} was erased after the snapshot, and stays erased")
    if result.safety_snapshot is not None:
        output.say(f"the state before the restore is in snapshot {result.safety_snapshot}")
    output.say_undo(result.restore_id)


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
    if options.as_json:
        output.print_json({"ts": manifest.ts, "path": str(settings.data_dir), "last_seq": manifest.last_seq})
    else:
        output.say(f"{settings.data_dir} now holds snapshot {manifest.ts}, up to operation {manifest.last_seq}")
