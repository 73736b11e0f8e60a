"""`knowhub tree`: commands on keywords. A keyword is named by its id, its path, or a name that no other keyword has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output, tree_files, tree_infos, tree_plan
from knowhub.cli.hub_access import make_request, run_on_hub, run_route
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.keywords.model import ROOT_ID, InfoPolicy, SearchStatus

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext

_INDENT = "  "
_MAX_ALIASES = 4
_MAX_DEPTH = 50
_PAGE = 1_000
_OPTION_NAMES = {
    "name": "NAME",
    "aliases": "--alias",
    "alias": "ALIAS",
    "parent_id": "--parent",
    "new_parent_id": "NEW_PARENT",
    "into": "INTO",
}

KeywordArgument = Annotated[
    str, typer.Argument(metavar="KEYWORD", help="The id, the path or the name.", show_default=False)
]

app = typer.Typer(help="The keyword tree: search, add, move, merge, tidy.", no_args_is_help=True)
app.command("metrics")(tree_plan.metrics)
app.command("reorganize")(tree_plan.reorganize)
app.command("load")(tree_files.load)
app.command("export")(tree_files.export)
app.add_typer(tree_infos.app, name="info")


@app.command("show")
@expand_options
def show(
    options: CallerOptions,
    keyword: Annotated[str, typer.Argument(metavar="[KEYWORD]", help="Default: the root.", show_default=False)] = (
        ROOT_ID
    ),
    depth: Annotated[int, typer.Option(min=0, max=_MAX_DEPTH, help="How many levels below it.")] = 2,
) -> None:
    """Show a keyword and the keywords below it."""
    subtree = run_route(options, "keywords.get_subtree", {"depth": depth}, {"keyword_id": keyword})
    output.print_answer(subtree, *_subtree_lines(subtree, 0), as_json=options.as_json)


@app.command("search")
@expand_options
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    options: CallerOptions,
    llm: Annotated[bool, typer.Option(help="If no keyword has this name, let the model search the tree.")] = True,
    disambiguate: Annotated[
        bool, typer.Option("--disambiguate", help="If several keywords have this name, let the model choose.")
    ] = False,
) -> None:
    """Find the keyword that QUERY means, with its infos."""
    values = {"q": query, "llm_expand_query": llm, "llm_disambiguate": disambiguate}
    found = run_route(options, "keywords.search_keywords", values)
    output.print_either(found, _print_found, as_json=options.as_json)


@app.command("list")
@expand_options
def list_keywords(
    options: CallerOptions,
    prefix: Annotated[str, typer.Option(help="Only names and aliases that begin so; pinyin is accepted.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=_PAGE, help="How many are listed.")] = 50,
) -> None:
    """List keywords, the newest first."""
    page = run_route(options, "keywords.list_keywords", {"prefix": prefix, "limit": limit})
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "id": lambda row: row["id"],
        "name": lambda row: row["name"],
        "aliases": lambda row: ", ".join(row["aliases"]),
    }
    output.print_page(page["results"], columns, as_json=options.as_json)


@app.command("add")
@expand_options
def add(
    name: Annotated[str, typer.Argument(show_default=False)],
    options: CallerOptions,
    parent: Annotated[str | None, typer.Option(metavar="KEYWORD", help="The parent. Default: see --llm.")] = None,
    aliases: Annotated[list[str] | None, typer.Option("--alias", help="Another name; can be repeated.")] = None,
    description: Annotated[str, typer.Option(help="What belongs below it. A model chooses by this text.")] = "",
    llm: Annotated[
        bool, typer.Option(help="Without --parent the model chooses the parent; otherwise the root.")
    ] = True,
) -> None:
    """Add a keyword."""
    values = {"name": name, "parent_id": parent, "aliases": aliases, "description": description, "llm_auto_place": llm}
    _change("added", options, "create_keyword", values, create=parent in {None, ROOT_ID})


@app.command("move")
@expand_options
def move(
    keyword: KeywordArgument,
    new_parent: Annotated[str, typer.Argument(metavar="NEW_PARENT", show_default=False)],
    options: CallerOptions,
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="Also where another keyword of its name is.")
    ] = False,
) -> None:
    """Move a keyword with everything below it to another parent."""
    values = {"new_parent_id": new_parent, "allow_duplicate": allow_duplicate}
    _change("moved", options, "move_keyword", values, {"keyword_id": keyword})


@app.command("merge")
@expand_options
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="This keyword is deleted.", show_default=False)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="This keyword stays.", show_default=False)],
    options: CallerOptions,
) -> None:
    """Give the names, infos and children of SOURCE to INTO, and delete SOURCE."""
    _change("merged", options, "merge_keywords", {"into": into}, {"keyword_id": source})


@app.command("alias")
@expand_options
def alias(
    keyword: KeywordArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", show_default=False)],
    options: CallerOptions,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
) -> None:
    """Add an alias to a keyword, or remove one."""
    if remove:
        _change("changed", options, "remove_alias", in_path={"keyword_id": keyword, "alias": name})
    else:
        _change("changed", options, "add_alias", {"alias": name}, {"keyword_id": keyword})


@app.command("rm")
@expand_options
def delete(
    keyword: KeywordArgument,
    options: CallerOptions,
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete everything below it too.")] = False,
    infos: Annotated[
        InfoPolicy, typer.Option(help="Its infos: give them to the parent, refuse if there are any, or unlink them.")
    ] = InfoPolicy.REATTACH,
) -> None:
    """Delete a keyword."""
    values = {"cascade": cascade, "info_policy": infos.value}
    deleted = run_route(options, "keywords.delete_keyword", values, {"keyword_id": keyword})
    output.print_answer(deleted, f"deleted  {keyword}", as_json=options.as_json, undo=deleted["operation_id"])


def _change(
    status: str,
    options: CallerOptions,
    route: str,
    values: Mapping[str, Any] | None = None,
    in_path: Mapping[str, str] | None = None,
    *,
    create: bool = False,
) -> None:
    """Change a keyword, and print where it is then."""
    ask = make_request(options, f"keywords.{route}", values, in_path, option_names=_OPTION_NAMES)

    async def work(hub: Hub, _: RequestContext) -> tuple[Any, Any]:
        row = await ask(hub)
        return row, await make_request(options, "keywords.get_path", in_path={"keyword_id": row["id"]})(hub)

    row, path = run_on_hub(options, work, create=create)
    lines = [f"{status if row['operation_id'] else 'unchanged'}  {row['id']}  {_join_path(path['results'])}"]
    if "llm" in row.get("degraded", ()):
        lines.append("the model failed: the parent is a guess")
    output.print_answer(row, *lines, as_json=options.as_json, undo=row["operation_id"])


def _subtree_lines(row: Mapping[str, Any], level: int) -> Iterator[str]:
    aliases = row["aliases"][:_MAX_ALIASES]
    more = ", …" if len(row["aliases"]) > len(aliases) else ""
    title = f"{row['name']} ({', '.join(aliases)}{more})" if aliases else row["name"]
    yield f"{_INDENT * level}{title}  {row['id']}"
    yield from (line for child in row["children_nodes"] for line in _subtree_lines(child, level + 1))
    if row["children"] and not row["children_nodes"]:
        yield f"{_INDENT * (level + 1)}… {row['child_count']} below"


def _print_found(answer: Mapping[str, Any]) -> None:
    output.say(f"{answer['status']}  ({answer['reason']})")
    if answer["status"] == SearchStatus.MATCHED:
        output.say(f"{_join_path(answer['path'])}  {answer['node']['id']}")
        if answer["node"]["description"]:
            output.say(f"{_INDENT}{answer['node']['description']}")
    for info in answer["infos"]:
        output.say(f"{_INDENT}- {output.shorten(info['content'])}")
    for row in answer["candidates"]:
        output.say(f"{_INDENT}{row['path']}  {row['id']}")
    if answer["suggested_parent_id"] is not None:
        name = answer["suggested_name"] or "a new keyword"
        output.say(f"suggestion: add {name} below {answer['suggested_parent_id']}")


def _join_path(rows: Sequence[Mapping[str, Any]]) -> str:
    """Join the names from below the root to the keyword; the root itself is named alone."""
    return " / ".join(row["name"] for row in rows if row["id"] != ROOT_ID or len(rows) == 1)
