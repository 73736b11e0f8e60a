"""`knowhub tree info`: add and list the infos of keywords."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import build_tree_context, parse_model, run_on_hub
from knowhub.cli.inputs import read_argument
from knowhub.cli.keyword_names import KeywordArgument, resolve_keyword
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.keywords.model import PAGE_SIZE, InfoSort, RelationType

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext
    from knowhub.keywords.model import WrittenRow
    from knowhub.web.schemas.keywords import InfoBody

_SCOPES_HELP = "Who may see it. Default: everyone in the account; where keys are required, its owner."

app = typer.Typer(help="The infos of keywords.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class InfoOptions:
    """The fields of a new info."""

    content: Annotated[str, typer.Argument(help="The information; - reads it from stdin.", show_default=False)]
    keywords: Annotated[
        list[str], typer.Option("--keyword", help="The id or name of a keyword to link it to; can be repeated.")
    ] = field(default_factory=list)
    source: Annotated[str, typer.Option(help="The source: an address or a title.")] = ""
    auto_link: Annotated[
        bool, typer.Option("--auto-link", help="Also link it to the keywords that its text names.")
    ] = False
    scopes: Annotated[list[str], typer.Option("--scope", help=_SCOPES_HELP)] = field(default_factory=list)

    def to_body(self) -> InfoBody:
        """Return the request body of the HTTP API without the keywords, which are looked up by name."""
        from knowhub.web.schemas.keywords import InfoBody

        values = {"content": read_argument(self.content), "source": self.source, "scopes": self.scopes}
        names = {"content": "CONTENT", "source": "--source"}
        return parse_model(InfoBody, values | {"auto_link": self.auto_link}, names)


@dataclass(frozen=True, slots=True)
class InfoPageOptions:
    """The page of `tree info list`."""

    relation: Annotated[RelationType | None, typer.Option(help="Only infos with this relation.")] = None
    page: Annotated[int, typer.Option(min=0, help="The first page is 0.")] = 0
    size: Annotated[int, typer.Option(min=1, max=1000, help="How many infos a page has.")] = PAGE_SIZE
    sort: Annotated[InfoSort, typer.Option(help="relevance puts PRIMARY first.")] = InfoSort.TIME


@app.command("add")
@expand_options
def add(draft: InfoOptions, options: CallerOptions) -> None:
    """Save an info and link it to keywords."""
    body = draft.to_body()

    async def work(hub: Hub, ctx: RequestContext) -> WrittenRow:
        ctx = build_tree_context(hub, ctx)
        keyword_ids = [await resolve_keyword(hub, ctx, typed) for typed in draft.keywords]
        return await hub.keywords.infos.create(ctx, replace(body.to_new(), keyword_ids=keyword_ids))

    written = run_on_hub(options, work, create=not draft.keywords)
    from knowhub.web.views import make_created_view

    status = "saved" if written.duplicate_of is None else "there already"
    lines = [f"{status}  {written.row['id']}  (version {written.row['version']})"]
    if "llm" in written.degraded:
        lines.append("the model failed: the info is linked to every keyword that it names")
    output.print_answer(make_created_view(written), *lines, as_json=options.as_json, undo=written.operation_id)


@app.command("list")
@expand_options
def list_infos(keyword: KeywordArgument, page: InfoPageOptions, options: CallerOptions) -> None:
    """List the infos of a keyword, the newest first."""
    import orjson

    from knowhub.web.schemas.keywords import KeywordInfosParams

    params = parse_model(KeywordInfosParams, asdict(page))

    async def work(hub: Hub, ctx: RequestContext) -> list[Any]:
        rows = await hub.keywords.infos.list_for_keyword(ctx, await resolve_keyword(hub, ctx, keyword), params.query())
        return [orjson.loads(row) for row in rows]

    infos = run_on_hub(options, work)
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "id": lambda info: info["id"],
        "relation": lambda info: info["relation"],
        "content": lambda info: output.shorten(info["content"]),
        "source": lambda info: info["source"],
    }
    output.print_page(infos, columns, as_json=options.as_json)
