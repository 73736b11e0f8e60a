"""Upkeep: building indexes anew, making the log smaller, and looking at a data directory without opening it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from knowhub.bootstrap import Hub, examine, mend
from knowhub.cli import output
from knowhub.cli.hub_access import settings_of, use_hub
from knowhub.cli.options import Place, spread
from knowhub.core.errors import Conflict
from knowhub.operations.model import Compacted

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
def compact(
    place: Place,
    keep_undo_days: Annotated[
        float | None, typer.Option(min=0, help="How far back operations are kept; else KNOWHUB_UNDO_RETENTION_DAYS.")
    ] = None,
) -> None:
    """Forget old operations and free their space, beside a running server too. Every row stays."""

    async def work(hub: Hub) -> Compacted:
        return await hub.compact(keep_undo_days)

    done = use_hub(place, work)
    if place.as_json:
        output.print_json(asdict(done))
        return
    output.say(f"forgot {done.operations} operations; the log has {done.bytes_after} bytes, it had {done.bytes_before}")
    if done.held_by_others:
        output.say("another process still reads older segments: more goes once it has read on")


@spread
def doctor(
    place: Place,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended first; no KnowHub may have the directory open.")
    ] = False,
) -> None:
    """Look for damage, torn writes and whatever is behind or in the way. Ends with 1 on a problem.

    Writes nothing without --repair.
    """
    settings = settings_of(place)
    done = [asdict(finding) for finding in mend(settings)] if repair and settings.data_dir.is_dir() else []
    findings = [asdict(finding) for finding in examine(settings)]
    problems = sum(finding["severity"] == "problem" for finding in findings)
    if place.as_json:
        answer = {"results": findings, "count": len(findings), "problems": problems}
        output.print_json(answer | ({"repaired": done} if repair else {}))
    else:
        if done:
            _print_findings("repaired", done)
        _print_findings("found", findings)
        output.say("all is well" if not problems else f"problems: {problems}")
    if problems:
        raise typer.Exit(1)


def _print_findings(heading: str, findings: Sequence[Mapping[str, str]]) -> None:
    table = output.table("", "what", heading)
    for finding in findings:
        text = "\n→ ".join(filter(None, (finding["detail"], finding["advice"])))
        style = _STYLES[finding["severity"]]
        table.add_row(output.cell(finding["severity"], style), output.cell(finding["subject"]), output.cell(text))
    output.print_table(table)
