"""`knowhub context`: commit sessions, search and read memories, and list them like folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.cli import context_edits, output
from knowhub.cli.hub_access import run_route
from knowhub.cli.inputs import STDIN, check_not_empty, read_messages
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.context.model import MemoryCategory

app = typer.Typer(help="Sessions and memories.", no_args_is_help=True)
app.add_typer(context_edits.app)

_FILE_HELP = "A transcript: a JSON array of messages, a body of the HTTP API, or one message per line; - reads stdin."
ParentUri = Annotated[
    str | None, typer.Argument(metavar="[URI]", help="Below this URI. Default: everything.", show_default=False)
]
_MAX_TREE_DEPTH = 8


@dataclass(frozen=True, slots=True)
class CommitFileOptions:
    """How `context commit` stores a session."""

    session_id: Annotated[str | None, typer.Option(help="Default: the session_id in FILE, or the name of FILE.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and write nothing.")] = False
    no_extract: Annotated[bool, typer.Option("--no-extract", help="Store only the transcript.")] = False


@dataclass(frozen=True, slots=True)
class MemorySearchOptions:
    """What `context search` looks for."""

    target_uri: Annotated[str | None, typer.Option(metavar="URI", help="Only at and below this URI.")] = None
    categories: Annotated[list[MemoryCategory], typer.Option("--category", help="Only this category.")] = field(
        default_factory=list
    )
    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many results.")] = 10
    explain: Annotated[bool, typer.Option("--explain", help="Show why each result is here.")] = False


@app.command("commit")
@expand_options
def commit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)],
    commit_options: CommitFileOptions,
    options: CallerOptions,
) -> None:
    """Store a session word for word, and the memories in it. A second commit adds only what is new."""
    done = run_route(
        options,
        "context.commit_session",
        _commit_values(file, commit_options),
        create=not commit_options.dry_run,
        option_names={"messages": "FILE"},
    )
    output.print_either(done, _print_commit, as_json=options.as_json)


@app.command("search")
@expand_options
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    selection: MemorySearchOptions,
    options: CallerOptions,
) -> None:
    """Find messages and memories about QUERY, the best first. Shows abstracts, not whole texts."""
    categories = [category.value for category in selection.categories]
    values = {"q": query, **asdict(selection), "categories": categories}
    names = {"q": "QUERY", "categories": "--category"}
    found = run_route(options, "context.search_memory", values, option_names=names)
    output.print_either(found, _print_found, as_json=options.as_json)


@app.command("read")
@expand_options
def read(
    uris: Annotated[list[str], typer.Argument(metavar="URI...", show_default=False)],
    options: CallerOptions,
    level: Annotated[str, typer.Option(help="L0: the abstract, L1: the overview, L2: the whole text.")] = "L1",
    relations: Annotated[bool, typer.Option("--relations", help="Show its relations too.")] = False,
) -> None:
    """Print one level of memories, sessions or messages, at most 100."""
    if len(uris) > 1:
        if relations:
            raise typer.BadParameter("--relations shows those of one URI")
        _read_several(uris, level, options)
        return
    values = {"uri": uris[0], "level": level, "expand_relations": relations}
    block = run_route(options, "context.read_memory", values, option_names={"uri": "URI"})
    edges = [f"{edge['relation_type']}  {edge['to_uri']}  {edge['reason']}" for edge in block["relations"]]
    output.print_answer(block, _level_text(block), *edges, as_json=options.as_json)


@app.command("ls")
@expand_options
def ls(options: CallerOptions, uri: ParentUri = None) -> None:
    """List what is directly below a URI."""
    _list_children(uri, 1, options)


@app.command("tree")
@expand_options
def tree(
    options: CallerOptions,
    uri: ParentUri = None,
    depth: Annotated[int, typer.Option(min=1, max=_MAX_TREE_DEPTH, help="How many levels.")] = _MAX_TREE_DEPTH,
) -> None:
    """List everything below a URI, down to the messages of sessions."""
    _list_children(uri, depth, options)


@app.command("profile")
@expand_options
def profile(options: CallerOptions) -> None:
    """Print all that the caller's memories state now, a line each with its day."""
    current = run_route(options, "context.read_profile")
    output.print_answer(current, current["text"], as_json=options.as_json)


