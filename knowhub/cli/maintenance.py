"""`reindex`, `compact` and `doctor`: rebuild indexes, shrink the log, and check a data directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import load_settings, run_on_hub
from knowhub.cli.options import CommonOptions
from knowhub.core.errors import Conflict

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext

_STYLES = {"ok": "green", "note": "cyan", "problem": "bold red"}

app = typer.Typer()


@command(app, "reindex")
def reindex(options: CommonOptions) -> None:
    """Rebuild every index from the log.

    While a server runs, ask the server instead.
    """
    with output.show_progress(options.as_json) as bars:
        task = bars.add_task("reindexing", total=None)

        async def work(hub: Hub, _: RequestContext) -> int:
            # Two processes that write the same index would overwrite each other: only the leader writes it.
            await hub.maintenance.tick()
            if not hub.maintenance.is_leader:
                raise Conflict(
                    "a running server maintains the indexes of this directory; use POST /api/maintenance/reindex"
                )
            return await hub.reindex(lambda done, total: bars.update(task, completed=done, total=total))

        count = run_on_hub(options, work)
    output.print_answer({"records": count}, [f"the index has {count} records"], as_json=options.as_json)


@route_command(app, "compact", "maintenance.compact", common=CommonOptions)
def compact(
    result: Answer,
    undo_retention_days: Annotated[
        float | None,
        typer.Option(
            "--keep-undo-days",
            min=0,
            help="Keep the operations of this many days. Default: KNOWHUB_UNDO_RETENTION_DAYS.",
        ),
    ] = None,
) -> Lines:
    """Forget old operations and free their space.

    Every row stays. A server may be running.
    """
    sizes = f"the log had {result['bytes_before']} bytes, now {result['bytes_after']}"
    yield f"forgot {result['operations']} operations; {sizes}"
    if result["held_by_others"]:
        yield "another process still reads older segments; run it again later to free more"


@command(app, "doctor")
def doctor(
    options: CommonOptions,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair first. No KnowHub may have the directory open.")
    ] = False,
) -> None:
    """Look for damage, incomplete writes, outdated files and embedder problems.

    Ends with 1 on a problem. Writes nothing without --repair.
    """
    import asyncio

    from knowhub.bootstrap import check_directory, repair_directory
    from knowhub.wiring.models import check_embedder

    settings = load_settings(options)
    repairs = repair_directory(settings) if repair and settings.data_dir.is_dir() else []
    findings = check_directory(settings)
    embedder = asyncio.run(check_embedder(settings))
    problems = sum(finding.severity == "problem" for finding in findings) + len(embedder["problems"])
    answer = {
        "results": [asdict(finding) for finding in findings],
        "count": len(findings),
        "problems": problems,
        "embedder": embedder,
    }
    answer |= {"repaired": [asdict(finding) for finding in repairs]} if repair else {}
    output.print_answer(answer, _list_report(answer), as_json=options.as_json)
    if problems:
        raise typer.Exit(1)


def _list_report(answer: Answer) -> Lines:
    if answer.get("repaired"):
        yield _make_findings_table("repaired", answer["repaired"])
    yield _make_findings_table("found", answer["results"])
    embedder, problems = answer["embedder"], answer["problems"]
    if embedder["model"] is None:
        yield "embedder: none, searches use words only"
    else:
        reads = ", ".join(embedder["reads"]) or "none"
        yield f"embedder: {embedder['model']} ({embedder['source']}), reads {reads} by {embedder['decided_by']}"
    for script, reason in embedder["left_to_words"].items():
        yield f"  {script}: words only, {reason}"
    for problem in embedder["problems"]:
        output.warn(problem)
    yield f"problems: {problems}" if problems else "no problems"


def _make_findings_table(heading: str, findings: Sequence[Answer]) -> object:
    rows = [
        (
            output.make_cell(finding["severity"], _STYLES[finding["severity"]]),
            finding["subject"],
            "\n→ ".join(filter(None, (finding["detail"], finding["advice"]))),
        )
        for finding in findings
    ]
    return output.make_table(("", "what", heading), rows)
