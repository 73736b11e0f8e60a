"""`knowhub tree info`: add and list the infos of keywords."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import run_route
from knowhub.cli.inputs import read_argument
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.keywords.model import PAGE_SIZE, InfoSort, RelationType

_SCOPES_HELP = "Who may see it. Default: everyone in the account; where keys are required, its owner."
_OPTION_NAMES = {"content": "CONTENT", "source": "--source", "keyword_ids": "--keyword"}

app = typer.Typer(help="The infos of keywords.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class InfoOptions:
    """The fields of a new info."""

    content: Annotated[str, typer.Argument(help="The information; - reads it from stdin.", show_default=False)]
    keyword_ids: Annotated[
        list[str], typer.Option("--keyword", help="The id or name of a keyword to link it to; can be repeated.")
    ] = field(default_factory=list)
    source: Annotated[str, typer.Option(help="The source: an address or a title.")] = ""
    auto_link: Annotated[
        bool, typer.Option("--auto-link", help="Also link it to the keywords that its text names.")
    ] = False
    scopes: Annotated[list[str], typer.Option("--scope", help=_SCOPES_HELP)] = field(default_factory=list)


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
    values = asdict(draft) | {"content": read_argument(draft.content)}
    saved = run_route(options, "infos.create_info", values, create=not draft.keyword_ids, option_names=_OPTION_NAMES)
    status = "there already" if "duplicate_of" in saved else "saved"
    lines = [f"{status}  {saved['id']}  (version {saved['version']})"]
    if "llm" in saved["degraded"]:
        lines.append("the model failed: the info is linked to every keyword that it names")
    if unread := saved.get("decided", {}).get("unread_characters"):
        lines.append(f"keywords that only its last {unread:,} characters name are not linked")
    output.print_answer(saved, *lines, as_json=options.as_json, undo=saved["operation_id"])


@app.command("list")
@expand_options
def list_infos(
    keyword: Annotated[
        str, typer.Argument(metavar="KEYWORD", help="The id, the path or the name.", show_default=False)
    ],
    page: InfoPageOptions,
    options: CallerOptions,
) -> None:
    """List the infos of a keyword, the newest first."""
    infos = run_route(options, "keywords.get_infos_of_keyword", asdict(page), {"keyword_id": keyword})
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "id": lambda info: info["id"],
        "relation": lambda info: info["relation"],
        "content": lambda info: output.shorten(info["content"]),
        "source": lambda info: info["source"],
    }
    output.print_page(infos["results"], columns, as_json=options.as_json)
