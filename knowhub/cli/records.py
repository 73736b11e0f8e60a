"""Save, find and rate knowledge records, and undo operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import parse_tags, run_route
from knowhub.cli.inputs import read_argument
from knowhub.cli.options import CallerOptions, CommonOptions, expand_options
from knowhub.knowledge.model import KnowledgeType, Order

KnowledgeId = Annotated[str, typer.Argument(metavar="ID", show_default=False)]

_FILTERS = "Filters"
_CASE = ("task", "outcome", "reason")

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The fields of a new record."""

    task: Annotated[str, typer.Option(help="The situation and the goal. It weighs most in search.")] = ""
    content: Annotated[str, typer.Option(help="The knowledge itself; - reads it from stdin.")] = ""
    types: Annotated[list[KnowledgeType], typer.Option("--type", help="Default: strategy.")] = field(
        default_factory=list
    )
    tags: Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE")] = field(default_factory=list)
    scopes: Annotated[
        list[str],
        typer.Option("--scope", help="Who may see it, such as project:atlas or public. Default: its owner."),
    ] = field(default_factory=list)
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    score: Annotated[int, typer.Option(min=1, max=5)] = 3
    resource_ids: Annotated[list[str], typer.Option("--resource", metavar="ID")] = field(default_factory=list)
    urls: Annotated[list[str], typer.Option("--url", help="The address of the source.")] = field(default_factory=list)
    valid_from: Annotated[str | None, typer.Option(metavar="TIME")] = None
    valid_to: Annotated[str | None, typer.Option(metavar="TIME")] = None
    supersedes: Annotated[str | None, typer.Option(metavar="ID", help="The record that this record replaces.")] = None
    dedup: Annotated[bool, typer.Option(help="Save nothing when an equal record exists; answer with that.")] = True

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        values = asdict(self) | {
            "content": read_argument(self.content),
            "types": [kind.value for kind in self.types],
            "tags": parse_tags(self.tags),
            "source": {"urls": self.urls} if self.urls else None,
        }
        del values["urls"]
        return values


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Which records. An option that is repeated lists values; a record needs one of them."""

    types: Annotated[
        list[KnowledgeType], typer.Option("--type", help="Only records of this type.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    scopes: Annotated[
        list[str], typer.Option("--scope", help="Only records with this scope.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    tags: Annotated[
        list[str],
        typer.Option("--tag", metavar="NAME=VALUE", help="Only records with this tag.", rich_help_panel=_FILTERS),
    ] = field(default_factory=list)
    owner: Annotated[str | None, typer.Option(help="Only records of this owner.", rich_help_panel=_FILTERS)] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only records that were created at this time or later.", rich_help_panel=_FILTERS
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only records that were created before this time.", rich_help_panel=_FILTERS),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the parameters of the HTTP API."""
        values = asdict(self) | {"types": [kind.value for kind in self.types]}
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
class ListOptions:
    """The page of `list`."""

    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many records.")] = 10
    cursor: Annotated[str | None, typer.Option(help="The next_cursor of the page before.")] = None


