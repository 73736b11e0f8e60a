"""`knowhub context`: create, change, move, link and forget memories by hand, and look for a text in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import parse_tags, run_route
from knowhub.cli.options import CallerOptions, expand_options

app = typer.Typer()

_Uri = Annotated[str, typer.Argument(metavar="URI", show_default=False)]
_To = Annotated[str, typer.Argument(metavar="TO", show_default=False)]
_Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag; can be repeated.")]
_Type = Annotated[str, typer.Option("--type", help="What kind of edge it is.")]


@app.command("add")
@expand_options
def add(
    category: Annotated[str, typer.Argument(show_default=False, help="profile, preferences, entities, events, …")],
    content: Annotated[str, typer.Argument(show_default=False)],
    options: CallerOptions,
    name: Annotated[str, typer.Option(help="How its URI ends. Default: made of the text.")] = "",
    tags: _Tags = None,
) -> None:
    """Create a memory of the caller's."""
    values = {"category": category, "content": content, "name": name, "tags": parse_tags(tags or [])}
    _print_node(options, run_route(options, "context.create_node", values, create=True))


@app.command("edit")
@expand_options
def edit(
    uri: _Uri,
    options: CallerOptions,
    content: Annotated[str | None, typer.Option(help="The new text. Abstract and overview are made of it.")] = None,
    tags: _Tags = None,
) -> None:
    """Change the text of a memory, or replace all its tags."""
    changes = {"content": content, "tags": parse_tags(tags) if tags else None}
    values = {name: value for name, value in changes.items() if value is not None}
    if not values:
        raise typer.BadParameter("name --content or --tag: nothing would change")
    _print_node(options, run_route(options, "context.edit_node", {"uri": uri, **values}))


@app.command("move")
@expand_options
def move(uri: _Uri, to: _To, options: CallerOptions) -> None:
    """Give a memory the URI TO in the same space; edges that lead to it follow."""
    _print_node(options, run_route(options, "context.move_node", {"uri": uri, "to": to}))


@app.command("forget")
@expand_options
def forget(
    uri: _Uri,
    options: CallerOptions,
    erase: Annotated[bool, typer.Option("--erase", help="Remove its text for good, from the log too.")] = False,
) -> None:
    """Delete a memory, a message, or a session with its messages. `knowhub undo` brings it back."""
    if erase:
        done = run_route(options, "context.delete_node", {"uri": uri, "erase": True})
        lines = [f"its text stands in {other} too" for other in (*done["other_rows"], *done["snapshots"])]
        output.print_answer(done, f"erased  {uri}", *lines, as_json=options.as_json)
        return
    _print_done(options, run_route(options, "context.delete_node", {"uri": uri}), f"deleted  {uri}")


@app.command("link")
@expand_options
def link(
    uri: _Uri,
    to: _To,
    options: CallerOptions,
    relation_type: _Type = "related",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
) -> None:
    """Add an edge from the memory URI to the memory TO."""
    edge = {"from_uri": uri, "to_uri": to, "relation_type": relation_type, "reason": reason}
    _print_done(options, run_route(options, "context.link_nodes", edge), f"linked  {uri}  {to}")


@app.command("unlink")
@expand_options
def unlink(uri: _Uri, to: _To, options: CallerOptions) -> None:
    """Remove the edges from the memory URI to the memory TO."""
    edges = {"from_uri": uri, "to_uri": to}
    _print_done(options, run_route(options, "context.unlink_nodes", edges), f"unlinked  {uri}  {to}")


@app.command("grep")
@expand_options
def grep(
    text: Annotated[str, typer.Argument(show_default=False)],
    options: CallerOptions,
    uri: Annotated[str | None, typer.Option("--below", metavar="URI", help="Only at and below this URI.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000)] = 100,
) -> None:
    """Find the lines of memories and messages that contain TEXT, in any case."""
    found = run_route(options, "context.grep", {"q": text, "uri": uri, "limit": limit})
    lines = [f"{line['uri']}:{line['line']}: {line['text']}" for line in found["results"]]
    if found["truncated"]:
        lines.append("there are more; see --limit")
    output.print_answer(found, *lines, as_json=options.as_json)


def _print_node(options: CallerOptions, node: Mapping[str, Any]) -> None:
    _print_done(options, node, f"{node['category']}  {node['uri']}")


def _print_done(options: CallerOptions, answer: Mapping[str, Any], said: str) -> None:
    output.print_answer(answer, said, as_json=options.as_json, undo=answer["operation_id"])
