"""Saving, finding and judging records: the verbs of the HTTP API, in this process."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, tags_of, use_hub
from knowhub.cli.options import Caller, Filters, Place, spread
from knowhub.knowledge.heads import facet
from knowhub.knowledge.model import Found, KnowledgeType, ListQuery, Order, Page, Saved
from knowhub.operations.model import UndoResult
from knowhub.web.schemas.knowledge import FeedbackBody, ListParams, SaveBody, SearchParams

Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


@dataclass(frozen=True, slots=True)
class Draft:
    """What `save` takes of a record."""

    task: Annotated[str, typer.Option(help="In what situation, to what end. Weighs most in search.")] = ""
    content: Annotated[str, typer.Option(help="What is known; - reads it from stdin.")] = ""
    types: Annotated[list[KnowledgeType], typer.Option("--type", help="Default: strategy.")] = field(
        default_factory=list
    )
    tags: Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE")] = field(default_factory=list)
    scopes: Annotated[
        list[str], typer.Option("--scope", help="Who sees it, such as project:atlas or public. Default: its owner.")
    ] = field(default_factory=list)
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    score: Annotated[int, typer.Option(min=1, max=5)] = 3
    resource_ids: Annotated[list[str], typer.Option("--resource", metavar="ID")] = field(default_factory=list)
    urls: Annotated[list[str], typer.Option("--url", help="Where it comes from.")] = field(default_factory=list)
    valid_from: Annotated[str | None, typer.Option(metavar="TIME")] = None
    valid_to: Annotated[str | None, typer.Option(metavar="TIME")] = None
    supersedes: Annotated[str | None, typer.Option(metavar="ID", help="The record that this one replaces.")] = None
    dedup: Annotated[bool, typer.Option(help="Answer with the record that says the same, if there is one.")] = True

    def body(self) -> SaveBody:
        """Return what the HTTP API would take."""
        content = sys.stdin.buffer.read().decode("utf-8", "replace") if self.content == "-" else self.content
        values = asdict(self) | {
            "content": content,
            "types": [kind.value for kind in self.types],
            "tags": tags_of(self.tags),
            "source": {"urls": self.urls} if self.urls else None,
        }
        del values["urls"]
        return checked(SaveBody, values)


@dataclass(frozen=True, slots=True)
class Asked:
    """How `search` chooses and shows."""

    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 5
    min_score: Annotated[int, typer.Option(min=1, max=5, help="Leave out records that are scored lower.")] = 3
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="What was valid then.")] = None
    order: Annotated[Order, typer.Option(help="How the results are put in order.")] = Order.AUTO
    explain: Annotated[bool, typer.Option("--explain", help="Say why each is there, and what was left out.")] = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What `feedback` adds to a record."""

    helpful: Annotated[bool, typer.Option("--helpful", help="It helped.")] = False
    harmful: Annotated[bool, typer.Option("--harmful", help="It did harm.")] = False
    score: Annotated[int | None, typer.Option(min=1, max=5, help="Set its score.")] = None
    task: Annotated[str | None, typer.Option(help="In which task it was used.")] = None
    outcome: Annotated[str | None, typer.Option(help="What came of it.")] = None
    reason: Annotated[str | None, typer.Option(help="Why it did harm.")] = None

    def body(self) -> FeedbackBody:
        """Return what the HTTP API would take. Ends with 2 when nothing was said."""
        if not (self.helpful or self.harmful or self.score is not None):
            raise typer.BadParameter("say --helpful, --harmful or --score")
        case = {"task": self.task, "outcome": self.outcome, "reason": self.reason}
        said = {name: value for name, value in case.items() if value is not None}
        if said and not (self.helpful or self.harmful):
            raise typer.BadParameter("--task, --outcome and --reason belong to --helpful or --harmful")
        values: dict[str, Any] = {"update_score": self.score}
        # An empty case is evidence too.
        values |= {"add_helpful_case": said} if self.helpful else {}
        values |= {"add_harmful_case": said} if self.harmful else {}
        return FeedbackBody.model_validate(values)


@spread
def save(draft: Draft, caller: Caller, place: Place) -> None:
    """Save what was learnt, and print its id. What is there already is not saved twice."""
    body, ids = draft.body(), ids_of(caller)

    async def work(hub: Hub) -> Saved:
        return await hub.knowledge.save(ids.context(hub.default_owner), body.to_new())

    _print_saved(use_hub(place, work, make=True), "saved", place)


@spread
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    asked: Asked,
    filters: Filters,
    caller: Caller,
    place: Place,
) -> None:
    """Find what is known about QUERY, the best first."""
    params = checked(SearchParams, {"q": query, **asdict(asked), **asdict(filters), **asdict(caller)})

    async def work(hub: Hub) -> Found:
        return await hub.retrieval.search(params.context(hub.default_owner), params.query())

    found = use_hub(place, work)
    if place.as_json:
        output.print_json(found_answer(found))
        return
    _print_found(found)


@spread
def list_records(
    filters: Filters,
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="Only with this tag.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None,
    paging: "Paging" = None,  # type: ignore[assignment]  # `spread` fills it in
    caller: Caller = None,  # type: ignore[assignment]  # as above
    place: Place = None,  # type: ignore[assignment]  # as above
) -> None:
    """List records, the newest first."""
