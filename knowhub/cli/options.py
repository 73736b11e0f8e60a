"""Options that several commands share, and the decorator that turns a dataclass of options into parameters."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from knowhub.core.request_context import CONTEXT_IDS

_CALLER = "Who is asking"


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The data directory, and the form of the answer."""

    data_dir: Annotated[Path | None, typer.Option(help="The data directory. Default: KNOWHUB_DATA_DIR.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP API answers.")] = False


@dataclass(frozen=True, slots=True)
class CallerOptions(CommonOptions):
    """Who is asking. Without any of these it is the local principal, who may see and do everything."""

    user_id: Annotated[str | None, typer.Option(help="Act as this user.", rich_help_panel=_CALLER)] = None
    agent_id: Annotated[str | None, typer.Option(help="Act as this agent.", rich_help_panel=_CALLER)] = None
    project_id: Annotated[str | None, typer.Option(help="Also see project:ID.", rich_help_panel=_CALLER)] = None
    team_id: Annotated[str | None, typer.Option(help="Also see team:ID.", rich_help_panel=_CALLER)] = None
    org_id: Annotated[str | None, typer.Option(help="Also see org:ID.", rich_help_panel=_CALLER)] = None

    def ids(self) -> dict[str, str | None]:
        """Return the ids of the caller by the names of the HTTP API."""
        return {name: getattr(self, name) for name in CONTEXT_IDS}


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass parameter of a command by one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        else:
            # Keyword-only: then a parameter with a default may come before a parameter without one.
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @functools.wraps(command)
    def call(**values: Any) -> None:  # noqa: ANN401 -- the values that typer has parsed
        for name, kind in groups.items():
            values[name] = kind(**{item.name: values.pop(item.name) for item in dataclasses.fields(kind)})
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it from here
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters_of(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 -- a dataclass, as `expand_options` checks
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            item.name, inspect.Parameter.KEYWORD_ONLY, default=_default_of(item), annotation=hints[item.name]
        )
        for item in dataclasses.fields(kind)
    ]


def _default_of(item: "dataclasses.Field[Any]") -> Any:  # noqa: ANN401 -- the default of any field
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return inspect.Parameter.empty if item.default is dataclasses.MISSING else item.default
