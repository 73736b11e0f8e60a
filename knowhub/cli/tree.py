"""`knowhub tree`: commands on keywords. A keyword is named by its id, its path, or a name that no other keyword has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from knowhub.cli import exchange, output, tree_plan
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import run_routes
from knowhub.cli.inputs import read_argument
from knowhub.cli.options import CallerOptions
from knowhub.keywords.model import PAGE_SIZE, ROOT_ID, InfoPolicy, InfoSort, RelationType, SearchStatus

_INDENT = "  "
_MAX_ALIASES = 4
_MAX_DEPTH = 50
_PAGE = 1_000
_PATH = "keywords.get_path"
_SCOPES_HELP = "Who may see it. Default: everyone in the account; where keys are required, its owner."

KeywordArgument = Annotated[
    str, typer.Argument(metavar="KEYWORD", help="The id, the path or the name.", show_default=False)
]

app = typer.Typer(help="The keyword tree: search, add, move, merge, tidy.", no_args_is_help=True)
infos = typer.Typer(help="The infos of keywords.", no_args_is_help=True)
app.add_typer(tree_plan.app)
app.add_typer(exchange.tree_app)
app.add_typer(infos, name="info")


@route_command(app, "show", "keywords.get_subtree")
def show(
    subtree: Answer,
    keyword_id: Annotated[
        str, typer.Argument(metavar="[KEYWORD]", help="Default: the root.", show_default=False)
    ] = ROOT_ID,
    depth: Annotated[int, typer.Option(min=0, max=_MAX_DEPTH, help="How many levels below it.")] = 2,
) -> Lines:
    """Show a keyword and the keywords below it."""
    return _list_subtree(subtree, 0)


@route_command(app, "search", "keywords.search_keywords")
def search(
    found: Answer,
    q: Annotated[str, typer.Argument(metavar="QUERY", show_default=False)],
    llm_expand_query: Annotated[
        bool, typer.Option("--llm/--no-llm", help="If no keyword has this name, let the model search the tree.")
    ] = True,
    llm_disambiguate: Annotated[
        bool, typer.Option("--disambiguate", help="If several keywords have this name, let the model choose.")
    ] = False,
) -> Lines:
    """Find the keyword that QUERY means, with its infos."""
    yield f"{found['status']}  ({found['reason']})"
    if found["status"] == SearchStatus.MATCHED:
        yield f"{_join_path(found['path'])}  {found['node']['id']}"
        if found["node"]["description"]:
            yield f"{_INDENT}{found['node']['description']}"
    for info in found["infos"]:
        yield f"{_INDENT}- {output.shorten(info['content'])}"
    for row in found["candidates"]:
        yield f"{_INDENT}{row['path']}  {row['id']}"
    if found["suggested_parent_id"] is not None:
        yield f"suggestion: add {found['suggested_name'] or 'a new keyword'} below {found['suggested_parent_id']}"


@route_command(app, "list", "keywords.list_keywords")
def list_keywords(
    page: Answer,
    prefix: Annotated[str, typer.Option(help="Only names and aliases that begin so; pinyin is accepted.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=_PAGE, help="How many are listed.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The next_cursor of the page before.")] = None,
) -> Lines:
    """List keywords, the newest first."""
    return output.list_page(page, {"id": "id", "name": "name", "aliases": lambda row: ", ".join(row["aliases"])})


@dataclass(frozen=True, slots=True)
class KeywordOptions:
    """The fields of a new keyword."""

    name: Annotated[str, typer.Argument(show_default=False)]
    parent_id: Annotated[
        str | None, typer.Option("--parent", metavar="KEYWORD", help="The parent. Default: see --llm.")
    ] = None
    aliases: Annotated[list[str] | None, typer.Option("--alias", help="Another name; can be repeated.")] = None
    description: Annotated[str, typer.Option(help="What belongs below it. A model chooses by this text.")] = ""
    llm_auto_place: Annotated[
        bool, typer.Option("--llm/--no-llm", help="Without --parent the model chooses the parent; otherwise the root.")
    ] = True
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="Also where another keyword of its name is.")
    ] = False


@route_command(
    app, "add", "keywords.create_keyword", creates=lambda fields: fields["parent_id"] in {None, ROOT_ID}, then=_PATH
)
def add(row: Answer, path: Answer, draft: KeywordOptions) -> Lines:
    """Add a keyword."""
    return _list_change("added", row, path)


@route_command(app, "move", "keywords.move_keyword", then=_PATH)
def move(
    row: Answer,
    path: Answer,
    keyword_id: KeywordArgument,
    new_parent_id: Annotated[str, typer.Argument(metavar="NEW_PARENT", show_default=False)],
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="Also where another keyword of its name is.")
    ] = False,
) -> Lines:
    """Move a keyword with everything below it to another parent."""
    return _list_change("moved", row, path)


@route_command(app, "merge", "keywords.merge_keywords", then=_PATH)
def merge(
    row: Answer,
    path: Answer,
    keyword_id: Annotated[str, typer.Argument(metavar="SOURCE", help="This keyword is deleted.", show_default=False)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="This keyword stays.", show_default=False)],
) -> Lines:
    """Give the names, infos and children of SOURCE to INTO, and delete SOURCE."""
    return _list_change("merged", row, path)


@command(app, "alias")
def alias(
    keyword: KeywordArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", show_default=False)],
    options: CallerOptions,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
) -> None:
    """Add an alias to a keyword, or remove one."""
    route = "keywords.remove_alias" if remove else "keywords.add_alias"
    fields = {"keyword_id": keyword, "alias": name}
    row, path = run_routes(options, route, fields, then=_PATH, option_names={"alias": "ALIAS"})
    output.print_answer(row, _list_change("changed", row, path), as_json=options.as_json)


@route_command(app, "rm", "keywords.delete_keyword")
def delete(
    deleted: Answer,
    keyword_id: KeywordArgument,
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete everything below it too.")] = False,
    info_policy: Annotated[
        InfoPolicy,
        typer.Option("--infos", help="Its infos: give them to the parent, refuse if there are any, or unlink them."),
    ] = InfoPolicy.REATTACH,
) -> Lines:
    """Delete a keyword."""
    yield f"deleted  {keyword_id}"
    yield from output.list_undo(deleted["operation_id"])


@route_command(infos, "add", "infos.create_info", creates=lambda fields: not fields["keyword_ids"])
def add_info(
    saved: Answer,
    content: Annotated[
        str,
        typer.Argument(callback=read_argument, help="The information; - reads it from stdin.", show_default=False),
    ],
    keyword_ids: Annotated[
        list[str] | None,
        typer.Option("--keyword", help="The id or name of a keyword to link it to; can be repeated."),
    ] = None,
    source: Annotated[str, typer.Option(help="The source: an address or a title.")] = "",
    auto_link: Annotated[
        bool, typer.Option("--auto-link", help="Also link it to the keywords that its text names.")
    ] = False,
    scopes: Annotated[list[str] | None, typer.Option("--scope", help=_SCOPES_HELP)] = None,
) -> Lines:
    """Save an info and link it to keywords."""
    status = "there already" if "duplicate_of" in saved else "saved"
    yield f"{status}  {saved['id']}  (version {saved['version']})"
    if "llm" in saved["degraded"]:
        yield "the model failed: the info is linked to every keyword that it names"
    if unread := saved.get("decided", {}).get("unread_characters"):
        yield f"keywords that only its last {unread:,} characters name are not linked"
    yield from output.list_undo(saved["operation_id"])


@route_command(infos, "list", "keywords.get_infos_of_keyword")
def list_infos(
    found: Answer,
    keyword_id: KeywordArgument,
    relation: Annotated[RelationType | None, typer.Option(help="Only infos with this relation.")] = None,
    page: Annotated[int, typer.Option(min=0, help="The first page is 0.")] = 0,
    size: Annotated[int, typer.Option(min=1, max=1000, help="How many infos a page has.")] = PAGE_SIZE,
    sort: Annotated[InfoSort, typer.Option(help="relevance puts PRIMARY first.")] = InfoSort.TIME,
) -> Lines:
    """List the infos of a keyword, the newest first."""
    text = {"content": lambda info: output.shorten(info["content"])}
    return output.list_page(found, {"id": "id", "relation": "relation", **text, "source": "source"})


def _list_change(status: str, row: Answer, path: Answer) -> Lines:
    yield f"{status if row['operation_id'] else 'unchanged'}  {row['id']}  {_join_path(path['results'])}"
    if "llm" in row.get("degraded", ()):
        yield "the model failed: the parent is a guess"
    yield from output.list_undo(row["operation_id"])


def _list_subtree(row: Answer, level: int) -> Lines:
    aliases = row["aliases"][:_MAX_ALIASES]
    more = ", …" if len(row["aliases"]) > len(aliases) else ""
    title = f"{row['name']} ({', '.join(aliases)}{more})" if aliases else row["name"]
    yield f"{_INDENT * level}{title}  {row['id']}"
    for child in row["children_nodes"]:
        yield from _list_subtree(child, level + 1)
    if row["children"] and not row["children_nodes"]:
        yield f"{_INDENT * (level + 1)}… {row['child_count']} below"


def _join_path(rows: Sequence[Answer]) -> str:
    """Join the names from below the root to the keyword; the root itself is named alone."""
    return " / ".join(row["name"] for row in rows if row["id"] != ROOT_ID or len(rows) == 1)
