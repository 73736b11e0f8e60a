"""`reindex`, `compact` and `doctor`: rebuild indexes, shrink the log, and check a data directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import load_settings, run_on_hub, run_route
from knowhub.cli.options import CommonOptions, expand_options
from knowhub.core.errors import Conflict

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext

_STYLES = {"ok": "green", "note": "cyan", "problem": "bold red"}

app = typer.Typer()


@app.command("reindex")
@expand_options
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
    output.print_answer({"records": count}, f"the index has {count} records", as_json=options.as_json)


@app.command("compact")
@expand_options
def compact(
    options: CommonOptions,
    keep_undo_days: Annotated[
        float | None,
        typer.Option(min=0, help="Keep the operations of this many days. Default: KNOWHUB_UNDO_RETENTION_DAYS."),
    ] = None,
) -> None:
    """Forget old operations and free their space.

    Every row stays. A server may be running.
    """
    result = run_route(options, "upkeep.compact", {"undo_retention_days": keep_undo_days})
    sizes = f"the log had {result['bytes_before']} bytes, now {result['bytes_after']}"
    lines = [f"forgot {result['operations']} operations; {sizes}"]
    if result["held_by_others"]:
        lines.append("another process still reads older segments; run it again later to free more")
    output.print_answer(result, *lines, as_json=options.as_json)


@app.command("doctor")
@expand_options
def doctor(
    options: CommonOptions,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair first. No KnowHub may have the directory open.")
    ] = False,
) -> None:
    """Look for damage, incomplete writes and outdated files.

    Ends with 1 on a problem. Writes nothing without --repair.
    """
    import asyncio

    from knowhub.bootstrap import check_directory, repair_directory
    from knowhub.wiring.embedding_report import check_embedder

    settings = load_settings(options)
    repairs = (
        [asdict(finding) for finding in repair_directory(settings)] if repair and settings.data_dir.is_dir() else []
    )
    findings = [asdict(finding) for finding in check_directory(settings)]
    problems = sum(finding["severity"] == "problem" for finding in findings)
    embedder = asyncio.run(check_embedder(settings))
    if options.as_json:
        answer = {"results": findings, "count": len(findings), "problems": problems, "embedder": embedder}
        output.print_json(answer | ({"repaired": repairs} if repair else {}))
    else:
        if repairs:
            _print_findings("repaired", repairs)
        _print_findings("found", findings)
        _print_embedder(embedder)
        output.say("no problems" if not problems else f"problems: {problems}")
    if problems:
        raise typer.Exit(1)


def _print_embedder(embedder: Mapping[str, Any]) -> None:
    if embedder["model"] is None:
        output.say("embedder: none, searches use words only")
    else:
        reads = ", ".join(embedder["reads"]) or "none"
        output.say(f"embedder: {embedder['model']} ({embedder['source']}), reads {reads} by {embedder['decided_by']}")
    for script, reason in embedder["left_to_words"].items():
        output.say(f"  {script}: words only, {reason}")
    for problem in embedder["problems"]:
        output.warn(problem)


def _print_findings(heading: str, findings: Sequence[Mapping[str, str]]) -> None:
    rows = [
        (
            output.cell(finding["severity"], _STYLES[finding["severity"]]),
            finding["subject"],
            "\n→ ".join(filter(None, (finding["detail"], finding["advice"]))),
        )
        for finding in findings
    ]
    output.print_table(("", "what", heading), rows)
