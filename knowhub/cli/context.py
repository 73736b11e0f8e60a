"""`knowhub context`: commit sessions, search, read and list memories, and change them by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import parse_tags, run_routes
from knowhub.cli.inputs import STDIN, read_messages
from knowhub.cli.options import CallerOptions
from knowhub.context.model import MemoryCategory

app = typer.Typer(help="Sessions and memories.", no_args_is_help=True)

_FILE_HELP = "A transcript: a JSON array of messages, a body of the HTTP API, or one message per line; - reads stdin."
_MAX_TREE_DEPTH = 8
_Uri = Annotated[str, typer.Argument(metavar="URI", show_default=False)]
_ParentUri = Annotated[
    str | None, typer.Argument(metavar="[URI]", help="Below this URI. Default: everything.", show_default=False)
]
_To = Annotated[str, typer.Argument(metavar="TO", show_default=False)]
_Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag; can be repeated.")]


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """A session, and how it is stored. Options replace the fields of FILE."""

    messages: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)]
    session_id: Annotated[str | None, typer.Option(help="Default: the session_id in FILE, or the name of FILE.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and write nothing.")] = False
    no_extract: Annotated[bool, typer.Option("--no-extract", help="Store only the transcript.")] = False

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        body = read_messages(self.messages)
        name = None if str(self.messages) == STDIN else self.messages.stem
        session_id = self.session_id or body.get("session_id") or name
        if session_id is None:
            raise typer.BadParameter("--session-id: is needed when FILE is stdin")
        given = body.get("options")
        options = dict(given) if isinstance(given, Mapping) else {}
        options |= {"dry_run": True} if self.dry_run else {}
        options |= {"extract": False} if self.no_extract else {}
        return {**body, "session_id": session_id, "options": options}


@route_command(app, "commit", "context.commit_session", creates=lambda fields: not fields["options"].get("dry_run"))
def commit(done: Answer, session: CommitOptions) -> Lines:
    """Store a session word for word, and the memories in it. A second commit adds only what is new."""
    yield f"{done['status']}  {done['archive']['archive_uri']}"
    written = [(write["action"], write["uri"], write["reason"]) for write in done["write_results"]]
    # A dry run has plans only.
    planned = [(plan["action"], plan["target_uri"], plan["reason"]) for plan in done["plans"]]
    for action, uri, reason in written or planned:
        yield f"{action:>12}  {uri}{f'  {reason}' if reason else ''}"
    yield from output.list_degraded(done["degraded"])
    yield from output.list_undo(done["operation_id"])


@route_command(app, "search", "context.search_memory")
def search(
    found: Answer,
    q: Annotated[str, typer.Argument(metavar="QUERY", show_default=False)],
    target_uri: Annotated[str | None, typer.Option(metavar="URI", help="Only at and below this URI.")] = None,
    categories: Annotated[list[MemoryCategory] | None, typer.Option("--category", help="Only this category.")] = None,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many results.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each result is here.")] = False,
) -> Lines:
    """Find messages and memories about QUERY, the best first. Shows abstracts, not whole texts."""
    if not found["blocks"]:
        yield "nothing was found"
    for block in found["blocks"]:
        yield f"{block['score']:>8.3f}  {block['category']}  {block['uri']}"
        yield f"          {output.shorten(block['abstract'])}"
        yield f"          {block['match_reason']}"
        for stage in block.get("why", {}).get("stages", ()):
            yield f"          {stage['stage']}: {stage['rank']} with {stage['score']:.3f}"
    yield from output.list_degraded(found["degraded"])


@command(app, "read")
def read(
    uris: Annotated[list[str], typer.Argument(metavar="URI...", show_default=False)],
    options: CallerOptions,
    level: Annotated[str, typer.Option(help="L0: the abstract, L1: the overview, L2: the whole text.")] = "L1",
    relations: Annotated[bool, typer.Option("--relations", help="Show its relations too.")] = False,
) -> None:
    """Print one level of memories, sessions or messages, at most 100."""
    if len(uris) == 1:
        fields = {"uri": uris[0], "level": level, "expand_relations": relations}
        [found] = run_routes(options, "context.read_memory", fields, option_names={"uri": "URI"})
        edges = [f"{edge['relation_type']}  {edge['to_uri']}  {edge['reason']}" for edge in found["relations"]]
        lines = [_get_level_text(found), *edges]
    elif relations:
        raise typer.BadParameter("--relations shows those of one URI")
    else:
        [found] = run_routes(options, "context.read_memories", {"uris": uris, "level": level})
        lines = [line for block in found["results"] for line in (block["uri"], _get_level_text(block), "")]
        lines += [f"missing  {uri}" for uri in found["missing"]]
    output.print_answer(found, lines, as_json=options.as_json)


@route_command(app, "ls", "context.list_children")
def ls(below: Answer, uri: _ParentUri = None) -> Lines:
    """List what is directly below a URI."""
    return _list_nodes(below)


@route_command(app, "tree", "context.list_children")
def tree(
    below: Answer,
    uri: _ParentUri = None,
    depth: Annotated[int, typer.Option(min=1, max=_MAX_TREE_DEPTH, help="How many levels.")] = _MAX_TREE_DEPTH,
) -> Lines:
    """List everything below a URI, down to the messages of sessions."""
    return _list_nodes(below)


@route_command(app, "profile", "context.read_profile")
def profile(current: Answer) -> Lines:
    """Print all that the caller's memories state now, a line each with its day."""
    yield current["text"]


