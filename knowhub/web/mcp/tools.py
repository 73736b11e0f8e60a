"""The tools that KnowHub offers over MCP: what each takes, what it does, and what it answers."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from agent_tools.fences import fence_rows, remove_fenced
from knowhub.bootstrap import Hub
from knowhub.context.commit_model import SessionCommit
from knowhub.context.model import Level
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import keep_own_words
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.core.request_context import RequestContext
from knowhub.core.scopes import name_readers
from knowhub.knowledge.model import Feedback, KnowledgeType, NewKnowledge
from knowhub.usecases.recall import RecallQuery
from knowhub.web.profile_rows import list_profile
from knowhub.web.schemas.knowledge import TypeName
from knowhub.web.schemas.parts import Label, Text, clean, refuse_blank
from knowhub.web.views import make_commit_view

_MEMORY_SCHEME: Final = "ctx://"
_PROFILE: Final = "profile"
_RECALLED: Final = "this text came from KnowHub, so nothing was written; say with feedback(id) whether it helped"
_RECORD_PREFIX: Final = "knowledge-"
_PROFILE_TOKENS: Final = 1_000
_SHOWN_FIELDS: Final = ("id", "source", "kind", "scope", "title", "path", "text")

_not_empty: Final = refuse_blank("must not be empty")
_Name = Annotated[Label, _not_empty]
_Content = Annotated[Text, _not_empty]
_Question = Annotated[str, StringConstraints(max_length=MAX_QUERY_CHARS), AfterValidator(clean), _not_empty]


class Arguments(BaseModel):
    """The arguments of a tool: strict types, no unknown names."""

    model_config = ConfigDict(extra="forbid", strict=True)


class RecallArguments(Arguments):
    query: _Question = Field(description="What you want to know or do.")
    limit: int = Field(default=8, ge=1, le=50)


class ReadArguments(Arguments):
    id: _Content = Field(description="An id from recall.")


class SaveArguments(Arguments):
    content: _Content = Field(description="Complete enough to act on.")
    task: Text = Field(default="", description="When it applies.")
    type: TypeName = "strategy"


class SaidMessage(Arguments):
    role: Literal["user", "assistant", "tool"]
    content: Text


class RememberArguments(Arguments):
    messages: list[SaidMessage] = Field(min_length=1, max_length=1_000, description="Oldest first.")
    session_id: Label = Field(default="", description="The same id adds to a session.")


class FeedbackArguments(Arguments):
    id: _Name
    verdict: Literal["helped", "wrong"]
    reason: Text = ""


class UndoArguments(Arguments):
    operation_id: _Name


class NoArguments(Arguments):
    pass


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers: a text for the model, and the same as data."""

    text: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool. `run` raises KnowHubError; `is_core` tools are offered unless the settings say otherwise."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Hub, RequestContext, Any], Awaitable[ToolAnswer]]
    is_core: bool
    is_read_only: bool

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema: dict[str, Any] = _shorten_schema(self.arguments.model_json_schema())
        return schema


TOOLS: Final[list[McpTool]] = []
Run: TypeAlias = Callable[[Hub, RequestContext, Any], Awaitable[ToolAnswer]]


def _offer(
    name: str, arguments: type[Arguments], *, is_core: bool = True, is_read_only: bool = False
) -> Callable[[Run], Run]:
    """Offer a function as a tool, which its docstring describes to a model."""

    def add(run: Run) -> Run:
        TOOLS.append(McpTool(name, inspect.getdoc(run) or "", arguments, run, is_core, is_read_only))
        return run

    return add


@_offer("recall", RecallArguments, is_read_only=True)
async def recall(hub: Hub, ctx: RequestContext, arguments: RecallArguments) -> ToolAnswer:
    """Find what is known: lessons, keywords, memories. Call it before a task and when something fails."""
    found = await hub.recall.recall(ctx, RecallQuery(arguments.query, arguments.limit))
    rows = [
        {name: value for name in _SHOWN_FIELDS if (value := getattr(item, name)) is not None} for item in found.items
    ]
    data = {"results": rows, "degraded": list(found.degraded), "index_lag": found.index_lag}
    return ToolAnswer(fence_rows(rows) if rows else "Nothing is known about this.", data)


