"""`knowhub slim`: merge what says the same, or see first what would be merged."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, use_hub
from knowhub.cli.options import Caller, Place, spread
from knowhub.web.routes.slimming import shown
from knowhub.web.schemas.slimming import SlimBody

_SHOWN_CHARS = 300


@spread
def slim(
    caller: Caller,
    place: Place,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged, and write nothing.")] = False,
    model: Annotated[str | None, typer.Option(help="Ask this model; else the one of the settings.")] = None,
) -> None:
    """Merge copies, near copies, and what a model finds to say the same; `knowhub undo SLIM_ID` takes it back."""
    ids = ids_of(caller)
    asked = checked(SlimBody, {"model": model, "dry_run": dry_run})
    with output.progress(place.as_json) as bars:
        task = bars.add_task("slimming", total=None)

        async def work(hub: Hub) -> dict[str, Any]:
            ctx = ids.context(hub.default_owner)
            done = await hub.slimming.slim(
                ctx,
                asked.model,
                dry_run=asked.dry_run,
                progress=lambda done, total: bars.update(task, completed=done, total=total),
            )
            return shown(done)

        report = use_hub(place, work)
    if place.as_json:
        output.print_json(report)
    else:
        _print_report(report)


def _print_report(report: Mapping[str, Any]) -> None:
    if report["merged"]:
        table = output.table("into", "merged", "how", "now says")
        for one in report["merged"]:
            text = output.one_line(f"{one.get('task', '')} {one.get('content', '')}", _SHOWN_CHARS)
            table.add_row(*map(output.cell, (one["into"], "\n".join(one["sources"]), one["how"], text)))
        output.print_table(table)
    for one in report["skipped"]:
        output.say(f"left apart: {', '.join(one['ids'])}: {one['reason']}")
    verb = "would become" if report["dry_run"] else "became"
    output.say(f"{report['records_before']} records {verb} {report['records_after']}")
    if report["slim_id"] is not None:
        output.say(f"knowhub undo {report['slim_id']} brings all of them back")
    if report["has_more"]:
        output.say("there is more to look at: run it again")
