"""Makes commands of functions: their parameters are the options, their docstrings the help."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, get_type_hints

import typer

from knowhub.cli.hub_access import run_routes
from knowhub.cli.options import CallerOptions, CommonOptions
from knowhub.cli.output import print_answer

Answer: TypeAlias = Mapping[str, Any]
"""What a route answers: a JSON object."""
Lines: TypeAlias = Iterator[Any]
"""What a command prints: lines, and tables of rich."""


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to `app` as a command: each parameter, and each field of a dataclass parameter, is an option."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name)(_expand_options(function))
        return function

    return declare


def route_command(
    app: typer.Typer,
    name: str,
    route: str,
    *,
    common: type[CommonOptions] = CallerOptions,
    creates: Callable[[Answer], bool] = lambda _: False,
    then: str | None = None,
) -> Callable[[Callable[..., Lines]], Callable[..., Lines]]:
    """Add a command that does what a route of the HTTP API does, and prints what a function yields of the answer.

    `route` is the module of the route and its function, such as `knowledge.save_knowledge`. The first parameter of the
    function is the answer; with `then`, a route about the keyword in the answer, the second is the answer of that. The
    others are the options, by the names of the fields of the request. A dataclass holds several; where it has
    `values()`, these are sent. `creates` returns whether the command may create the data directory for this request.
    """

    def declare(show: Callable[..., Lines]) -> Callable[..., Lines]:
        def run(ctx: typer.Context, options: CommonOptions, **given: Any) -> None:  # noqa: ANN401 -- what typer has parsed
            sent = dict(_list_values(given))
            names = {item.name: _get_typed_name(item) for item in ctx.command.params}
            answers = run_routes(options, route, sent, create=creates(sent), then=then, option_names=names)
            print_answer(answers[0], show(*answers, **given), as_json=options.as_json)

        hints = get_type_hints(show, include_extras=True)
        taken = list(inspect.signature(show).parameters.values())[1 if then is None else 2 :]
        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(field.replace(annotation=hints[field.name]) for field in taken),
            inspect.Parameter("options", inspect.Parameter.KEYWORD_ONLY, annotation=common),
        ]
        _set_parameters(run, parameters)
        run.__doc__ = show.__doc__
        app.command(name)(_expand_options(run))
        return show

    return declare


def _list_values(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if not dataclasses.is_dataclass(value):
            yield name, value
        elif hasattr(value, "values"):
            yield from value.values().items()
        else:
            yield from dataclasses.asdict(value).items()  # type: ignore[arg-type]  # an object, not a class


def _get_typed_name(parameter: Any) -> str:  # noqa: ANN401 -- a parameter of click, which typer vendors
    """Return how a person types an option, or what the help calls an argument."""
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name).strip("[].").upper()


def _expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass parameter of a command by one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    def call(**values: Any) -> None:  # noqa: ANN401 -- the values that typer has parsed
        for name, kind in groups.items():
            values[name] = kind(**{item.name: values.pop(item.name) for item in dataclasses.fields(kind)})
        command(**values)

    _set_parameters(call, parameters)
    call.__doc__ = command.__doc__
    return call


def _set_parameters(function: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> None:
    """Set the parameters that typer reads."""
    # Keyword-only: then a parameter with a default may come before a parameter without one.
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    function.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # inspect reads it
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _parameters_of(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 -- a dataclass, as `_expand_options` checks
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if item.default is dataclasses.MISSING else item.default,
            annotation=hints[item.name],
        )
        for item in dataclasses.fields(kind)
    ]
