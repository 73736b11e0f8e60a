"""Save, find and rate knowledge records, and undo operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, route_command
from knowhub.cli.hub_access import parse_tags
from knowhub.cli.inputs import read_argument
from knowhub.knowledge.model import KnowledgeType, Order

app = typer.Typer()

KnowledgeId = Annotated[str, typer.Argument(metavar="ID", show_default=False)]
_CASE = ("task", "outcome", "reason")
_filter = partial(typer.Option, rich_help_panel="Filters")


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The fields of a new record."""

    task: Annotated[str, typer.Option(help="The situation and the goal. It weighs most in search.")] = ""
    content: Annotated[str, typer.Option(help="The knowledge itself; - reads it from stdin.")] = ""
    types: Annotated[list[KnowledgeType] | None, typer.Option("--type", help="Default: strategy.")] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE")] = None
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="Who may see it, such as project:atlas or public. Default: its owner."),
    ] = None
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    score: Annotated[int, typer.Option(min=1, max=5)] = 3
    resource_ids: Annotated[list[str] | None, typer.Option("--resource", metavar="ID")] = None
    source: Annotated[list[str] | None, typer.Option("--url", help="The address of the source.")] = None
    valid_from: Annotated[str | None, typer.Option(metavar="TIME")] = None
    valid_to: Annotated[str | None, typer.Option(metavar="TIME")] = None
    supersedes: Annotated[str | None, typer.Option(metavar="ID", help="The record that this record replaces.")] = None
    dedup: Annotated[bool, typer.Option(help="Save nothing when an equal record exists; answer with that.")] = True

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        return asdict(self) | {
            "content": read_argument(self.content),
            "tags": parse_tags(self.tags),
            "source": {"urls": self.source} if self.source else None,
        }


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Which records. An option that is repeated lists values; a record needs one of them."""

    types: Annotated[list[KnowledgeType] | None, _filter("--type", help="Only records of this type.")] = None
    scopes: Annotated[list[str] | None, _filter("--scope", help="Only records with this scope.")] = None
    tags: Annotated[list[str] | None, _filter("--tag", metavar="NAME=VALUE", help="Only records with this tag.")] = None
    owner: Annotated[str | None, _filter(help="Only records of this owner.")] = None
    since: Annotated[
        str | None, _filter(metavar="TIME", help="Only records that were created at this time or later.")
    ] = None
    until: Annotated[str | None, _filter(metavar="TIME", help="Only records that were created before this time.")] = (
        None
    )

    def values(self) -> dict[str, Any]:
        """Return the parameters of the HTTP API."""
        values = asdict(self)
        return values | {f"tag.{name}": value for name, value in parse_tags(values.pop("tags")).items()}


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How `search` selects and shows records."""

    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many results.")] = 5
    min_score: Annotated[int, typer.Option(min=1, max=5, help="Leave out records with a lower score.")] = 3
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="Only records that were valid at this time.")] = None
    min_relevance: Annotated[
        float | None, typer.Option(min=0, max=1, help="The least relevance of a result. 0: none.")
    ] = None
    order: Annotated[Order, typer.Option(help="How to order the results.")] = Order.AUTO
    explain: Annotated[bool, typer.Option("--explain", help="Show why each result is here and what was left out.")] = (
        False
    )
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="At most this many tokens of text (estimated).")] = (
        None
    )
    session_id: Annotated[str | None, typer.Option(help="Remember what was shown in this session.")] = None
    goal_id: Annotated[str | None, typer.Option(help="Remember what was shown for this goal.")] = None
    unseen: Annotated[bool, typer.Option("--unseen", help="Leave out what the session or goal was shown before.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class FeedbackOptions:
    """The feedback on a record."""

    helpful: Annotated[bool, typer.Option("--helpful", help="The record helped.")] = False
    harmful: Annotated[bool, typer.Option("--harmful", help="The record did harm.")] = False
    update_score: Annotated[int | None, typer.Option("--score", min=1, max=5, help="Set the score.")] = None
    task: Annotated[str | None, typer.Option(help="The task that it was used in.")] = None
    outcome: Annotated[str | None, typer.Option(help="The result of that task.")] = None
    reason: Annotated[str | None, typer.Option(help="Why it did harm.")] = None
    evolve_feedback: Annotated[
        str | None,
        typer.Option("--evolve", metavar="TEXT", help="What you learned since. A model rewrites the content."),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API. Ends with 2 when there is no feedback."""
        is_case = self.helpful or self.harmful
        if not is_case and self.update_score is None and self.evolve_feedback is None:
            raise typer.BadParameter("give --helpful, --harmful, --score or --evolve")
        # A case without details is evidence too.
        case = {name: getattr(self, name) for name in _CASE}
        if set(case.values()) != {None} and not is_case:
            raise typer.BadParameter("--task, --outcome and --reason need --helpful or --harmful")
        return {
            "update_score": self.update_score,
            "evolve_feedback": self.evolve_feedback,
            "add_helpful_case": case if self.helpful else None,
            "add_harmful_case": case if self.harmful else None,
        }


@route_command(app, "save", "knowledge.save_knowledge", creates=lambda _: True)
def save(saved: Answer, draft: SaveOptions) -> Lines:
    """Save what was learned, and print its id.

    An equal record is not saved twice.
    """
    yield from _list_saved(saved, "there already" if "duplicate_of" in saved else "saved")
    if missing := saved.get("missing_resource_ids"):
        output.warn(f"these resources do not exist: {', '.join(missing)}")


@route_command(app, "search", "knowledge.knowledge_search")
def search(
    found: Answer,
    q: Annotated[str, typer.Argument(metavar="QUERY", show_default=False)],
    selection: SearchOptions,
    filters: FilterOptions,
) -> Lines:
    """Find records about QUERY, the best first."""
    if not found["results"]:
        yield "nothing was found"
    yield from list_found(found["results"], (found.get("explanation") or {}).get("filtered", ()))


def list_found(results: Sequence[Answer], filtered: Sequence[Answer]) -> Lines:
    """Yield what a search has found, and what it has left out by which rule."""
    for record in results:
        yield f"{record['relevance']:>5.2f}  {record['id']}  {' '.join(record['types'])}"
        for text in filter(None, (record["task"], output.shorten(record["content"]))):
            yield f"        {text}"
        if "why" in record:
            why = record["why"]
            words = ", ".join(why["recall"]["matched"])
            stages = ", ".join(map(_format_stage, why["stages"]))
            yield f"        by {why['scope']['seen_by']}; {stages} for: {words}"
    for dropped in filtered:
        yield f"  left out  {dropped['id']}  {dropped['rule']}"


@route_command(app, "list", "knowledge.list_knowledge")
def list_records(
    page: Answer,
    filters: FilterOptions,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many records.")] = 10,
    cursor: Annotated[str | None, typer.Option(help="The next_cursor of the page before.")] = None,
) -> Lines:
    """List records, the newest first."""
    columns: output.Columns = {
        "id": "id",
        "types": lambda record: " ".join(record["types"]),
        "score": lambda record: record["eval"]["score"],
        "+": lambda record: record["eval"]["helpful"],
        "-": lambda record: record["eval"]["harmful"],
        "owner": "owner",
        "task": lambda record: record["task"] or output.shorten(record["content"]),
    }
    return output.list_page(page, columns)


@route_command(app, "get", "knowledge.get_knowledge")
def get(record: Answer, knowledge_id: KnowledgeId) -> Lines:
    """Show all fields of a record."""
    return output.list_fields(record)


@route_command(app, "feedback", "knowledge.update_knowledge")
def feedback(saved: Answer, knowledge_id: KnowledgeId, evidence: FeedbackOptions) -> Lines:
    """Rate a record. Search ranks by these ratings.

    Say that it helped or did harm, set its score, or say what you learned since.
    """
    if "evolved" in saved:
        yield from filter(None, (*(saved["diff"] or "").splitlines(), saved["detail"]))
    yield from _list_saved(saved, "changed" if saved["operation_id"] else "unchanged")


@route_command(app, "undo", "operations.undo_operation")
def undo(
    undone: Answer,
    operation_id: Annotated[str, typer.Argument(metavar="OPERATION_ID", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")] = False,
    with_later: Annotated[
        bool, typer.Option("--with-later", help="Undo the later operations that are in the way as well.")
    ] = False,
) -> Lines:
    """Undo an operation, or a whole import by its import_id.

    Later changes of the same fields are in the way, unless --with-later undoes them too.
    """
    from knowhub.core.collection import differences

    for change in undone["changes"]:
        yield f"{'would write' if dry_run else 'wrote'}  {change['id']}  (version {change['after']['version']})"
        yield from (f"        {path}" for path in differences(change["before"], change["after"]))
    for operation in undone["operation_ids"]:
        yield f"undo this with: knowhub undo {operation}"


def _list_saved(saved: Answer, status: str) -> list[str]:
    return [f"{status}  {saved['id']}  (version {saved['version']})", *output.list_undo(saved["operation_id"])]


def _format_stage(stage: Answer) -> str:
    score = "" if stage["score"] is None else f" ({stage['score']})"
    return f"{stage['stage']} {stage['rank']}.{score}"
