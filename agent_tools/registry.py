"""The tools an agent has: registered by `@tool()`, described to a model, called by name."""

import copy
import functools
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, cast

from agent_tools import schemas
from agent_tools.results import ToolFailure, ToolResult, failed

P = ParamSpec("P")


class Tool(Protocol[P]):
    """An async function that returns a `ToolResult`, whatever happens outside, and can describe itself."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ToolResult]:
        """Run the tool."""

    def openai_schema(self) -> dict[str, Any]:
        """Describe the tool as the `tools` parameter of OpenAI-compatible servers wants it."""

    def anthropic_schema(self) -> dict[str, Any]:
        """Describe the tool as the `tools` parameter of Anthropic's API wants it."""


_tools: dict[str, Tool[...]] = {}
_aliases: dict[str, str] = {}


def tool(*, aliases: tuple[str, ...] = ()) -> Callable[[Callable[P, Coroutine[Any, Any, ToolResult]]], Tool[P]]:
    """Register an async function as a tool; a `ToolFailure` in it becomes its result (seed 003).

    It stays a function with its signature. `aliases` are further names to call it by; they are not shown to
    a model. Raises TypeError where no schema can be made of the function, ValueError for a taken name.
    """

    def register(function: Callable[P, Coroutine[Any, Any, ToolResult]]) -> Tool[P]:
        registered = _described(_guarded(function))
        _claim(registered, aliases)
        return registered

    return register


def registered_tools() -> dict[str, Tool[...]]:
    """Return the tools of the modules imported so far, by name."""
    return dict(_tools)


async def call_tool(name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
    """Call a tool as a model asks for it: by name or alias, the arguments an object or its JSON text.

    A wrong name or argument is answered by a result whose `error` says what would be right.
    """
    called = _tools.get(_aliases.get(name, name))
    if called is None:
        return failed(name, ToolFailure(f"There is no tool {name!r}. There are: {', '.join(_tools)}."))
    try:
        checked = _checked(called, arguments)
    except ToolFailure as failure:
        return failed(name, failure)
    return await called(**checked)


def _guarded(
    function: Callable[P, Coroutine[Any, Any, ToolResult]],
) -> Callable[P, Coroutine[Any, Any, ToolResult]]:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} must be an async function to be a tool")

    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> ToolResult:
        try:
            return await function(*args, **kwargs)
        except ToolFailure as failure:
            # Only what failed outside: a bug of ours must be seen by whoever runs the agent.
            return failed(function.__name__, failure)

    return guarded


def _described(function: Callable[P, Coroutine[Any, Any, ToolResult]]) -> Tool[P]:
    named = {"name": function.__name__, "description": schemas.description(function)}
    parameters = schemas.parameter_schema(function)

    def openai_schema() -> dict[str, Any]:
        return {"type": "function", "function": {**named, "parameters": copy.deepcopy(parameters)}}

    def anthropic_schema() -> dict[str, Any]:
        return {**named, "input_schema": copy.deepcopy(parameters)}

    vars(function).update(openai_schema=openai_schema, anthropic_schema=anthropic_schema)
    return cast("Tool[P]", function)


def _claim(registered: Tool[...], aliases: tuple[str, ...]) -> None:
    for name in (registered.__name__, *aliases):
        if name in _tools or name in _aliases:
            raise ValueError(f"there is a tool {name!r} already")
    _tools[registered.__name__] = registered
    _aliases.update(dict.fromkeys(aliases, registered.__name__))


def _checked(called: Tool[...], arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        raise ToolFailure(f"The arguments are not JSON ({error}). Pass one JSON object.") from error
    if not isinstance(given, Mapping):
        raise ToolFailure("The arguments must be one JSON object.")
    schema = called.anthropic_schema()["input_schema"]
    meant = schemas.read_texts(given, schema)
    problems = schemas.argument_problems(meant, schema)
    if problems:
        raise ToolFailure(f"Correct the arguments of {called.__name__} and call again: {'; '.join(problems)}.")
    return meant
