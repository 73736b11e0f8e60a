"""`knowhub context`: sessions and what is remembered of them, looked through like folders."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, use_hub
from knowhub.cli.message_file import check_not_empty, read_messages
from knowhub.cli.options import Caller, Place, spread
from knowhub.context.commit_model import CommitResult
from knowhub.context.model import Category, NodeSummary
from knowhub.context.search_model import MemoryFound, RetrievedBlock
from knowhub.web.schemas.context import ChildrenParams, CommitBody, MemorySearchParams, ReadParams

app = typer.Typer(help="Sessions, and what is remembered of them.", no_args_is_help=True)

_FILE_HELP = "A transcript: an array of messages, a body of the HTTP API, or a message a line; - reads stdin."
_WHERE_HELP = "Below which URI; default everything."
Where = Annotated[str | None, typer.Argument(metavar="[URI]", help=_WHERE_HELP, show_default=False)]
_DEPTH_OF_TREE = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What `context search` looks for."""

    target_uri: Annotated[str | None, typer.Option(metavar="URI", help="Only at and below this URI.")] = None
    categories: Annotated[list[Category], typer.Option("--category", help="Only of this category.")] = field(
        default_factory=list
    )
    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 10


@dataclass(frozen=True, slots=True)
class HowCommitted:
    """How `context commit` keeps a session."""

    session_id: Annotated[str | None, typer.Option(help="Default: what FILE says, else its name.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and write nothing.")] = False
    no_extract: Annotated[bool, typer.Option("--no-extract", help="Keep the transcript alone.")] = False


@app.command("commit")
@spread
def commit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)],
    how: HowCommitted,
    caller: Caller,
    place: Place,
) -> None:
    """Keep a session word for word, and what it says that is worth remembering; again, only what is new."""
    # Imported here, as it brings the web framework along: no other command waits for that.
    from knowhub.web.routes.context import committed

    named = {name: value for name, value in asdict(caller).items() if value is not None}
    sent = checked(CommitBody, _sent(file, how) | named, {"messages": "FILE"})

    async def work(hub: Hub) -> CommitResult:
        return await hub.memories.commit_session(sent.context(hub.default_owner), sent.to_commit())

    done = use_hub(place, work, make=not how.dry_run)
    if place.as_json:
        output.print_json({**committed(done), "operation_id": done.operation_id})
    else:
        _print_committed(done)


@app.command("search")
@spread
def search(
    query: Annotated[str, typer.Argument(show_default=False)], asked: Asked, caller: Caller, place: Place
) -> None:
    """Find what was said, and what is remembered of it, the best first; no text is opened."""
    from knowhub.web.routes.context import shown

    categories = [one.value for one in asked.categories]
    typed = {"q": query, "target_uri": asked.target_uri, "categories": categories, "top_k": asked.top_k}
    names = {"q": "QUERY", "categories": "--category"}
    params = checked(MemorySearchParams, {**typed, **asdict(caller)}, names)

    async def work(hub: Hub) -> MemoryFound:
        ctx = params.context(hub.default_owner)
        return await hub.memories.search_memory(ctx, params.q, params.target_uri, params.wanted(), params.top_k)

    found = use_hub(place, work)
    if place.as_json:
        output.print_json(shown(found))
    else:
        _print_found(found)


@app.command("read")
@spread
def read(
    address: Annotated[str, typer.Argument(metavar="URI", show_default=False)],
    caller: Caller,
    place: Place,
    level: Annotated[str, typer.Option(help="L0 the abstract, L1 the overview, L2 the whole text.")] = "L1",
    relations: Annotated[bool, typer.Option("--relations", help="With its edges.")] = False,
) -> None:
    """Print one layer of a memory, a session or a message."""
    from knowhub.web.routes.context import shown_read

    typed = {"uri": address, "level": level, "expand_relations": relations, **asdict(caller)}
    params = checked(ReadParams, typed, {"uri": "URI"})

    async def work(hub: Hub) -> RetrievedBlock:
        ctx = params.context(hub.default_owner)
        return await hub.memories.read_memory(
            ctx, params.uri, params.to_level(), expand_relations=params.expand_relations
        )

    block = use_hub(place, work)
    if place.as_json:
        output.print_json(shown_read(block))
        return
    output.say(_layer(block))
    for edge in block.relations:
        output.say(f"{edge.relation_type}  {edge.to_uri}  {edge.reason}")