@dataclass(frozen=True, slots=True)
class FeedbackOptions:
    """The feedback on a record."""

    helpful: Annotated[bool, typer.Option("--helpful", help="The record helped.")] = False
    harmful: Annotated[bool, typer.Option("--harmful", help="The record did harm.")] = False
    score: Annotated[int | None, typer.Option(min=1, max=5, help="Set the score.")] = None
    task: Annotated[str | None, typer.Option(help="The task that it was used in.")] = None
    outcome: Annotated[str | None, typer.Option(help="The result of that task.")] = None
    reason: Annotated[str | None, typer.Option(help="Why it did harm.")] = None
    evolve: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What you learned since. A model rewrites the content.")
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API. Ends with 2 when there is no feedback."""
        if not (self.helpful or self.harmful or self.score is not None or self.evolve is not None):
            raise typer.BadParameter("give --helpful, --harmful, --score or --evolve")
        # A case without details is evidence too.
        case = {name: getattr(self, name) for name in _CASE}
        if set(case.values()) != {None} and not (self.helpful or self.harmful):
            raise typer.BadParameter("--task, --outcome and --reason need --helpful or --harmful")
        return {
            "update_score": self.score,
            "evolve_feedback": self.evolve,
            "add_helpful_case": case if self.helpful else None,
            "add_harmful_case": case if self.harmful else None,
        }


@app.command("save")
@expand_options
def save(draft: SaveOptions, options: CallerOptions) -> None:
    """Save what was learned, and print its id.

    An equal record is not saved twice.
    """
    saved = run_route(options, "knowledge.save_knowledge", draft.values(), create=True)
    _print_saved(saved, "there already" if "duplicate_of" in saved else "saved", options)
    if missing := saved.get("missing_resource_ids"):
        output.warn(f"these resources do not exist: {', '.join(missing)}")


@app.command("search")
@expand_options
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    selection: SearchOptions,
    filters: FilterOptions,
    options: CallerOptions,
) -> None:
    """Find records about QUERY, the best first."""
    values = {"q": query, **asdict(selection), **filters.values()}
    found = run_route(options, "knowledge.knowledge_search", values)
    output.print_either(found, _print_found, as_json=options.as_json)


@app.command("list")
@expand_options
def list_records(page_options: ListOptions, filters: FilterOptions, options: CallerOptions) -> None:
    """List records, the newest first."""
    values = asdict(page_options) | filters.values()
    page = run_route(options, "knowledge.list_knowledge", values)
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "id": lambda record: record["id"],
        "types": lambda record: " ".join(record["types"]),
        "score": lambda record: record["eval"]["score"],
        "+": lambda record: record["eval"]["helpful"],
        "-": lambda record: record["eval"]["harmful"],
        "owner": lambda record: record["owner"],
        "task": lambda record: record["task"] or output.shorten(record["content"]),
    }
    output.print_page(page["results"], columns, page["next_cursor"], as_json=options.as_json)


@app.command("get")
@expand_options
def get(knowledge_id: KnowledgeId, options: CallerOptions) -> None:
    """Show all fields of a record."""
    import orjson

    record = run_route(options, "knowledge.get_knowledge", in_path={"knowledge_id": knowledge_id})
    if options.as_json:
        output.print_json(record)
        return
    plain = (str, int, float)
    rows = [
        (name, value if isinstance(value, plain) else orjson.dumps(value).decode()) for name, value in record.items()
    ]
    output.print_table(("field", "value"), rows)


@app.command("feedback")
@expand_options
def feedback(knowledge_id: KnowledgeId, evidence: FeedbackOptions, options: CallerOptions) -> None:
    """Rate a record. Search ranks by these ratings.

    Say that it helped or did harm, set its score, or say what you learned since.
    """
    names = {f"add_{kind}_case.{name}": f"--{name}" for kind in ("helpful", "harmful") for name in _CASE}
    names["evolve_feedback"] = "--evolve"
    in_path = {"knowledge_id": knowledge_id}
    saved = run_route(options, "knowledge.update_knowledge", evidence.values(), in_path, option_names=names)
    if "evolved" in saved and not options.as_json:
        for line in filter(None, (*(saved["diff"] or "").splitlines(), saved["detail"])):
            output.say(line)
    _print_saved(saved, "changed" if saved["operation_id"] else "unchanged", options)


@app.command("undo")
@expand_options
def undo(
    operation_id: Annotated[str, typer.Argument(metavar="OPERATION_ID", show_default=False)],
    options: CallerOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")] = False,
    with_later: Annotated[
        bool, typer.Option("--with-later", help="Undo the later operations that are in the way as well.")
    ] = False,
) -> None:
    """Undo an operation, or a whole import by its import_id.

    Later changes of the same fields are in the way, unless --with-later undoes them too.
    """
    values = {"dry_run": dry_run, "with_later": with_later}
    undone = run_route(options, "operations.undo_operation", values, {"operation_id": operation_id})
    output.print_either(undone, _print_undo, as_json=options.as_json)


def _print_saved(saved: Mapping[str, Any], status: str, options: CommonOptions) -> None:
    line = f"{status}  {saved['id']}  (version {saved['version']})"
    output.print_answer(saved, line, as_json=options.as_json, undo=saved["operation_id"])


def _print_found(found: Mapping[str, Any]) -> None:
    if not found["results"]:
        output.say("nothing was found")
    for record in found["results"]:
        output.say(f"{record['relevance']:>5.2f}  {record['id']}  {' '.join(record['types'])}")
        for text in filter(None, (record["task"], output.shorten(record["content"]))):
            output.say(f"        {text}")
        if "why" in record:
            why = record["why"]
            words = ", ".join(why["recall"]["matched"])
            stages = ", ".join(map(_format_stage, why["stages"]))
            output.say(f"        by {why['scope']['seen_by']}; {stages} for: {words}")
    for dropped in (found.get("explanation") or {}).get("filtered", ()):
        output.say(f"  left out  {dropped['id']}  {dropped['rule']}")


def _format_stage(stage: Mapping[str, Any]) -> str:
    score = "" if stage["score"] is None else f" ({stage['score']})"
    return f"{stage['stage']} {stage['rank']}.{score}"


def _print_undo(undone: Mapping[str, Any]) -> None:
    from knowhub.core.collection import differences

    for change in undone["changes"]:
        verb = "would write" if undone["dry_run"] else "wrote"
        output.say(f"{verb}  {change['id']}  (version {change['after']['version']})")
        for path in differences(change["before"], change["after"]):
            output.say(f"        {path}")
    for operation_id in undone["operation_ids"]:
        output.say(f"undo this with: knowhub undo {operation_id}")
