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
    from knowhub.web.views import make_snapshot_view

    entry = run_on_hub(options, lambda hub, _: hub.operations.snapshots.create())
    line = f"snapshot {entry.ts}: {entry.size} bytes in {entry.path}"
    output.print_answer(make_snapshot_view(entry), line, as_json=options.as_json)


@app.command("list")
@expand_options
def list_snapshots(options: CommonOptions) -> None:
    """List the snapshots, the newest first."""
    from knowhub.web.views import make_snapshot_view

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
    output.print_answer({"ts": ts, "deleted": True}, f"deleted snapshot {ts}", as_json=options.as_json)


@app.command("restore")
@expand_options
def restore(ts: Timestamp, options: CommonOptions) -> None:
    """Restore a snapshot. The present state is saved in another snapshot, and the restore can be undone."""
    from knowhub.web.views import make_restore_view

    result = run_on_hub(options, lambda hub, ctx: hub.operations.snapshots.restore(ctx, ts))
    lines = [f"restored {result.restored} rows and removed {result.removed}, as of snapshot {ts}"]
    lines += [f"{name} {row_id} was erased after the snapshot, and stays erased" for name, row_id in result.erased]
    if result.safety_snapshot is not None:
        lines.append(f"the state before the restore is in snapshot {result.safety_snapshot}")
    output.print_answer(make_restore_view(result), *lines, as_json=options.as_json, undo=result.restore_id)


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
