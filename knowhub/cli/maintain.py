"""Upkeep: building indexes anew, and looking at a data directory without opening it."""

from dataclasses import asdict

import typer

from knowhub.bootstrap import Hub, examine
from knowhub.cli import output
from knowhub.cli.hub_access import settings_of, use_hub
from knowhub.cli.options import Place, spread
from knowhub.core.errors import Conflict

_STYLES = {"ok": "green", "note": "cyan", "problem": "bold red"}


@spread
def reindex(place: Place) -> None:
    """Build every index anew from the log. Where a server runs, it is the server that must be asked."""
    with output.progress(place.as_json) as bars:
        task = bars.add_task("reindexing", total=None)

        async def work(hub: Hub) -> int:
            # Two processes that write one index would undo each other's work: only the keeper does.
            await hub.keeper.run_once()
            if not hub.keeper.is_keeper:
                raise Conflict(
                    "a running server keeps the indexes of this directory; ask it: POST /api/maintenance/reindex"
                )
            return await hub.reindex(lambda done, total: bars.update(task, completed=done, total=total))

        records = use_hub(place, work)
    if place.as_json:
        output.print_json({"records": records})
    else:
        output.say(f"the index holds {records} records")


@spread
def doctor(place: Place) -> None:
    """Look for damage, torn writes and whatever is behind or in the way; writes nothing. Ends with 1 on a problem."""
    findings = examine(settings_of(place))
    problems = sum(finding.severity == "problem" for finding in findings)
    if place.as_json:
        results = [asdict(finding) for finding in findings]
        output.print_json({"results": results, "count": len(results), "problems": problems})
    else:
        table = output.table("", "what", "found")
        for finding in findings:
            text = "\n→ ".join(filter(None, (finding.detail, finding.advice)))
            style = _STYLES[finding.severity]
            table.add_row(output.cell(finding.severity, style), output.cell(finding.subject), output.cell(text))
        output.print_table(table)
        output.say("all is well" if not problems else f"problems: {problems}")
    if problems:
        raise typer.Exit(1)
