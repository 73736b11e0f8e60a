"""The tools of an agent: registered with `@tool()`, described to a model, and called by name."""

import copy
import functools
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, cast

from agent_tools import schemas
from agent_tools.results import ToolFailure, ToolResult, make_failure

P = ParamSpec("P")


class Tool(Protocol[P]):
    """An async function that returns a `ToolResult`, also when something outside fails, and has a schema."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ToolResult]:
        """Run the tool."""

    def openai_schema(self, *, strict: bool = False) -> dict[str, Any]:
        """Return the schema for the `tools` parameter of OpenAI-compatible servers.

        With `strict` for the strict mode: a model fills in every parameter, null where it has nothing to say.
        """

    def anthropic_schema(self) -> dict[str, Any]:
        """Return the schema for the `tools` parameter of Anthropic's API."""


_tools: dict[str, Tool[...]] = {}
_aliases: dict[str, str] = {}


def tool(
    *, aliases: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> Callable[[Callable[P, Coroutine[Any, Any, ToolResult]]], Tool[P]]:
    """Register an async function as a tool. A `ToolFailure` that it raises becomes its result.

    It stays a function with its signature. A model does not see `aliases`, more names to call it by, and `hidden`,
    parameters that are for the host only. Raises TypeError when the function has no valid schema, and ValueError when
    the name exists.
    """

    def register(function: Callable[P, Coroutine[Any, Any, ToolResult]]) -> Tool[P]:
        registered = _add_schemas(_return_failures(function), hidden)
        _add_names(registered, aliases)
        return registered

    return register


def registered_tools() -> dict[str, Tool[...]]:
    """Return the tools of the imported modules, by name."""
    return dict(_tools)


async def call_tool(name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
    """Call a tool by its name or alias. The arguments are an object or its JSON text.

    For a wrong name or argument the `error` of the result says what would be right.
    """
    called = _tools.get(_aliases.get(name, name))
    if called is None:
        return make_failure(name, ToolFailure(f"There is no tool {name!r}. There are: {', '.join(_tools)}."))
    try:
        checked = _check_arguments(called, arguments)
    except ToolFailure as failure:
        return make_failure(name, failure)
    return await called(**checked)


def _return_failures(
    function: Callable[P, Coroutine[Any, Any, ToolResult]],
) -> Callable[P, Coroutine[Any, Any, ToolResult]]:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} must be an async function to be a tool")

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> ToolResult:
        try:
            return await function(*args, **kwargs)
        except ToolFailure as failure:
            # Only failures outside: the operator of the agent must see our bugs.
            return make_failure(function.__name__, failure)

    return call


def _add_schemas(function: Callable[P, Coroutine[Any, Any, ToolResult]], hidden: tuple[str, ...]) -> Tool[P]:
    header = {"name": function.__name__, "description": schemas.get_description(function)}
    parameters = schemas.make_parameter_schema(function, hidden)

    def openai_schema(*, strict: bool = False) -> dict[str, Any]:
        if strict:
            parameters_in_full = schemas.make_strict(parameters)
            return {"type": "function", "function": {**header, "parameters": parameters_in_full, "strict": True}}
        return {"type": "function", "function": {**header, "parameters": copy.deepcopy(parameters)}}

    def anthropic_schema() -> dict[str, Any]:
        return {**header, "input_schema": copy.deepcopy(parameters)}

    vars(function).update(openai_schema=openai_schema, anthropic_schema=anthropic_schema)
    return cast("Tool[P]", function)


def _add_names(registered: Tool[...], aliases: tuple[str, ...]) -> None:
    for name in (registered.__name__, *aliases):
        if name in _tools or name in _aliases:
            raise ValueError(f"a tool {name!r} exists already")
    _tools[registered.__name__] = registered
    _aliases.update(dict.fromkeys(aliases, registered.__name__))


def _check_arguments(called: Tool[...], arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        raise ToolFailure(f"The arguments are not JSON ({error}). Pass one JSON object.") from error
    if not isinstance(given, Mapping):
        raise ToolFailure("The arguments must be one JSON object.")
    parsed, problems = schemas.parse_arguments(given, called.anthropic_schema()["input_schema"])
    if problems:
        raise ToolFailure(f"Correct the arguments of {called.__name__} and call again: {'; '.join(problems)}.")
    return parsed
