"""The junk-rate report, for a person at a terminal."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer

from knowhub.audit.model import DEFAULT_LIMIT, DEFAULT_STALE_DAYS, Finding, Kind, Report, Severity
from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, use_hub
from knowhub.cli.options import Place, spread
from knowhub.web.routes.audit import shown
from knowhub.web.schemas.audit import AuditParams

_STYLES = {Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.PROBLEM: "bold red"}
_EVIDENCE_CHARS = 400
_OPTIONS = {"kinds": "--kind"}


@spread
def audit(
    place: Place,
    kinds: Annotated[list[Kind] | None, typer.Option("--kind", help="Only this kind; may be given again.")] = None,
    stale_days: Annotated[int, typer.Option(help="Days after which a record is old.")] = DEFAULT_STALE_DAYS,
    limit: Annotated[int, typer.Option(help="How many findings to show, 1 to 1,000.")] = DEFAULT_LIMIT,
    account: Annotated[str | None, typer.Option(help="The account; else `default`.")] = None,
) -> None:
    """Look for what is kept twice, came out of a search, is over, or must not be kept; writes nothing."""
    asked = {"kinds": kinds, "stale_days": stale_days, "limit": limit, "account": account}
    params = checked(AuditParams, asked, _OPTIONS)

    async def work(hub: Hub) -> Report:
        return await hub.audit.report(params.context(hub.default_owner), params.question())

    report = use_hub(place, work)
    if place.as_json:
        output.print_json(shown(report))
    else:
        _print_report(report)


def _print_report(report: Report) -> None:
    if report.findings:
        table = output.table("", "kind", "row", "related", "evidence")
        for finding in report.findings:
            table.add_row(*_cells(finding))
        output.print_table(table)
    counts = ", ".join(f"{kind} {count}" for kind, count in report.summary.items() if count) or "nothing was found"
    output.say(
        f"junk rate: {report.junk_rate:.1%} ({report.junk} of {report.records + report.infos} records and infos)"
    )
    output.say(counts)
    if report.is_truncated:
        output.say(f"the first {len(report.findings)} are shown; --limit and --kind show others")


def _cells(finding: Finding) -> Sequence[Any]:
    evidence = "\n→ ".join((_evidence(finding.evidence), finding.suggestion))
    texts = (finding.kind.value, finding.id, "\n".join(finding.related[:5]), evidence)
    return output.cell(finding.severity.value, _STYLES[finding.severity]), *map(output.cell, texts)


def _evidence(evidence: Mapping[str, Any]) -> str:
    return output.one_line(
        ", ".join(f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in evidence.items()),
        _EVIDENCE_CHARS,
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
