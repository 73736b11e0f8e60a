"""Open the hub for one command, and parse what was typed. A running server may use the same directory."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from knowhub.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pydantic import BaseModel

    from knowhub.bootstrap import Hub
    from knowhub.cli.options import CommonOptions
    from knowhub.core.request_context import RequestContext
    from knowhub.settings import Settings

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound="BaseModel")


def load_settings(options: CommonOptions, **overrides: object) -> Settings:
    """Return the settings of the environment; options replace them. Ends with 2 when a setting is wrong."""
    import structlog
    from pydantic import ValidationError

    from knowhub.settings import Settings

    # stdout is for answers only.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    typed: dict[str, Any] = {"data_dir": options.data_dir, **overrides}
    try:
        return Settings(**{name: value for name, value in typed.items() if value is not None})
    except ValidationError as error:
        # An error of the settings as a whole has no location.
        named = ((item["loc"] or ("*",), _message(item)) for item in error.errors())
        problems = "; ".join(f"KNOWHUB_{str(location[0]).upper()}: {message}" for location, message in named)
        raise typer.BadParameter(f"wrong settings: {problems}") from error


def run_on_hub(
    options: CommonOptions, work: Callable[[Hub, RequestContext], Awaitable[T]], *, create: bool = False
) -> T:
    """Open the hub, run `work` on it as the caller of the command, and close it.

    Without `create` the data directory must exist. Ends with 2 when an id of the caller is invalid. Raises NotFound
    when there is no data directory, and what `open_hub` and `work` raise.
    """
    from knowhub.web.schemas.parts import CallerIds

    ids = parse_model(CallerIds, options.ids())
    settings = load_settings(options)
    if not create and not (settings.data_dir / "change_log").is_dir():
        raise NotFound(
            f"there are no records at {settings.data_dir}; name the data directory with --data-dir or KNOWHUB_DATA_DIR"
        )

    import asyncio

    from knowhub.bootstrap import open_hub
    from knowhub.web.auth import make_local_context

    async def run() -> T:
        async with open_hub(settings, maintain=False) as hub:
            return await work(hub, make_local_context(hub, ids))

    return asyncio.run(run())


def run_routes(
    options: CommonOptions,
    route: str,
    fields: Mapping[str, Any],
    *,
    create: bool = False,
    then: str | None = None,
    option_names: Mapping[str, str] | None = None,
) -> list[Any]:
    """Ask a route of the HTTP API in this process, and with `then` a route about the keyword in its answer.

    Returns the answers, any JSON. A route is named by its module and its function. `fields` are the fields of its path,
    its body and its query. The rest is as in `run_on_hub` and `parse_model`.
    """
    ask = _make_request(options, route, fields, option_names)

    async def work(hub: Hub, _: RequestContext) -> list[Any]:
        answer = await ask(hub)
        if then is None:
            return [answer]
        return [answer, await _make_request(options, then, {"keyword_id": answer["id"]})(hub)]

    return run_on_hub(options, work, create=create)


def _make_request(
    options: CommonOptions, name: str, fields: Mapping[str, Any], option_names: Mapping[str, str] | None = None
) -> Callable[[Hub], Awaitable[Any]]:
    """Return what asks a route of an open hub."""
    from importlib import import_module

    import orjson

    from knowhub.web.responses import JsonText
    from knowhub.web.route import ParsedRequest

    module, _, function = name.partition(".")
    route = next(item for item in import_module(f"knowhub.web.routes.{module}").routes if item.name == function)
    in_path = {field: str(value) for field, value in fields.items() if field in route.param_convertors}
    beside = route.query_beside_body
    # A command sends a query where a route takes a body or a query.
    model = route.query if route.takes_body_or_query else route.body or route.query
    body_fields, query_fields = _get_fields(model), _get_fields(beside)
    in_body = {
        field: value
        for field, value in fields.items()
        if field not in in_path and (field in body_fields or field not in query_fields)
    }
    in_query = {field: value for field, value in fields.items() if field in query_fields}
    values = None if model is None else parse_model(model, in_body | options.ids(), option_names)
    params = None if beside is None else parse_model(beside, in_query, option_names)
    parsed = ParsedRequest(None, values) if route.body is None else ParsedRequest(values, params)

    async def ask(hub: Hub) -> Any:  # noqa: ANN401 -- any JSON
        answer = await route.run(hub, parsed, in_path)
        return orjson.loads(answer.read()) if isinstance(answer, JsonText) else None

    return ask


def _get_fields(model: type[BaseModel] | None) -> Mapping[str, Any]:
    return {} if model is None else model.model_fields


def parse_model(
    model: type[ModelT], values: Mapping[str, Any], option_names: Mapping[str, str] | None = None
) -> ModelT:
    """Parse what was typed as the HTTP API would. Ends with 2 and names the option when a value is wrong.

    `option_names` has the option or the argument of fields that have another name.
    """
    from pydantic import ValidationError

    typed = {name: _get_value(value) for name, value in values.items() if value not in (None, [], {})}
    try:
        return model.model_validate(typed)
    except ValidationError as error:
        problems = "; ".join(
            f"{_option_name(item['loc'], option_names or {})}{_message(item)}" for item in error.errors()
        )
        raise typer.BadParameter(problems) from error


def _get_value(typed: object) -> object:
    if isinstance(typed, list):
        return [_get_value(item) for item in typed]
    return typed.value if isinstance(typed, Enum) else typed


def parse_tags(typed: Sequence[str] | None, option: str = "--tag") -> dict[str, str | list[str]]:
    """Parse `name=value` pairs. A repeated name has a list of values. Ends with 2 when a pair is invalid."""
    tags: dict[str, str | list[str]] = {}
    for pair in typed or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{option}: {pair!r} is not NAME=VALUE")
        earlier = tags.get(name)
        tags[name] = value if earlier is None else [*(earlier if isinstance(earlier, list) else [earlier]), value]
    return tags


def _option_name(location: tuple[int | str, ...], names: Mapping[str, str]) -> str:
    if not location:
        return ""
    name, last = str(location[0]), str(location[-1])
    if last in names:
        return f"{names[last]}: "
    # Inside a nested value the path helps more than the name of the option.
    inner = f"{'.'.join(map(str, location))}: " if len(location) > 2 else ""  # noqa: PLR2004 -- deeper than a list item
    return f"{names.get(name, '--' + name.replace('_', '-'))}: {inner}"


def _message(error: Any) -> str:  # noqa: ANN401 -- pydantic's own dictionary
    from knowhub.web.json_parsing import format_message

    return format_message(error)
