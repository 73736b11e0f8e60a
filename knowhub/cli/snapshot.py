"""Snapshots: making, listing and deleting them, going back to one, and laying one out somewhere else."""

from pathlib import Path
from typing import Annotated

import typer

from knowhub.bootstrap import Hub, unpack
from knowhub.cli import output
from knowhub.cli.hub_access import settings_of, use_hub
from knowhub.cli.options import Place, spread
from knowhub.core.request_context import local_context
from knowhub.operations.model import Restored, SnapshotEntry
from knowhub.web.routes.maintenance import restored, shown

app = typer.Typer(help="Keep everything in one file, and go back to it.", no_args_is_help=True)

_Ts = Annotated[str, typer.Argument(metavar="TS", help="Which snapshot, such as 20261120T154500Z.")]


@app.command("create")
@spread
def create(place: Place) -> None:
    """Make a snapshot of everything that is acknowledged, beside a running server too."""

    async def work(hub: Hub) -> SnapshotEntry:
        return await hub.snapshots.create()

    entry = use_hub(place, work)
    if place.as_json:
        output.print_json(shown(entry))
    else:
        output.say(f"snapshot {entry.ts}: {entry.size} bytes in {entry.path}")


@app.command("list")
@spread
def list_snapshots(place: Place) -> None:
    """List the snapshots, newest first."""

    async def work(hub: Hub) -> list[SnapshotEntry]:
        return list(await hub.snapshots.entries())

    entries = use_hub(place, work)
    if place.as_json:
        output.print_json({"results": [shown(entry) for entry in entries], "count": len(entries)})
        return
    table = output.table("ts", "bytes", "made", "operation", "why")
    for entry in entries:
        told = (entry.ts, entry.size, entry.created_at or "", entry.last_seq, entry.problem or entry.reason or "")
        table.add_row(*(output.cell(str(one)) for one in told))
    output.print_table(table)


@app.command("delete")
@spread
def delete(ts: _Ts, place: Place) -> None:
    """Delete a snapshot; there is no way back."""

    async def work(hub: Hub) -> None:
        await hub.snapshots.delete(ts)

    use_hub(place, work)
    if place.as_json:
        output.print_json({"ts": ts, "deleted": True})
    else:
        output.say(f"deleted snapshot {ts}")


@app.command("restore")
@spread
def restore(ts: _Ts, place: Place) -> None:
    """Go back to a snapshot. What stands is kept in another one, and the restore can be undone."""

    async def work(hub: Hub) -> Restored:
        return await hub.snapshots.restore(local_context(hub.default_owner), ts)

    done = use_hub(place, work)
    if place.as_json:
        operation_id = done.operation_ids[-1] if done.operation_ids else None
        output.print_json(restored(done) | {"operation_id": operation_id})
        return
    output.say(f"restored {done.restored} rows and removed {done.removed}, as of snapshot {ts}")
    for collection, row_id in done.erased:
        output.say(f"{collection} {row_id} was erased since, and stays erased")
    if done.safety_snapshot is not None:
        output.say(f"what stood before is in snapshot {done.safety_snapshot}")
    output.say_undo(done.restore_id)


@app.command("unpack")
@spread
def unpack_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The snapshot's file, from whichever machine.")],
    place: Place,
) -> None:
    """Make an empty directory a data directory out of a snapshot, with all its history."""
    settings = settings_of(place)
    manifest = unpack(file, settings)
    if place.as_json:
        output.print_json({"ts": manifest.ts, "path": str(settings.data_dir), "last_seq": manifest.last_seq})
    else:
        output.say(f"{settings.data_dir} is as of snapshot {manifest.ts}, up to operation {manifest.last_seq}")
