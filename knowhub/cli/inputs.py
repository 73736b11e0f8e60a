"""What a command takes of its own, and how that becomes what the HTTP API would take."""

import sys
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.cli.hub_access import checked, tags_of
from knowhub.knowledge.model import KnowledgeType, Order
from knowhub.web.schemas.knowledge import FeedbackBody, SaveBody


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
class Listed:
    """Which page of which records `list` shows."""

    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None
    tags: Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE", help="Only with this tag.")] = field(
        default_factory=list
    )
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None


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
