"""Opening the hub for one command, beside a running server or without one, and parsing what was typed for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from knowhub.bootstrap import Hub, open_hub
from knowhub.cli.options import Caller, Place
from knowhub.core.errors import NotFound
from knowhub.settings import Settings
from knowhub.web.schemas.parts import CallerIds

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

# The fields whose option bears another name.
_OPTIONS = {
    "q": "QUERY",
    "types": "--type",
    "scopes": "--scope",
    "tags": "--tag",
    "resource_ids": "--resource",
    "source": "--url",
}


def settings_of(place: Place, **given: object) -> Settings:
    """Return the settings of the environment with what was typed over them. Ends with 2 when they are wrong."""
    typed: dict[str, Any] = {"data_dir": place.data_dir, **given}
    try:
        return Settings(**{name: value for name, value in typed.items() if value is not None})
    except ValidationError as problem:
        wrong = "; ".join(f"{_setting(one['loc'])}: {_message(one)}" for one in problem.errors())
        raise typer.BadParameter(f"the settings are wrong: {wrong}") from problem


def use_hub(place: Place, work: Callable[[Hub], Awaitable[T]], *, make: bool = False) -> T:
    """Open the hub, run `work` on it and close it; without `make` the data directory must be there already.

    Raises NotFound when it is not, what `open_hub` raises, and what `work` raises.
    """
    settings = settings_of(place)
    if not make and not (settings.data_dir / "change_log").is_dir():
        raise NotFound(
            f"there are no records at {settings.data_dir}; name the data directory with --data-dir or KNOWHUB_DATA_DIR"
        )

    async def opened() -> T:
        async with open_hub(settings, keep=False) as hub:
            return await work(hub)

    return asyncio.run(opened())


def checked(model: type[ModelT], values: Mapping[str, Any], arguments: Mapping[str, str] | None = None) -> ModelT:
    """Parse what was typed as the HTTP API would. Ends with 2, naming the option, when it is wrong.

    `arguments` names the fields that are arguments of the command, and those whose option has another name.
    """
    try:
        return model.model_validate({name: value for name, value in values.items() if value not in (None, [], {})})
    except ValidationError as problem:
        names = {**_OPTIONS, **(arguments or {})}
        wrong = "; ".join(f"{_option(one['loc'], names)}{_message(one)}" for one in problem.errors())
        raise typer.BadParameter(wrong) from problem


def ids_of(caller: Caller) -> CallerIds:
    """Parse who is asking. Ends with 2 when an id is none."""
    return checked(CallerIds, asdict(caller))


def tags_of(typed: Sequence[str], option: str = "--tag") -> dict[str, str | list[str]]:
    """Parse `name=value` pairs; a name that comes again has several values. Ends with 2 on anything else."""
    tags: dict[str, str | list[str]] = {}
    for pair in typed:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{option}: {pair!r} is not NAME=VALUE")
        known = tags.get(name)
        tags[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return tags


def _option(location: tuple[int | str, ...], names: Mapping[str, str]) -> str:
    if not location:
        return ""
    name = str(location[0])
    # Within what is structured, the place says more than the option does.
    inner = f"{'.'.join(map(str, location))}: " if len(location) > 2 else ""  # noqa: PLR2004 -- more than an item of a list
    return f"{names.get(name, '--' + name.replace('_', '-'))}: {inner}"


def _setting(location: tuple[int | str, ...]) -> str:
    return f"KNOWHUB_{str(location[0]).upper()}" if location else "KNOWHUB_*"


def _message(error: Any) -> str:  # noqa: ANN401 -- pydantic's own dictionary
    return str(error["msg"]).removeprefix("Value error, ")
