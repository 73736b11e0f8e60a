"""Options that several commands share, and the decorator that lets a command take them as one value."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from knowhub.knowledge.model import KnowledgeType

_CALLER, _FILTERS = "Who is asking", "Filters"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the records are, and how to answer."""

    data_dir: Annotated[Path | None, typer.Option(help="The data directory. Else KNOWHUB_DATA_DIR.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Answer with JSON, as the HTTP API does.")] = False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking; with none of these it is the local principal, who sees and may do everything."""

    user_id: Annotated[str | None, typer.Option(help="Act as this user.", rich_help_panel=_CALLER)] = None
    agent_id: Annotated[str | None, typer.Option(help="Act as this agent.", rich_help_panel=_CALLER)] = None
    project_id: Annotated[str | None, typer.Option(help="See project:ID too.", rich_help_panel=_CALLER)] = None
    team_id: Annotated[str | None, typer.Option(help="See team:ID too.", rich_help_panel=_CALLER)] = None
    org_id: Annotated[str | None, typer.Option(help="See org:ID too.", rich_help_panel=_CALLER)] = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which records; each option may be given several times, and one of its values must hold."""

    types: Annotated[
        list[KnowledgeType], typer.Option("--type", help="Only of this type.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    scopes: Annotated[list[str], typer.Option("--scope", help="Only with this scope.", rich_help_panel=_FILTERS)] = (
        field(default_factory=list)
    )

    def values(self) -> dict[str, list[str]]:
        """Return what the HTTP API would take."""
        return {"types": [kind.value for kind in self.types], "scopes": self.scopes}


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of its dataclass parameters, which it receives filled in."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _options(groups[name])
        else:
            # By name only: an argument of typer's needs no place, and may have a default before one without.
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @functools.wraps(command)
    def filled(**values: Any) -> None:  # noqa: ANN401 -- whatever typer has parsed
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in dataclasses.fields(kind)})
        command(**values)

    filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it from here
    filled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return filled


def _options(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 -- a dataclass, as `spread` has checked
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=_default(one), annotation=hints[one.name])
        for one in dataclasses.fields(kind)
    ]


def _default(one: "dataclasses.Field[Any]") -> Any:  # noqa: ANN401 -- any field's default
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory()
    return inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