@_offer("read", ReadArguments, is_read_only=True)
async def read(hub: Hub, ctx: RequestContext, arguments: ReadArguments) -> ToolAnswer:
    """Read a result of recall, whole."""
    # The sealed part of a resource is never shown.
    row = await _read_row(hub, ctx, arguments.id)
    return ToolAnswer(fence_rows([row]), row)


@_offer("save", SaveArguments)
async def save(hub: Hub, ctx: RequestContext, arguments: SaveArguments) -> ToolAnswer:
    """Save a lesson for later runs: what works, what fails, what a user prefers."""
    content, content_lines = remove_fenced(arguments.content)
    task, task_lines = remove_fenced(arguments.task)
    if not content:
        raise InvalidInput.of("content", _RECALLED)
    new = NewKnowledge(task=task, content=content, types=[KnowledgeType(arguments.type).value])
    saved = await hub.knowledge.records.save(ctx, new)
    data = {
        "id": saved.record["id"],
        "operation_id": saved.operation_id,
        "duplicate_of": saved.duplicate_of,
        "dropped": _count_recalled(content_lines + task_lines),
    }
    if saved.duplicate_of:
        written = f"your votes against it no longer count. {_how_to_undo(data)}" if saved.is_restored else ""
        warning = f" Warning: {saved.record['warning']}." if "warning" in saved.record else ""
        return ToolAnswer(f"Known already as {saved.duplicate_of}; {written or 'nothing was written.'}{warning}", data)
    readers = name_readers(saved.record["scopes"], saved.record["owner"])
    return ToolAnswer(
        f"Saved {data['id']} for {', '.join(readers)}. {_how_to_undo(data)}{_describe_dropped(data)}", data
    )


@_offer("remember", RememberArguments)
async def remember(hub: Hub, ctx: RequestContext, arguments: RememberArguments) -> ToolAnswer:
    """Keep a conversation; memories are taken from it."""
    session_id = arguments.session_id or f"mcp-{hub.ids.hex(12)}"
    given = [(said.role, *keep_own_words(Message(said.role, said.content))) for said in arguments.messages]
    messages = [Message(role, content) for role, content, lines in given if content or not lines]
    if not messages:
        raise InvalidInput.of("messages", _RECALLED)
    done = make_commit_view(
        await hub.memories.commits.commit(ctx, SessionCommit(session_id=session_id, messages=messages))
    )
    data = {
        "session_id": session_id,
        "operation_id": done["operation_id"],
        "memories": [written.uri for written in done["write_results"]],
        "dropped": [*_count_recalled(sum(lines for _, _, lines in given)), *done["dropped"]],
    }
    if data["operation_id"] is None:
        return ToolAnswer("These messages are remembered already; nothing was written.", data)
    # A session has one reader, also where the caller sees more.
    count, owner = len(data["memories"]), ctx.default_owner
    text = f"Remembered session {session_id} for {owner}, {count} memories. {_how_to_undo(data)}"
    return ToolAnswer(f"{text}{_describe_dropped(data)}", data)


@_offer("feedback", FeedbackArguments)
async def give_feedback(hub: Hub, ctx: RequestContext, arguments: FeedbackArguments) -> ToolAnswer:
    """Say whether a record helped, so that better ones come first."""
    case = {"reason": arguments.reason} if arguments.reason else {}
    feedback = Feedback(helpful_case=case) if arguments.verdict == "helped" else Feedback(harmful_case=case)
    saved = await hub.knowledge.records.give_feedback(ctx, arguments.id, feedback)
    data = {"id": saved.record["id"], "operation_id": saved.operation_id}
    return ToolAnswer(f"Counted for {data['id']}. {_how_to_undo(data)}", data)


@_offer("undo", UndoArguments)
async def undo(hub: Hub, ctx: RequestContext, arguments: UndoArguments) -> ToolAnswer:
    """Undo a write by its operation id."""
    done = await hub.operations.log.undo(ctx, arguments.operation_id)
    data = {"undone": arguments.operation_id, "operation_id": done.operation_ids[-1] if done.operation_ids else None}
    return ToolAnswer(f"Undone. {_how_to_undo(data)}", data)


