"""`extract`, `slim` and `audit`: find what to store, merge what is stored twice, report what should not be stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.audit.model import DEFAULT_LIMIT, DEFAULT_STALE_DAYS, AuditSeverity, FindingKind
from knowhub.cli import output
from knowhub.cli.hub_access import parse_model, run_on_hub, run_route
from knowhub.cli.inputs import check_not_empty, read_messages
from knowhub.cli.options import CallerOptions, CommonOptions, expand_options
from knowhub.knowledge.extract.model import Trigger

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext

_MESSAGES_HELP = "Messages: a JSON array, an object with `messages`, or one JSON object per line; - reads stdin."
_STYLES: dict[str, str] = {
    AuditSeverity.NOTE: "cyan",
    AuditSeverity.WARNING: "yellow",
    AuditSeverity.PROBLEM: "bold red",
}
_EVIDENCE_CHARS = 400
_MERGED_CHARS = 300
_MAX_RELATED = 5

app = typer.Typer()


@app.command("extract")
@expand_options
def extract(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_MESSAGES_HELP, show_default=False)],
    options: CallerOptions,
    trigger: Annotated[Trigger, typer.Option(help="The occasion. It decides what is looked for.")] = Trigger.COMPACTION,
    trace_id: Annotated[str | None, typer.Option(help="The trace that the conversation belongs to.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be saved, and write nothing.")] = False,
) -> None:
    """Find what is worth keeping in a conversation, and save it.

    That is preferences, constraints, pitfalls and outcomes.
    """
    sent = read_messages(file)
    check_not_empty(sent)
    values = {"messages": sent["messages"], "trigger": trigger.value, "trace_id": trace_id, "dry_run": dry_run}
    names = {"messages": "FILE"}
    extracted = run_route(options, "knowledge.extract_knowledge", values, create=not dry_run, option_names=names)
    output.print_either(extracted, _print_extracted, as_json=options.as_json)


@app.command("slim")
@expand_options
def slim(
    options: CallerOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged, and write nothing.")] = False,
    model: Annotated[str | None, typer.Option(help="Ask this model. Default: the model of the settings.")] = None,
) -> None:
    """Merge copies, near copies, and records that a model finds equal.

    `knowhub undo SLIM_ID` reverts all of it.
    """
    from knowhub.web.schemas.knowledge import SlimBody
    from knowhub.web.views import make_slimming_view

    body = parse_model(SlimBody, {"model": model, "dry_run": dry_run})
    with output.show_progress(options.as_json) as bars:
        task = bars.add_task("slimming", total=None)

        async def work(hub: Hub, ctx: RequestContext) -> dict[str, Any]:
            slimmed = await hub.knowledge.slimming.slim(
                ctx,
                body.model,
                dry_run=body.dry_run,
                progress=lambda done, total: bars.update(task, completed=done, total=total),
            )
            return make_slimming_view(slimmed)

        report = run_on_hub(options, work)
    output.print_either(report, _print_slimmed, as_json=options.as_json)


@app.command("audit")
@expand_options
def audit(
    options: CommonOptions,
    kinds: Annotated[list[FindingKind] | None, typer.Option("--kind", help="Only this kind; can be repeated.")] = None,
    stale_days: Annotated[int, typer.Option(help="A record is old after this many days.")] = DEFAULT_STALE_DAYS,
    limit: Annotated[int, typer.Option(help="How many findings to show, 1 to 1,000.")] = DEFAULT_LIMIT,
    account: Annotated[str | None, typer.Option(help="The account. Default: `default`.")] = None,
) -> None:
    """Report duplicates, copied search results, expired records and secrets.

    Writes nothing.
    """
    values = {"kinds": kinds, "stale_days": stale_days, "limit": limit, "account": account}
    report = run_route(options, "upkeep.audit", values, option_names={"kinds": "--kind"})
    output.print_either(report, _print_audit, as_json=options.as_json)


def _print_extracted(extracted: Mapping[str, Any]) -> None:
    if not extracted["candidates"]:
        output.say("nothing worth keeping was found")
    for candidate in extracted["candidates"]:
        output.say(f"{candidate['status']:>12}  {candidate['category']}  {candidate['knowledge_id'] or ''}")
        output.say(f"              {output.shorten(candidate['content'])}")
        if candidate["reason"]:
            output.say(f"              {candidate['reason']}")
    for offer in extracted["resources"]:
        output.say(f"    resource  {offer['content_type']}  {offer['shown']}  (message {offer['message']})")
    output.say_degraded(extracted["degraded"])
    output.say_undo(extracted["operation_id"])


def _print_slimmed(report: Mapping[str, Any]) -> None:
    if report["merged"]:
        rows = [
            (
                merge["into"],
                "\n".join(merge["sources"]),
                merge["how"],
                output.shorten(f"{merge.get('task', '')} {merge.get('content', '')}", _MERGED_CHARS),
            )
            for merge in report["merged"]
        ]
        output.print_table(("into", "merged", "how", "new text"), rows)
    for group in report["skipped"]:
        output.say(f"not merged: {', '.join(group['ids'])}: {group['reason']}")
    verb = "would become" if report["dry_run"] else "became"
    output.say(f"{report['records_before']} records {verb} {report['records_after']}")
    if report["slim_id"] is not None:
        output.say(f"undo all of it with: knowhub undo {report['slim_id']}")
    if report["has_more"]:
        output.say("some records were not compared yet: run it again")


def _print_audit(report: Mapping[str, Any]) -> None:
    if report["findings"]:
        output.print_table(("", "kind", "row", "related", "evidence"), list(_audit_rows(report["findings"])))
    counts = ", ".join(f"{kind} {count}" for kind, count in report["summary"].items() if count) or "nothing was found"
    output.say(
        f"junk rate: {report['junk_rate']:.1%} "
        f"({report['junk']} of {report['records'] + report['infos']} records and infos)"
    )
    output.say(counts)
    if report["truncated"]:
        output.say(f"the first {report['count']} are shown; use --limit and --kind to see others")


def _audit_rows(findings: Sequence[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    import orjson

    for finding in findings:
        values = {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in finding["evidence"].items()
        }
        evidence = output.shorten(", ".join(f"{name}: {text}" for name, text in values.items()), _EVIDENCE_CHARS)
        severity = output.cell(finding["severity"], _STYLES[finding["severity"]])
        related = "\n".join(finding["related"][:_MAX_RELATED])
        yield severity, finding["kind"], finding["id"], related, f"{evidence}\n→ {finding['suggestion']}"
