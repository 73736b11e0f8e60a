"""`extract`, `slim` and `audit`: find what to store, merge what is stored twice, report what should not be stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.audit.model import DEFAULT_LIMIT, DEFAULT_STALE_DAYS, AuditSeverity, FindingKind
from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, route_command
from knowhub.cli.inputs import read_messages
from knowhub.cli.options import CommonOptions
from knowhub.knowledge.extract.model import Trigger

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


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """A conversation, and what is looked for in it."""

    messages: Annotated[Path, typer.Argument(metavar="FILE", help=_MESSAGES_HELP, show_default=False)]
    trigger: Annotated[Trigger, typer.Option(help="The occasion. The same is looked for on each.")] = Trigger.COMPACTION
    trace_id: Annotated[str | None, typer.Option(help="The trace that the conversation belongs to.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be saved, and write nothing.")] = False

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        return asdict(self) | {"messages": read_messages(self.messages)["messages"]}


@route_command(app, "extract", "knowledge.extract_knowledge", creates=lambda fields: not fields["dry_run"])
def extract(extracted: Answer, conversation: ExtractOptions) -> Lines:
    """Find what is worth keeping in a conversation, and save it.

    That is preferences, constraints, pitfalls and outcomes.
    """
    if not extracted["candidates"]:
        yield "nothing worth keeping was found"
    for candidate in extracted["candidates"]:
        yield f"{candidate['status']:>12}  {candidate['category']}  {candidate['knowledge_id'] or ''}"
        yield f"              {output.shorten(candidate['content'])}"
        if candidate["reason"]:
            yield f"              {candidate['reason']}"
    for offer in extracted["resources"]:
        yield f"    resource  {offer['content_type']}  {offer['shown']}  (message {offer['message']})"
    yield from output.list_degraded(extracted["degraded"])
    yield from output.list_undo(extracted["operation_id"])


@route_command(app, "slim", "knowledge.slim_knowledge")
def slim(
    report: Answer,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged, and write nothing.")] = False,
    model: Annotated[str | None, typer.Option(help="Ask this model. Default: the model of the settings.")] = None,
) -> Lines:
    """Merge copies, near copies, and records that a model finds equal.

    `knowhub undo SLIM_ID` reverts all of it.
    """
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
        yield output.make_table(("into", "merged", "how", "new text"), rows)
    for group in report["skipped"]:
        yield f"not merged: {', '.join(group['ids'])}: {group['reason']}"
    verb = "would become" if dry_run else "became"
    yield f"{report['records_before']} records {verb} {report['records_after']}"
    if report["slim_id"] is not None:
        yield f"undo all of it with: knowhub undo {report['slim_id']}"
    if report["has_more"]:
        yield "some records were not compared yet: run it again"


@route_command(app, "audit", "maintenance.audit", common=CommonOptions)
def audit(
    report: Answer,
    kinds: Annotated[list[FindingKind] | None, typer.Option("--kind", help="Only this kind; can be repeated.")] = None,
    stale_days: Annotated[int, typer.Option(help="A record is old after this many days.")] = DEFAULT_STALE_DAYS,
    limit: Annotated[int, typer.Option(help="How many findings to show, 1 to 1,000.")] = DEFAULT_LIMIT,
    account: Annotated[str | None, typer.Option(help="The account. Default: `default`.")] = None,
) -> Lines:
    """Report duplicates, copied search results, expired records and secrets.

    Writes nothing.
    """
    if report["findings"]:
        yield output.make_table(("", "kind", "row", "related", "evidence"), _list_audit_rows(report["findings"]))
    total = report["records"] + report["infos"]
    yield f"junk rate: {report['junk_rate']:.1%} ({report['junk']} of {total} records and infos)"
    counts = [f"{kind} {count}" for kind, count in report["summary"].items() if count]
    yield ", ".join(counts) or "nothing was found"
    if report["truncated"]:
        yield f"the first {report['count']} are shown; use --limit and --kind to see others"


def _list_audit_rows(findings: Sequence[Answer]) -> Iterator[tuple[object, ...]]:
    import orjson

    for finding in findings:
        values = {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in finding["evidence"].items()
        }
        evidence = output.shorten(", ".join(f"{name}: {text}" for name, text in values.items()), _EVIDENCE_CHARS)
        severity = output.make_cell(finding["severity"], _STYLES[finding["severity"]])
        related = "\n".join(finding["related"][:_MAX_RELATED])
        yield severity, finding["kind"], finding["id"], related, f"{evidence}\n→ {finding['suggestion']}"
