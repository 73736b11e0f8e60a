"""`knowhub tree info`: what is known of a keyword."""

from dataclasses import replace
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, use_hub
from knowhub.cli.inputs import InfoPage, NewInfoText
from knowhub.cli.keyword_names import keyword_id
from knowhub.cli.options import Caller, Place, spread
from knowhub.keywords.model import Written
from knowhub.web.schemas.keywords import KeywordInfosParams

app = typer.Typer(help="What is known of keywords.", no_args_is_help=True)


@app.command("add")
@spread
def add(draft: NewInfoText, caller: Caller, place: Place) -> None:
    """Save an info, linked to the keywords that are named."""
    body, ids = draft.body(), ids_of(caller)

    async def work(hub: Hub) -> Written:
        ctx = ids.context(hub.default_owner)
        linked = [await keyword_id(hub, ctx, typed) for typed in draft.keywords]
        return await hub.infos.create(ctx, replace(body.to_new(), keyword_ids=linked))

    made = use_hub(place, work, make=not draft.keywords)
    if place.as_json:
        output.print_json(output.created_answer(made))
        return
    output.say(f"saved  {made.row['id']}  (version {made.row['version']})")
    if "llm" in made.degraded:
        output.say("the model was needed and failed: it is linked to every keyword that it names")
    output.say_undo(made.operation_id)


@app.command("list")
@spread
def list_infos(
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD", help="Its id, or its name.", show_default=False)],
    wanted: InfoPage,
    caller: Caller,
    place: Place,
) -> None:
    """List the infos of a keyword, the newest first."""
    ids, params = ids_of(caller), checked(KeywordInfosParams, wanted.values())

    async def work(hub: Hub) -> list[Any]:
        ctx = ids.context(hub.default_owner)
        rows = await hub.infos.of_keyword(ctx, await keyword_id(hub, ctx, keyword), params.query())
        return [orjson.loads(row) for row in rows]

    infos = use_hub(place, work)
    if place.as_json:
        output.print_json({"results": infos, "count": len(infos), "next_cursor": None})
        return
    table = output.table("id", "relation", "content", "source")
    for info in infos:
        row = (info["id"], info["relation"], output.one_line(info["content"]), info["source"])
        table.add_row(*map(output.cell, row))
    output.print_table(table)
