"""`knowhub tree`: commands on keywords. A keyword is named by its id, or by a name that no other keyword has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output, tree_files, tree_infos, tree_plan
from knowhub.cli.hub_access import build_tree_context, parse_model, run_on_hub
from knowhub.cli.keyword_names import KeywordArgument, join_path, load_rows, path_of, resolve_keyword
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import ROOT_ID, InfoPolicy, SearchStatus

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.keywords.model import KeywordSearchResult, WrittenRow
    from knowhub.web.schemas.keywords import KeywordBody

_INDENT = "  "
_MAX_ALIASES = 4
_MAX_DEPTH = 50

app = typer.Typer(help="The keyword tree: search, add, move, merge, tidy.", no_args_is_help=True)
app.command("metrics")(tree_plan.metrics)
app.command("reorganize")(tree_plan.reorganize)
app.command("load")(tree_files.load)
app.command("export")(tree_files.export)
app.command("list")(tree_files.list_keywords)
app.add_typer(tree_infos.app, name="info")


@dataclass(frozen=True, slots=True)
class KeywordOptions:
    """The fields of a new keyword."""

    name: Annotated[str, typer.Argument(show_default=False)]
    parent: Annotated[str | None, typer.Option(metavar="KEYWORD", help="The parent. Default: see --llm.")] = None
    aliases: Annotated[list[str], typer.Option("--alias", help="Another name; can be repeated.")] = field(
        default_factory=list
    )
    description: Annotated[str, typer.Option(help="What belongs below it. A model chooses by this text.")] = ""
    llm: Annotated[bool, typer.Option(help="Without --parent the model chooses the parent; otherwise the root.")] = True

    def to_body(self) -> KeywordBody:
        """Return the request body of the HTTP API without the parent, which is looked up by name."""
        from knowhub.web.schemas.keywords import KeywordBody

        values = {"name": self.name, "aliases": self.aliases, "description": self.description}
        return parse_model(KeywordBody, values, {"name": "NAME", "aliases": "--alias"})


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

    async def work(hub: Hub, ctx: RequestContext) -> dict[str, Any]:
        return await hub.keywords.tree.get_subtree(ctx, await resolve_keyword(hub, ctx, keyword), depth)

    subtree = run_on_hub(options, work)
    if options.as_json:
        output.print_json(subtree)
        return
    for line in _subtree_lines(subtree, 0):
        output.say(line)


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
    import orjson

    from knowhub.web.schemas.keywords import SearchParams
    from knowhub.web.views import render_keyword_search

    values = {"q": query, "llm_expand_query": llm, "llm_disambiguate": disambiguate}
    params = parse_model(SearchParams, values, {"llm_expand_query": "--llm", "llm_disambiguate": "--disambiguate"})

    async def work(hub: Hub, ctx: RequestContext) -> tuple[KeywordSearchResult, list[str]]:
        found = await hub.keywords.search.search(
            ctx, params.q, expand=params.llm_expand_query, disambiguate=params.llm_disambiguate
        )
        return found, [await path_of(hub, ctx, row["id"]) for row in load_rows(found.candidates)]

    found, paths = run_on_hub(options, work)
    answer = orjson.loads(render_keyword_search(found))
    if options.as_json:
        output.print_json(answer)
    else:
        _print_found(answer, paths)


@app.command("add")
@expand_options
def add(draft: KeywordOptions, options: CallerOptions) -> None:
    """Add a keyword."""
    body = draft.to_body()

    async def work(hub: Hub, ctx: RequestContext) -> tuple[WrittenRow, str]:
        ctx = build_tree_context(hub, ctx)
        parent_id = None if draft.parent is None else await resolve_keyword(hub, ctx, draft.parent)
        written = await hub.keywords.tree.create(ctx, replace(body.to_new(), parent_id=parent_id), auto_place=draft.llm)
        return written, await path_of(hub, ctx, written.row["id"])

    written, path = run_on_hub(options, work, create=draft.parent in {None, ROOT_ID})
    from knowhub.web.views import make_created_view

    lines = [f"added  {written.row['id']}  {path}"]
    if "llm" in written.degraded:
        lines.append("the model failed: the parent is a guess")
    output.print_answer(make_created_view(written), *lines, as_json=options.as_json, undo=written.operation_id)


@app.command("move")
@expand_options
def move(
    keyword: KeywordArgument,
    new_parent: Annotated[str, typer.Argument(metavar="NEW_PARENT", show_default=False)],
    options: CallerOptions,
) -> None:
    """Move a keyword with everything below it to another parent."""

    async def work(hub: Hub, ctx: RequestContext) -> WrittenRow:
        keyword_id, parent_id = [await resolve_keyword(hub, ctx, typed) for typed in (keyword, new_parent)]
        return await hub.keywords.tree.move(ctx, keyword_id, parent_id)

    _change("moved", work, options)


@app.command("merge")
@expand_options
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="This keyword is deleted.", show_default=False)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="This keyword stays.", show_default=False)],
    options: CallerOptions,
) -> None:
    """Give the names, infos and children of SOURCE to INTO, and delete SOURCE."""

    async def work(hub: Hub, ctx: RequestContext) -> WrittenRow:
        source_id, into_id = [await resolve_keyword(hub, ctx, typed) for typed in (source, into)]
        return await hub.keywords.tree.merge(ctx, source_id, into_id)

    _change("merged", work, options)


@app.command("alias")
@expand_options
def alias(
    keyword: KeywordArgument,
    name: Annotated[str, typer.Argument(metavar="ALIAS", show_default=False)],
    options: CallerOptions,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
) -> None:
    """Add an alias to a keyword, or remove one."""
    from knowhub.web.schemas.keywords import AliasBody

    body = parse_model(AliasBody, {"alias": name}, {"alias": "ALIAS"})

    async def work(hub: Hub, ctx: RequestContext) -> WrittenRow:
        keyword_id = await resolve_keyword(hub, ctx, keyword)
        change = hub.keywords.tree.remove_alias if remove else hub.keywords.tree.add_alias
        return await change(ctx, keyword_id, body.alias)

    _change("changed", work, options)


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
    from knowhub.keywords.service import Deletion

    async def work(hub: Hub, ctx: RequestContext) -> tuple[str, str]:
        keyword_id = await resolve_keyword(hub, ctx, keyword)
        path = await path_of(hub, ctx, keyword_id)
        return await hub.keywords.tree.delete(ctx, keyword_id, Deletion(cascade=cascade, policy=infos)), path

    operation_id, path = run_on_hub(options, work)
    answer = {"operation_id": operation_id}
    output.print_answer(answer, f"deleted  {path}", as_json=options.as_json, undo=operation_id)


def _change(
    status: str,
    work: Callable[[Hub, RequestContext], Awaitable[WrittenRow]],
    options: CallerOptions,
) -> None:
    async def change(hub: Hub, ctx: RequestContext) -> tuple[WrittenRow, str]:
        written = await work(hub, ctx)
        return written, await path_of(hub, ctx, written.row["id"])

    written, path = run_on_hub(options, change)
    answer = {**written.row, "operation_id": written.operation_id}
    line = f"{status if written.operation_id else 'unchanged'}  {written.row['id']}  {path}"
    output.print_answer(answer, line, as_json=options.as_json, undo=written.operation_id)


def _subtree_lines(row: Mapping[str, Any], level: int) -> Iterator[str]:
    aliases = row["aliases"][:_MAX_ALIASES]
    more = ", …" if len(row["aliases"]) > len(aliases) else ""
    title = f"{row['name']} ({', '.join(aliases)}{more})" if aliases else row["name"]
    yield f"{_INDENT * level}{title}  {row['id']}"
    yield from (line for child in row["children_nodes"] for line in _subtree_lines(child, level + 1))
    if row["children"] and not row["children_nodes"]:
        yield f"{_INDENT * (level + 1)}… {row['child_count']} below"


def _print_found(answer: Mapping[str, Any], paths: list[str]) -> None:
    output.say(f"{answer['status']}  ({answer['reason']})")
    if answer["status"] == SearchStatus.MATCHED:
        output.say(f"{join_path(answer['path'])}  {answer['node']['id']}")
        if answer["node"]["description"]:
            output.say(f"{_INDENT}{answer['node']['description']}")
    for info in answer["infos"]:
        output.say(f"{_INDENT}- {output.shorten(info['content'])}")
    for row, path in zip(answer["candidates"], paths, strict=True):
        output.say(f"{_INDENT}{path}  {row['id']}")
    if answer["suggested_parent_id"] is not None:
        name = answer["suggested_name"] or "a new keyword"
        output.say(f"suggestion: add {name} below {answer['suggested_parent_id']}")
