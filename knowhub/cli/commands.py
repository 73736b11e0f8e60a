"""Makes commands of functions: their parameters are the options, their docstrings the help."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, get_args

import typer
from typer.models import OptionInfo

from knowhub.cli.hub_access import run_routes
from knowhub.cli.options import CallerOptions, CommonOptions
from knowhub.cli.output import print_answer
from knowhub.core.errors import KnowHubError

Answer: TypeAlias = Mapping[str, Any]
"""What a route answers: a JSON object."""
Lines: TypeAlias = Iterator[Any]
"""What a command prints: lines, and tables of rich."""


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to `app` as a command: each parameter, and each field of a dataclass parameter, is an option."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        _add_command(app, name, function, _list_parameters(function))
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
            fields = dict(_list_values(given))
            names = {item.name: _get_typed_name(item) for item in ctx.command.params}
            answers = run_routes(options, route, fields, create=creates(fields), then=then, option_names=names)
            print_answer(answers[0], show(*answers, **given), as_json=options.as_json)

        taken = _list_parameters(show)[1 if then is None else 2 :]
        parameters = [_make_parameter("ctx", typer.Context), *taken, _make_parameter("options", common)]
        run.__doc__ = show.__doc__
        _add_command(app, name, run, parameters)
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


def _add_command(
    app: typer.Typer, name: str, function: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> None:
    """Add a function with these parameters as a command; a dataclass becomes one option for each of its fields."""
    groups: dict[str, Any] = {
        item.name: item.annotation for item in parameters if dataclasses.is_dataclass(item.annotation)
    }

    def call(**values: Any) -> None:  # noqa: ANN401 -- the values that typer has parsed
        for group, kind in groups.items():
            values[group] = kind(**{item.name: values.pop(item.name) for item in dataclasses.fields(kind)})
        try:
            function(**values)
        except KnowHubError as error:
            error.detail = name_options(error.detail, option_names)
            raise

    options = [
        option
        for item in parameters
        for option in (_list_parameters(groups[item.name]) if item.name in groups else [item])
    ]
    option_names = {item.name: typed for item in options if (typed := _get_option(item)) is not None}
    # What typer reads.
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # inspect reads it
    call.__annotations__ = {option.name: option.annotation for option in options}
    call.__doc__ = function.__doc__
    app.command(name)(call)


def name_options(detail: str, option_names: Mapping[str, str]) -> str:
    """Return a refusal with the options of a command in the place of the fields of the HTTP API that it names."""
    for name, option in option_names.items():
        detail = detail.replace(f" send {name}", f" add {option}")
        detail = detail.replace(f" {name}=true", f" {option}").replace(f" {name}=", f" {option} ")
    return detail


def _get_option(parameter: inspect.Parameter) -> str | None:
    """Return how a person types an option; None for an argument and for the context."""
    found = next((item for item in get_args(parameter.annotation) if isinstance(item, OptionInfo)), None)
    if found is None:
        return None
    declared = (item.partition("/")[0] for item in found.param_decls or ())
    return next((item for item in declared if item.startswith("--")), f"--{parameter.name.replace('_', '-')}")


def _list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function or a dataclass, by keyword: a default may come before none."""
    signature = inspect.signature(function, eval_str=True)
    return [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in signature.parameters.values()]


def _make_parameter(name: str, kind: type) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
