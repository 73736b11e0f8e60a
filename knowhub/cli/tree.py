"""`knowhub tree`: the verbs on keywords; one is named by its id, or by a name that it alone has."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output, tree_curation, tree_file, tree_infos
from knowhub.cli.hub_access import checked, ids_of, use_hub
from knowhub.cli.inputs import NewKeywordText
from knowhub.cli.keyword_names import joined_path, keyword_id, path_text
from knowhub.cli.options import Caller, Place, spread
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import ROOT_ID, Found, InfoPolicy, SearchStatus, Written
from knowhub.keywords.service import MAX_DEPTH, Deletion
from knowhub.web.schemas.keywords import AliasBody, SearchParams

_INDENT = "  "
_ALIASES_SHOWN = 4

Keyword = Annotated[str, typer.Argument(metavar="KEYWORD", help="Its id, or its name.", show_default=False)]

app = typer.Typer(help="The keyword tree: find, add, move, merge, tidy.", no_args_is_help=True)


@app.command("show")
@spread
def show(
    caller: Caller,
    place: Place,
    keyword: Annotated[str, typer.Argument(metavar="[KEYWORD]", help="Default: the root.", show_default=False)] = (
        ROOT_ID
    ),
    depth: Annotated[int, typer.Option(min=0, max=MAX_DEPTH, help="How many levels below it.")] = 2,
) -> None:
    """Show a keyword and what is below it."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> dict[str, Any]:
        ctx = ids.context(hub.default_owner)
        return await hub.keywords.subtree(ctx, await keyword_id(hub, ctx, keyword), depth)

    shown = use_hub(place, work)
    if place.as_json:
        output.print_json(shown)
        return
    for line in _lines(shown, 0):
        output.say(line)


@app.command("search")
@spread
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    caller: Caller,
    place: Place,
    llm: Annotated[bool, typer.Option(help="Where no name is QUERY, let the model walk the tree.")] = True,
    disambiguate: Annotated[
        bool, typer.Option("--disambiguate", help="Of several of that name, let the model choose.")
    ] = False,
) -> None:
    """Find the keyword that QUERY means, with what is known of it."""
    asked = {"q": query, "llm_expand_query": llm, "llm_disambiguate": disambiguate, **asdict(caller)}
    params = checked(SearchParams, asked, {"llm_expand_query": "--llm", "llm_disambiguate": "--disambiguate"})

    async def work(hub: Hub) -> tuple[Found, list[str]]:
        ctx = params.context(hub.default_owner)
        found = await hub.keyword_search.search(
            ctx, params.q, expand=params.llm_expand_query, disambiguate=params.llm_disambiguate
        )
        return found, [await path_text(hub, ctx, orjson.loads(row)) for row in found.candidates]

    found, paths = use_hub(place, work)
    if place.as_json:
        output.print_json(_found_answer(found))
    else:
        _print_found(_found_answer(found), paths)


@app.command("add")
@spread
def add(draft: NewKeywordText, caller: Caller, place: Place) -> None:
    """Add a keyword."""
    body, ids = draft.body(), ids_of(caller)

    async def work(hub: Hub) -> tuple[Written, str]:
        ctx = ids.context(hub.default_owner)
        parent_id = None if draft.parent is None else await keyword_id(hub, ctx, draft.parent)
        made = await hub.keywords.create(ctx, replace(body.to_new(), parent_id=parent_id), auto_place=draft.llm)
        return made, await path_text(hub, ctx, made.row)

    made, path = use_hub(place, work, make=draft.parent in {None, ROOT_ID})
    if place.as_json:
        output.print_json(output.created_answer(made))
        return
    output.say(f"added  {made.row['id']}  {path}")
    if "llm" in made.degraded:
        output.say("the model was needed and failed: its place is a guess")
    output.say_undo(made.operation_id)


@app.command("move")
@spread
def move(
    keyword: Keyword,
    new_parent: Annotated[str, typer.Argument(metavar="NEW_PARENT", show_default=False)],
    caller: Caller,
    place: Place,
) -> None:
    """Hang a keyword, with all that is below it, under another parent."""

    async def work(hub: Hub, ctx: RequestContext) -> Written:
        ids = [await keyword_id(hub, ctx, typed) for typed in (keyword, new_parent)]
        return await hub.keywords.move(ctx, ids[0], ids[1])

    _change("moved", work, caller, place)


@app.command("merge")
@spread
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="This one goes.", show_default=False)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="This one stays.", show_default=False)],
    caller: Caller,
    place: Place,
) -> None:
    """Give the names, infos and children of SOURCE to INTO, and delete SOURCE."""

    async def work(hub: Hub, ctx: RequestContext) -> Written:
        ids = [await keyword_id(hub, ctx, typed) for typed in (source, into)]
        return await hub.keywords.merge(ctx, ids[0], ids[1])

    _change("merged", work, caller, place)