@app.command("ls")
@spread
def ls(caller: Caller, place: Place, address: Where = None) -> None:
    """List what stands directly below a URI."""
    _list(address, 1, caller, place)


@app.command("tree")
@spread
def tree(
    caller: Caller,
    place: Place,
    address: Where = None,
    depth: Annotated[int, typer.Option(min=1, max=_DEPTH_OF_TREE, help="How many levels.")] = _DEPTH_OF_TREE,
) -> None:
    """Show everything below a URI, down to the messages of sessions."""
    _list(address, depth, caller, place)


@app.command("outbox")
@spread
def outbox(caller: Caller, place: Place) -> None:
    """Count what the index of vectors has still to take in, and show what failed for good."""
    from knowhub.web.routes.context import shown_outbox

    ids = ids_of(caller)

    async def work(hub: Hub) -> dict[str, Any]:
        return shown_outbox(await hub.outbox.status(ids.context(hub.default_owner)))

    told = use_hub(place, work)
    if place.as_json:
        output.print_json(told)
        return
    counts = ", ".join(f"{told[name]} {name}" for name in ("pending", "claimed", "failed", "dead"))
    oldest = f"; the oldest waits for {told['lag_s']:.1f} s" if told["lag_s"] else ""
    output.say(counts + oldest)
    for letter in told["dead_letters"]:
        output.say(f"{letter['event_id']}  {letter['event_type']}  {letter['uri']}  {letter['error']}")


def _list(address: str | None, depth: int, caller: Caller, place: Place) -> None:
    params = checked(ChildrenParams, {"uri": address, "depth": depth, **asdict(caller)}, {"uri": "URI"})

    async def work(hub: Hub) -> tuple[list[NodeSummary], bool]:
        ctx = params.context(hub.default_owner)
        below = await hub.memories.list_children(ctx, params.uri, depth=params.depth)
        return below.children, below.truncated

    children, truncated = use_hub(place, work)
    if place.as_json:
        results = [asdict(one) for one in children]
        output.print_json({"results": results, "count": len(results), "next_cursor": None, "truncated": truncated})
        return
    for one in children:
        _print_summary(one, children[0].uri)
    if truncated:
        output.say("there is more: look further down")


def _sent(file: Path, how: HowCommitted) -> dict[str, Any]:
    """Return the body that the HTTP API would take."""
    body = read_messages(file)
    named = None if str(file) == "-" else file.stem
    session_id = how.session_id or body.get("session_id") or named
    if session_id is None:
        raise typer.BadParameter("--session-id: what comes from stdin needs a name")
    check_not_empty(body)
    given = body.get("options")
    options = dict(given) if isinstance(given, Mapping) else {}
    options |= ({"dry_run": True} if how.dry_run else {}) | ({"extract": False} if how.no_extract else {})
    return {**body, "session_id": session_id, "options": options}


def _print_committed(done: CommitResult) -> None:
    output.say(f"{done.status}  {done.archive.archive_uri}")
    written = [(one.action, one.uri, one.reason) for one in done.write_results]
    # Of a dry run there are plans only.
    planned = [(one.action, one.target_uri, one.reason) for one in done.plans]
    for action, address, reason in written or planned:
        output.say(f"{action.value:>12}  {address}{f'  {reason}' if reason else ''}")
    for part in done.degraded:
        output.say(f"did without: {part}")
    output.say_undo(done.operation_id)


def _print_found(found: MemoryFound) -> None:
    if not found.blocks:
        output.say("nothing of it is remembered")
    for block in found.blocks:
        output.say(f"{block.score:>8.3f}  {block.category}  {block.uri}")
        output.say(f"          {output.one_line(block.abstract)}")
        output.say(f"          {block.match_reason}")
    for part in found.degraded:
        output.say(f"did without: {part}")


def _layer(block: RetrievedBlock) -> str:
    """Return the layer that was read."""
    if block.content is not None:
        return block.content
    return block.overview if block.level_hit == "L1" and block.overview is not None else block.abstract


def _print_summary(one: NodeSummary, first: str) -> None:
    indent = "  " * (one.uri.count("/") - first.count("/"))
    slash = "/" if one.has_children else ""
    # The URI goes on with this; what a memory is about, where that is a hash, stands behind it.
    written = one.uri.rpartition("/")[2]
    about = f"  {one.name}" if one.name != written else ""
    output.say(f"{indent}{written}{slash}{about}  {one.updated_at or ''}".rstrip())
