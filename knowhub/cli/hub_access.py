"""Open the hub for one command, and parse what was typed. A running server may use the same directory."""

from __future__ import annotations

import sys
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

# Fields whose option has another name.
_OPTION_NAMES = {
    "q": "QUERY",
    "types": "--type",
    "scopes": "--scope",
    "tags": "--tag",
    "resource_ids": "--resource",
    "source": "--url",
}


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
        problems = "; ".join(f"{_setting_name(item['loc'])}: {_message(item)}" for item in error.errors())
        raise typer.BadParameter(f"wrong settings: {problems}") from error


def run_on_hub(
    options: CommonOptions, work: Callable[[Hub, RequestContext], Awaitable[T]], *, create: bool = False
) -> T:
    """Open the hub, run `work` on it as the caller of the command, and close it.

    Without `create` the data directory must exist. Ends with 2 when an id of the caller is invalid. Raises NotFound
    when there is no data directory, and what `open_hub` and `work` raise.
    """
    from knowhub.cli.options import CallerOptions
    from knowhub.web.schemas.parts import CallerIds

    ids = parse_model(CallerIds, options.ids()) if isinstance(options, CallerOptions) else CallerIds()
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


def run_route(
    options: CommonOptions,
    name: str,
    values: Mapping[str, Any] | None = None,
    in_path: Mapping[str, str] | None = None,
    *,
    create: bool = False,
    option_names: Mapping[str, str] | None = None,
) -> Any:  # noqa: ANN401 -- any JSON
    """Do what a route of the HTTP API does, in this process, and return its answer; the rest is as in `run_on_hub`."""
    ask = make_request(options, name, values, in_path, option_names=option_names)
    return run_on_hub(options, lambda hub, _: ask(hub), create=create)


def make_request(
    options: CommonOptions,
    name: str,
    values: Mapping[str, Any] | None = None,
    in_path: Mapping[str, str] | None = None,
    *,
    option_names: Mapping[str, str] | None = None,
) -> Callable[[Hub], Awaitable[Any]]:
    """Return what asks a route of an open hub, and returns its answer.

    `name` is the module of the route and its function, such as `knowledge.save_knowledge`. `values` are the fields of
    its body and its query. The rest is as in `parse_model`.
    """
    from importlib import import_module

    import orjson

    from knowhub.cli.options import CallerOptions
    from knowhub.web.responses import JsonText
    from knowhub.web.route import Call, find_caller_ids

    module, _, function = name.partition(".")
    route = next(item for item in import_module(f"knowhub.web.routes.{module}").routes if item.name == function)
    ids = options.ids() if isinstance(options, CallerOptions) else {}
    beside = {field: value for field, value in (values or {}).items() if field in _fields_of(route.beside_body)}
    model = route.query if route.is_either else route.body or route.query
    rest = {
        field: value for field, value in (values or {}).items() if field not in beside or field in _fields_of(model)
    }
    parsed = None if model is None else parse_model(model, rest | ids, option_names)
    params = None if route.beside_body is None else parse_model(route.beside_body, beside, option_names)
    given = (parsed, params, b"") if "sent" in route.given else (None, parsed, b"")

    async def ask(hub: Hub) -> Any:  # noqa: ANN401 -- any JSON
        call: type[Call] = route.call
        answer = await route.run(call(hub, find_caller_ids(given)), given, in_path or {})
        return orjson.loads(answer.read()) if isinstance(answer, JsonText) else None

    return ask


def _fields_of(model: type[BaseModel] | None) -> Mapping[str, Any]:
    return {} if model is None else model.model_fields


def parse_model(
    model: type[ModelT], values: Mapping[str, Any], option_names: Mapping[str, str] | None = None
) -> ModelT:
    """Parse what was typed as the HTTP API would. Ends with 2 and names the option when a value is wrong.

    `option_names` names the fields that are arguments of the command, or whose option has another name.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate({name: value for name, value in values.items() if value not in (None, [], {})})
    except ValidationError as error:
        names = {**_OPTION_NAMES, **(option_names or {})}
        problems = "; ".join(f"{_option_name(item['loc'], names)}{_message(item)}" for item in error.errors())
        raise typer.BadParameter(problems) from error


def parse_tags(typed: Sequence[str], option: str = "--tag") -> dict[str, str | list[str]]:
    """Parse `name=value` pairs. A repeated name has a list of values. Ends with 2 when a pair is invalid."""
    tags: dict[str, str | list[str]] = {}
    for pair in typed:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{option}: {pair!r} is not NAME=VALUE")
        earlier = tags.get(name)
        tags[name] = value if earlier is None else [*(earlier if isinstance(earlier, list) else [earlier]), value]
    return tags


def _option_name(location: tuple[int | str, ...], names: Mapping[str, str]) -> str:
    if not location:
        return ""
    path = ".".join(map(str, location))
    if path in names:
        return f"{names[path]}: "
    name = str(location[0])
    # Inside a nested value the path helps more than the name of the option.
    inner = f"{path}: " if len(location) > 2 else ""  # noqa: PLR2004 -- deeper than a list item
    return f"{names.get(name, '--' + name.replace('_', '-'))}: {inner}"


def _setting_name(location: tuple[int | str, ...]) -> str:
    return f"KNOWHUB_{str(location[0]).upper()}" if location else "KNOWHUB_*"


def _message(error: Any) -> str:  # noqa: ANN401 -- pydantic's own dictionary
    return str(error["msg"]).removeprefix("Value error, ")