@app.command("alias")
@spread
def alias(
    keyword: Keyword,
    name: Annotated[str, typer.Argument(metavar="ALIAS", show_default=False)],
    caller: Caller,
    place: Place,
    remove: Annotated[bool, typer.Option("--remove", help="Take it away.")] = False,
) -> None:
    """Give a keyword another name, or take one away."""
    body = checked(AliasBody, {"alias": name}, {"alias": "ALIAS"})

    async def work(hub: Hub, ctx: RequestContext) -> Written:
        wanted = await keyword_id(hub, ctx, keyword)
        change = hub.keywords.remove_alias if remove else hub.keywords.add_alias
        return await change(ctx, wanted, body.alias)

    _change("changed", work, caller, place)


@app.command("rm")
@spread
def remove(
    keyword: Keyword,
    caller: Caller,
    place: Place,
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete what is below it too.")] = False,
    infos: Annotated[
        InfoPolicy, typer.Option(help="Give its infos to the parent, refuse where it has any, or unlink them.")
    ] = InfoPolicy.REATTACH,
) -> None:
    """Delete a keyword."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> tuple[str, str]:
        ctx = ids.context(hub.default_owner)
        doomed = await keyword_id(hub, ctx, keyword)
        path = await path_text(hub, ctx, {"id": doomed})
        return await hub.keywords.delete(ctx, doomed, Deletion(cascade=cascade, policy=infos)), path

    operation_id, path = use_hub(place, work)
    if place.as_json:
        output.print_json({"operation_id": operation_id})
        return
    output.say(f"deleted  {path}")
    output.say_undo(operation_id)


def _change(what: str, work: Any, caller: Caller, place: Place) -> None:  # noqa: ANN401 -- an async function
    ids = ids_of(caller)

    async def changed(hub: Hub) -> tuple[Written, str]:
        ctx = ids.context(hub.default_owner)
        done: Written = await work(hub, ctx)
        return done, await path_text(hub, ctx, done.row)

    done, path = use_hub(place, changed)
    if place.as_json:
        output.print_json({**done.row, "operation_id": done.operation_id})
        return
    output.say(f"{what if done.operation_id else 'unchanged'}  {done.row['id']}  {path}")
    output.say_undo(done.operation_id)


def _lines(row: Mapping[str, Any], level: int) -> Iterator[str]:
    yield f"{_INDENT * level}{_title(row)}  {row['id']}"
    yield from (line for child in row["children_nodes"] for line in _lines(child, level + 1))
    if row["children"] and not row["children_nodes"]:
        yield f"{_INDENT * (level + 1)}… {row['child_count']} below"


def _title(row: Mapping[str, Any]) -> str:
    aliases = row["aliases"][:_ALIASES_SHOWN]
    more = ", …" if len(row["aliases"]) > len(aliases) else ""
    return f"{row['name']} ({', '.join(aliases)}{more})" if aliases else str(row["name"])


def _found_answer(found: Found) -> dict[str, Any]:
    def rows(texts: Any) -> list[Any]:  # noqa: ANN401 -- rows as JSON text
        return [orjson.loads(text) for text in texts]

    return {
        "status": found.status.value,
        "node": None if found.node is None else orjson.loads(found.node),
        "path": rows(found.path),
        "infos": rows(found.infos),
        "candidates": rows(found.candidates),
        "suggested_parent_id": found.suggested_parent_id,
        "suggested_name": found.suggested_name,
        "reason": found.reason,
        "degraded": list(found.degraded),
    }


def _print_found(answer: Mapping[str, Any], paths: list[str]) -> None:
    output.say(f"{answer['status']}  ({answer['reason']})")
    if answer["status"] == SearchStatus.MATCHED:
        output.say(f"{joined_path(answer['path'])}  {answer['node']['id']}")
        if answer["node"]["description"]:
            output.say(f"{_INDENT}{answer['node']['description']}")
    for info in answer["infos"]:
        output.say(f"{_INDENT}- {output.one_line(info['content'])}")
    for row, path in zip(answer["candidates"], paths, strict=True):
        output.say(f"{_INDENT}{path}  {row['id']}")
    if answer["suggested_parent_id"] is not None:
        named = answer["suggested_name"] or "a new keyword"
        output.say(f"{named} would go below {answer['suggested_parent_id']}")


app.command("load")(tree_file.load)
app.command("metrics")(tree_curation.metrics)
app.command("reorganize")(tree_curation.reorganize)
app.add_typer(tree_infos.app, name="info")