@app.command("sessions")
@expand_options
def sessions(options: CallerOptions, limit: Annotated[int, typer.Option(min=1, max=1_000)] = 100) -> None:
    """List the sessions, newest first, and how many of their messages were read by what."""
    found = run_route(options, "context.list_sessions", {"limit": limit})
    lines = [
        f"{item['uri']}  {item['message_count']} messages: {item['by_model']} read by a model, "
        f"{item['by_rules']} by rules, {item['waiting']} wait"
        for item in found["results"]
    ]
    output.print_answer(found, *lines, as_json=options.as_json)


@app.command("outbox")
@expand_options
def outbox(options: CallerOptions) -> None:
    """Count the texts that wait for the vector index, and show those that failed for good."""
    status = run_route(options, "context.get_outbox")
    counts = ", ".join(f"{status[name]} {name}" for name in ("pending", "claimed", "failed", "dead"))
    oldest = f"; the oldest has waited {status['lag_s']:.1f} s" if status["lag_s"] else ""
    letters = [
        f"{letter['event_id']}  {letter['event_type']}  {letter['uri']}  {letter['error']}"
        for letter in status["dead_letters"]
    ]
    output.print_answer(status, counts + oldest, *letters, as_json=options.as_json)


def _commit_values(file: Path, options: CommitFileOptions) -> dict[str, Any]:
    """Return the request body of the HTTP API; options replace the fields of FILE."""
    body = read_messages(file)
    session_id = options.session_id or body.get("session_id") or (None if str(file) == STDIN else file.stem)
    if session_id is None:
        raise typer.BadParameter("--session-id: is needed when FILE is stdin")
    check_not_empty(body)
    given = body.get("options")
    commit_options = dict(given) if isinstance(given, Mapping) else {}
    commit_options |= {"dry_run": True} if options.dry_run else {}
    commit_options |= {"extract": False} if options.no_extract else {}
    return {**body, "session_id": session_id, "options": commit_options}


def _print_commit(done: Mapping[str, Any]) -> None:
    output.say(f"{done['status']}  {done['archive']['archive_uri']}")
    written = [(write["action"], write["uri"], write["reason"]) for write in done["write_results"]]
    # A dry run has plans only.
    planned = [(plan["action"], plan["target_uri"], plan["reason"]) for plan in done["plans"]]
    for action, uri, reason in written or planned:
        output.say(f"{action:>12}  {uri}{f'  {reason}' if reason else ''}")
    output.say_degraded(done["degraded"])
    output.say_undo(done["operation_id"])


def _print_found(found: Mapping[str, Any]) -> None:
    if not found["blocks"]:
        output.say("nothing was found")
    for block in found["blocks"]:
        output.say(f"{block['score']:>8.3f}  {block['category']}  {block['uri']}")
        output.say(f"          {output.shorten(block['abstract'])}")
        output.say(f"          {block['match_reason']}")
        for stage in block.get("why", {}).get("stages", ()):
            output.say(f"          {stage['stage']}: {stage['rank']} with {stage['score']:.3f}")
    output.say_degraded(found["degraded"])


def _read_several(uris: list[str], level: str, options: CallerOptions) -> None:
    found = run_route(options, "context.read_memories", {"uris": uris, "level": level})
    lines = [line for block in found["results"] for line in (block["uri"], _level_text(block), "")]
    missing = [f"missing  {uri}" for uri in found["missing"]]
    output.print_answer(found, *lines, *missing, as_json=options.as_json)


def _level_text(block: Mapping[str, Any]) -> str:
    layers = [block["content"], block["overview"] if block["level_hit"] == "L1" else None]
    return next((str(text) for text in layers if text is not None), str(block["abstract"]))


def _list_children(uri: str | None, depth: int, options: CallerOptions) -> None:
    below = run_route(options, "context.list_children", {"uri": uri, "depth": depth}, option_names={"uri": "URI"})
    nodes = below["results"]
    lines = [_format_node(node, nodes[0]["uri"]) for node in nodes]
    if below["truncated"]:
        lines.append("the list is cut off; name a deeper URI to see more")
    output.print_answer(below, *lines, as_json=options.as_json)


def _format_node(node: Mapping[str, Any], first_uri: str) -> str:
    indent = "  " * (node["uri"].count("/") - first_uri.count("/"))
    slash = "/" if node["has_children"] else ""
    # The last part of the URI may be a hash; then the name says what the memory is about.
    segment = node["uri"].rpartition("/")[2]
    name = f"  {node['name']}" if node["name"] != segment else ""
    return f"{indent}{segment}{slash}{name}  {node['updated_at'] or ''}".rstrip()
