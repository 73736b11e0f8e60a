"""What a command takes of its own, and how that becomes what the HTTP API would take."""

import sys
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.cli.hub_access import checked, tags_of
from knowhub.keywords.model import PAGE_SIZE, InfoSort, RelationType
from knowhub.knowledge.model import KnowledgeType, Order
from knowhub.web.schemas.keywords import InfoBody, KeywordBody
from knowhub.web.schemas.knowledge import Case, FeedbackBody, SaveBody


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
        content = _typed(self.content)
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
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="At most so many tokens of text, by estimate.")] = (
        None
    )
    session_id: Annotated[str | None, typer.Option(help="Remember what this session was shown.")] = None
    goal_id: Annotated[str | None, typer.Option(help="Remember what was shown for this goal.")] = None
    unseen: Annotated[bool, typer.Option("--unseen", help="Leave out what was shown there before.")] = False


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
    evolve: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What was learnt, in words; a model writes the content anew.")
    ] = None

    def body(self) -> FeedbackBody:
        """Return what the HTTP API would take. Ends with 2 when nothing was said."""
        if not (self.helpful or self.harmful or self.score is not None or self.evolve is not None):
            raise typer.BadParameter("say --helpful, --harmful, --score or --evolve")
        texts = {"task": self.task, "outcome": self.outcome, "reason": self.reason}
        said = {name: value for name, value in texts.items() if value is not None}
        if said and not (self.helpful or self.harmful):
            raise typer.BadParameter("--task, --outcome and --reason belong to --helpful or --harmful")
        values: dict[str, Any] = {"update_score": self.score, "evolve_feedback": self.evolve}
        # An empty case is evidence too.
        case = checked(Case, said)
        values |= {"add_helpful_case": case} if self.helpful else {}
        values |= {"add_harmful_case": case} if self.harmful else {}
        return checked(FeedbackBody, values, {"evolve_feedback": "--evolve"})


@dataclass(frozen=True, slots=True)
class NewKeywordText:
    """What `tree add` takes of a keyword."""

    name: Annotated[str, typer.Argument(show_default=False)]
    parent: Annotated[str | None, typer.Option(metavar="KEYWORD", help="Below which. Default: see --llm.")] = None
    aliases: Annotated[list[str], typer.Option("--alias", help="Another name; may come several times.")] = field(
        default_factory=list
    )
    description: Annotated[str, typer.Option(help="What belongs here: a model chooses by it.")] = ""
    llm: Annotated[bool, typer.Option(help="Without --parent, let the model choose where; else below the root.")] = True

    def body(self) -> KeywordBody:
        """Return what the HTTP API would take, but for the parent, which is looked up by name."""
        values = {"name": self.name, "aliases": self.aliases, "description": self.description}
        return checked(KeywordBody, values, {"name": "NAME", "aliases": "--alias"})


@dataclass(frozen=True, slots=True)
class NewInfoText:
    """What `tree info add` takes of an info."""

    content: Annotated[str, typer.Argument(help="What is known; - reads it from stdin.", show_default=False)]
    keywords: Annotated[
        list[str], typer.Option("--keyword", help="The id or name of one that it belongs to; may come several times.")
    ] = field(default_factory=list)
    source: Annotated[str, typer.Option(help="Where it comes from: an address, a title.")] = ""
    auto_link: Annotated[bool, typer.Option("--auto-link", help="Link it to the keywords that it names too.")] = False
    scopes: Annotated[list[str], typer.Option("--scope", help="Who sees it. Default: everyone in the account.")] = (
        field(default_factory=list)
    )

    def body(self) -> InfoBody:
        """Return what the HTTP API would take, but for the keywords, which are looked up by name."""
        values = {"content": _typed(self.content), "source": self.source, "scopes": self.scopes}
        return checked(InfoBody, values | {"auto_link": self.auto_link}, {"content": "CONTENT", "source": "--source"})


@dataclass(frozen=True, slots=True)
class InfoPage:
    """Which page of a keyword's infos `tree info list` shows."""

    relation: Annotated[RelationType | None, typer.Option(help="Only infos that belong to it so.")] = None
    page: Annotated[int, typer.Option(min=0, help="Counts from 0.")] = 0
    size: Annotated[int, typer.Option(min=1, max=1000, help="How many a page holds.")] = PAGE_SIZE
    sort: Annotated[InfoSort, typer.Option(help="relevance puts PRIMARY first.")] = InfoSort.TIME

    def values(self) -> dict[str, Any]:
        """Return what the HTTP API would take."""
        return asdict(self)


def _typed(text: str) -> str:
    """Return what was typed, or what stands on stdin where that was a dash."""
    return sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