@route_command(app, "sessions", "context.list_sessions")
def sessions(found: Answer, limit: Annotated[int, typer.Option(min=1, max=1_000)] = 100) -> Lines:
    """List the sessions, newest first, and how many of their messages were read by what."""
    for item in found["results"]:
        yield (
            f"{item['uri']}  {item['message_count']} messages: {item['by_model']} read by a model, "
            f"{item['by_rules']} by rules, {item['waiting']} wait"
        )


@route_command(app, "outbox", "context.get_outbox")
def outbox(status: Answer) -> Lines:
    """Count the texts that wait for the vector index, and show those that failed for good."""
    counts = ", ".join(f"{status[name]} {name}" for name in ("pending", "claimed", "failed", "dead"))
    yield counts + (f"; the oldest has waited {status['lag_s']:.1f} s" if status["lag_s"] else "")
    for letter in status["dead_letters"]:
        yield f"{letter['event_id']}  {letter['event_type']}  {letter['uri']}  {letter['error']}"


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """The fields of a new memory."""

    category: Annotated[str, typer.Argument(show_default=False, help="profile, preferences, entities, events, …")]
    content: Annotated[str, typer.Argument(show_default=False)]
    name: Annotated[str, typer.Option(help="How its URI ends. Default: a hash of the text.")] = ""
    tags: _Tags = None

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        return asdict(self) | {"tags": parse_tags(self.tags)}


@route_command(app, "add", "context.create_node", creates=lambda _: True)
def add(node: Answer, draft: MemoryOptions) -> Lines:
    """Create a memory of the caller's."""
    return _list_done(node, f"{node['category']}  {node['uri']}")


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """The changes of a memory."""

    content: Annotated[str | None, typer.Option(help="The new text. Abstract and overview are made of it.")] = None
    tags: _Tags = None

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API. Ends with 2 when there is no change."""
        if self.content is None and not self.tags:
            raise typer.BadParameter("name --content or --tag: nothing would change")
        return {"content": self.content, "tags": parse_tags(self.tags)}


@route_command(app, "edit", "context.edit_node")
def edit(node: Answer, uri: _Uri, changes: MemoryEdit) -> Lines:
    """Change the text of a memory, or replace all its tags."""
    return _list_done(node, f"{node['category']}  {node['uri']}")


@route_command(app, "move", "context.move_node")
def move(node: Answer, uri: _Uri, to: _To) -> Lines:
    """Give a memory the URI TO in the same space; edges that lead to it follow."""
    return _list_done(node, f"{node['category']}  {node['uri']}")


@route_command(app, "forget", "context.delete_node")
def forget(
    done: Answer,
    uri: _Uri,
    erase: Annotated[bool, typer.Option("--erase", help="Remove its text for good, from the log too.")] = False,
) -> Lines:
    """Delete a memory, a message, or a session with its messages. `knowhub undo` brings it back."""
    if not erase:
        yield from _list_done(done, f"deleted  {uri}")
        return
    yield f"erased  {uri}"
    for other in (*done["other_rows"], *done["snapshots"]):
        yield f"its text is in {other} too"


@route_command(app, "link", "context.link_nodes")
def link(
    done: Answer,
    from_uri: _Uri,
    to_uri: _To,
    relation_type: Annotated[str, typer.Option("--type", help="What kind of edge it is.")] = "related",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
) -> Lines:
    """Add an edge from the memory URI to the memory TO."""
    return _list_done(done, f"linked  {from_uri}  {to_uri}")


@route_command(app, "unlink", "context.unlink_nodes")
def unlink(done: Answer, from_uri: _Uri, to_uri: _To) -> Lines:
    """Remove the edges from the memory URI to the memory TO."""
    return _list_done(done, f"unlinked  {from_uri}  {to_uri}")


@route_command(app, "grep", "context.grep")
def grep(
    found: Answer,
    q: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    uri: Annotated[str | None, typer.Option("--below", metavar="URI", help="Only at and below this URI.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000)] = 100,
) -> Lines:
    """Find the lines of memories and messages that contain TEXT, in any case."""
    for line in found["results"]:
        yield f"{line['uri']}:{line['line']}: {line['text']}"
    if found["truncated"]:
        yield "there are more; see --limit"


def _list_done(answer: Answer, line: str) -> Lines:
    yield line
    yield from output.list_undo(answer["operation_id"])


def _get_level_text(block: Answer) -> str:
    layers = [block["content"], block["overview"] if block["level_hit"] == "L1" else None]
    return next((str(text) for text in layers if text is not None), str(block["abstract"]))


def _list_nodes(below: Answer) -> Lines:
    nodes = below["results"]
    for node in nodes:
        indent = "  " * (node["uri"].count("/") - nodes[0]["uri"].count("/"))
        slash = "/" if node["has_children"] else ""
        # The last part of the URI may be a hash; then the name says what the memory is about.
        segment = node["uri"].rpartition("/")[2]
        name = f"  {node['name']}" if node["name"] != segment else ""
        yield f"{indent}{segment}{slash}{name}  {node['updated_at'] or ''}".rstrip()
    if below["truncated"]:
        yield "the list is cut off; name a deeper URI to see more"
