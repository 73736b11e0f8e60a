"""`knowhub replay`: recorded decisions of a model, asked again."""

import codecs
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import use_hub
from knowhub.cli.options import Place, spread
from knowhub.core.chat import ChatModel
from knowhub.core.errors import Unavailable
from knowhub.core.request_context import DEFAULT_ACCOUNT
from knowhub.keywords import replay as keyword_replay
from knowhub.keywords.replay import Difference, Recorded
from knowhub.knowledge import replaying, routing
from knowhub.settings import Settings
from knowhub.wiring.language_model import chat_model

_FUNCTIONS = {**keyword_replay.FUNCTIONS, **routing.REPLAYED, **replaying.REPLAYED}


@spread
def replay(
    place: Place,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Which model. Else KNOWHUB_LLM_MODEL.")] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the answers from these JSON lines and ask no model.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many calls, the newest.")] = 100,
    function: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls such as pick_branch.")] = None,
) -> None:
    """Ask a model again what was asked before, and show what it would decide otherwise. Nothing is written."""
    if model is not None and script is not None:
        raise typer.BadParameter("--script: takes the place of a model; leave --model away")

    if function is not None and function not in _FUNCTIONS:
        raise typer.BadParameter(f"--function: must be one of {', '.join(_FUNCTIONS)}")
    lines = None if script is None else _lines(script)

    async def work(hub: Hub) -> tuple[str, list[Difference]]:
        calls = await _recorded(hub, limit, function)
        async with _asked(hub.settings, model, lines) as chat:
            answers = keyword_replay.replay(calls, chat, hub.settings.llm_timeout_s, _FUNCTIONS)
            return chat.model, [difference async for difference in answers]

    name, differences = use_hub(place, work)
    if place.as_json:
        output.print_json(_answer(name, differences))
        return
    for difference in differences:
        if not difference.same:
            _print_difference(difference)
    output.say(_summary(name, differences))


def _lines(script: Path) -> list[str]:
    """Return the lines of a script; ends with 2 where it is no text. Raises OSError."""
    # As editors on Windows begin a text. Within JSON text, other separators of lines are ordinary characters.
    lines = script.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    try:
        return [line.decode() for line in lines]
    except UnicodeDecodeError as problem:
        raise typer.BadParameter(f"--script: is no text in UTF-8: {problem}") from problem


async def _recorded(hub: Hub, limit: int, function: str | None) -> Sequence[Recorded]:
    """Return the newest `limit` calls, the oldest of them first."""
    found: deque[Recorded] = deque()
    async for operation in hub.store.operations(DEFAULT_ACCOUNT):
        recorded = keyword_replay.recorded_calls([operation], _FUNCTIONS)
        calls = [one for one in recorded if function in {None, one.function}]
        found.extendleft(islice(reversed(calls), limit - len(found)))
        if len(found) == limit:
            break
    return found


@asynccontextmanager
async def _asked(settings: Settings, model: str | None, lines: Sequence[str] | None) -> AsyncIterator[ChatModel]:
    if lines is not None:
        yield keyword_replay.ScriptedModel(lines)
        return
    # A breaker would leave out the calls behind five that failed, and the summary would count them as differences.
    async with chat_model(settings, model=model, has_breaker=False) as chat:
        if chat is None:
            raise Unavailable("there is no model to ask: set KNOWHUB_LLM_BASE_URL, or give answers with --script")
        yield chat


def _answer(name: str, differences: Sequence[Difference]) -> dict[str, Any]:
    return {
        "model": name,
        "results": [{**asdict(one), "names": _named(one)} for one in differences],
        "count": len(differences),
        "same": sum(one.same for one in differences),
        "not_asked": sum(not one.was_asked for one in differences),
        "tokens": _tokens(differences),
        "seconds": round(sum(one.seconds for one in differences), 3),
    }


def _named(difference: Difference) -> dict[str, str]:
    """Return the names of what was decided, of all that was shown."""
    decided = _ids({"was": difference.was, "now": difference.now})
    return {one: name for one, name in difference.names.items() if one in decided}


def _ids(decision: Any) -> set[str]:  # noqa: ANN401 -- any JSON value
    match decision:
        case Mapping():
            return {one for value in decision.values() for one in _ids(value)}
        case list() | tuple():
            return {one for value in decision for one in _ids(value)}
        case _:
            return {str(decision)}


def _print_difference(difference: Difference) -> None:
    output.say(f"{difference.function}  {difference.asked}  (operation {difference.operation_id})")
    output.say(f"  was  {_told(difference.was, difference.names)}")
    now = _told(difference.now, difference.names) if difference.was_asked else "not asked"
    output.say(f"  now  {now}")
    if difference.detail:
        output.say(f"       {output.one_line(difference.detail)}")
    if difference.was_text or difference.now_text:
        output.say(f"  was text  {output.one_line(difference.was_text)}")
        output.say(f"  now text  {output.one_line(difference.now_text)}")


def _told(decision: Any, names: Mapping[str, str]) -> str:  # noqa: ANN401 -- any JSON value
    """Say a decision with names in place of ids."""
    match decision:
        case Mapping():
            return ", ".join(f"{name} {_told(value, names)}" for name, value in decision.items())
        case list() | tuple():
            return "[" + ", ".join(_told(value, names) for value in decision) + "]"
        case None:
            return "none"
        case _:
            return names.get(str(decision), str(decision))


def _summary(name: str, differences: Sequence[Difference]) -> str:
    tokens = _tokens(differences)
    counted = "tokens not counted" if tokens is None else f"{tokens} tokens"
    seconds = sum(one.seconds for one in differences)
    same, asked = sum(one.same for one in differences), sum(one.was_asked for one in differences)
    left_out = "" if asked == len(differences) else f"; {len(differences) - asked} were not asked"
    return f"{name} decides the same in {same} of {asked} calls{left_out}; {counted}, {seconds:.1f} s"


def _tokens(differences: Sequence[Difference]) -> int | None:
    counted = [one.tokens for one in differences if one.tokens is not None]
    return sum(counted) if counted else None