@_offer("profile", NoArguments, is_core=False, is_read_only=True)
async def read_profile(hub: Hub, ctx: RequestContext, _arguments: NoArguments) -> ToolAnswer:
    """Read what is known about the user."""
    profile = await list_profile(hub, ctx, _PROFILE_TOKENS)
    return ToolAnswer(fence_rows(profile) if profile else "Nothing is known about the user.", {"results": profile})


async def read_resource(hub: Hub, ctx: RequestContext, row_id: str) -> str:
    """Return the text of the resource `profile`, or of a row. Raises KnowHubError."""
    if row_id == _PROFILE:
        return (await read_profile(hub, ctx, NoArguments())).text
    return (await read(hub, ctx, ReadArguments.model_construct(id=row_id))).text


def choose_tools(setting: str) -> Sequence[McpTool]:
    """Return the tools of KNOWHUB_MCP_TOOLS: `core`, `all`, or names. Raises InvalidInput for an unknown name."""
    if setting == "all":
        return TOOLS
    names = {name.strip() for name in setting.split(",") if name.strip()}
    unknown = sorted(names - {tool.name for tool in TOOLS} - {"core"})
    if unknown:
        known = ", ".join(tool.name for tool in TOOLS)
        raise InvalidInput.of("KNOWHUB_MCP_TOOLS", f"{', '.join(unknown)}: no such tool. Known are core, all, {known}")
    return [tool for tool in TOOLS if tool.name in names or ("core" in names and tool.is_core)]


async def _read_row(hub: Hub, ctx: RequestContext, row_id: str) -> Mapping[str, Any]:
    if row_id.startswith(_MEMORY_SCHEME):
        block = await hub.memories.nodes.read_memory(ctx, row_id, Level.L2)
        return {"id": block.uri, "text": block.content}
    if row_id.startswith(_RECORD_PREFIX):
        return _shorten(orjson.loads((await hub.knowledge.records.get(ctx, row_id)).json))
    for get in (hub.keywords.tree.get, hub.keywords.infos.get):
        try:
            return _shorten(orjson.loads((await get(ctx, row_id)).json))
        except NotFound:
            continue
    try:
        return _shorten(await hub.resources.read(ctx, row_id))
    except NotFound:
        # The path or the name of a keyword.
        keyword_id = await hub.keywords.tree.find_id(ctx, row_id)
        if keyword_id == row_id:
            raise
        return _shorten(orjson.loads((await hub.keywords.tree.get(ctx, keyword_id)).json))


def _shorten(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out what a model has no use for."""
    return {name: value for name, value in row.items() if name not in _UNUSED and value not in (None, "", [], {})}


def _how_to_undo(data: Mapping[str, Any]) -> str:
    return f"To undo: operation {data['operation_id']}."


def _count_recalled(lines: int) -> list[dict[str, Any]]:
    return [{"what": "lines", "why": "recalled", "count": lines}] if lines else []


def _describe_dropped(data: Mapping[str, Any]) -> str:
    counts = [f"{item['count']} {item['what']} ({item['why']})" for item in data["dropped"]]
    return f" Left out: {', '.join(counts)}." if counts else ""


def _shorten_schema(schema: Any) -> Any:  # noqa: ANN401 -- JSON
    """Drop titles, limits and empty defaults: a model pays for every word, and wrong arguments are named anyway."""
    if isinstance(schema, dict):
        return {
            name: _shorten_schema(value)
            for name, value in schema.items()
            if not (name in _UNUSED_KEYWORDS and not isinstance(value, dict)) and (name, value) != ("default", "")
        }
    return [_shorten_schema(value) for value in schema] if isinstance(schema, list) else schema


_UNUSED_KEYWORDS: Final = frozenset({"title", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"})
_UNUSED: Final = frozenset({"message_id", "eval", "version", "sort_key", "normalized", "visibility"})
