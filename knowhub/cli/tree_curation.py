"""`knowhub tree metrics` and `reorganize`: how healthy the tree is, and a plan to tidy it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import ids_of, use_hub
from knowhub.cli.keyword_names import keyword_id
from knowhub.cli.options import Caller, Place, spread
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import Written

_REASON_CHARS = 60
_CHILDREN_SHOWN = 5


@spread
def metrics(caller: Caller, place: Place) -> None:
    """Count orphans, missing descriptions, depths, children and double names."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> dict[str, Any]:
        return dict(await hub.curator.metrics(ids.context(hub.default_owner)))

    figures = use_hub(place, work)
    if place.as_json:
        output.print_json(figures)
        return
    table = output.table("", "")
    for name, value in _figures(figures):
        table.add_row(output.cell(name), output.cell(value))
    output.print_table(table)


@spread
def reorganize(
    caller: Caller,
    place: Place,
    keyword: Annotated[
        str | None, typer.Argument(metavar="[KEYWORD]", help="Only it and what is below it.", show_default=False)
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Take this plan, as --out wrote it, perhaps edited.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plan there too.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Carry out the plan that is shown.")] = False,
) -> None:
    """Show a plan of moves, merges, descriptions and splits; with --apply carry it out, as one operation."""
    if keyword is not None and plan_file is not None:
        raise typer.BadParameter("--plan: the plan says which part of the tree it is for; leave KEYWORD away")
    ids = ids_of(caller)
    read = None if plan_file is None else _read_plan(plan_file)

    async def work(hub: Hub) -> tuple[dict[str, Any], Written | None]:
        ctx = ids.context(hub.default_owner)
        plan = read if read is not None else await _proposed(hub, ctx, keyword)
        if out is not None:
            out.write_bytes(orjson.dumps(plan, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        if not place.as_json:
            # Shown first: where it is refused, the reader sees what was.
            _print_plan(plan)
        return plan, await hub.curator.apply(ctx, plan) if apply else None

    plan, done = use_hub(place, work)
    if place.as_json:
        output.print_json(plan if done is None else {**done.row, "operation_id": done.operation_id})
    elif done is not None:
        _print_done(done)


def _read_plan(file: Path) -> dict[str, Any]:
    try:
        plan = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as problem:
        raise InvalidInput(f"{file} is not JSON: {problem}") from problem
    if not isinstance(plan, dict) or not isinstance(plan.get("steps"), list):
        raise InvalidInput(f"{file} is not a plan: it must be an object with a list `steps`")
    return plan


async def _proposed(hub: Hub, ctx: RequestContext, keyword: str | None) -> dict[str, Any]:
    scope_id = None if keyword is None else await keyword_id(hub, ctx, keyword)
    return dict(await hub.curator.reorganize(ctx, scope_id))


def _print_plan(plan: Mapping[str, Any]) -> None:
    if plan.get("summary"):
        output.say(str(plan["summary"]))
    if "llm" in plan.get("degraded", ()):
        output.say("the model was needed and failed: these steps are found by rules alone")
    steps = [step for step in plan["steps"] if isinstance(step, dict)]
    if steps:
        table = output.table("", "step", "keyword", "what", "why")
        for number, step in enumerate(steps, 1):
            why = output.one_line(str(step.get("reason", "")), _REASON_CHARS)
            table.add_row(*map(output.cell, (number, step.get("kind", "?"), *_subject(step), why)))
        output.print_table(table)
    missing = plan.get("missing_description_count", 0)
    if missing:
        output.say(f"without a description: {missing}")


def _subject(step: Mapping[str, Any]) -> tuple[str, str]:
    """Return which keyword a step is about and what becomes of it; what is no step is refused when it is applied."""
    match step:
        case {"kind": "move", "node": node, "to": to}:
            return _place(node), f"below {_place(to)}"
        case {"kind": "merge", "source": source, "into": into}:
            return _place(source), f"into {_place(into)}"
        case {"kind": "describe", "node": node, "description": description}:
            return _place(node), output.one_line(str(description))
        case {"kind": "split", "node": node, "groups": [*groups]}:
            return _place(node), "\n".join(_group(group) for group in groups)
        case _:
            return "", ""


def _group(group: object) -> str:
    if not isinstance(group, dict) or not isinstance(group.get("children"), list):
        return ""
    names = [str(child.get("name", "")) for child in group["children"] if isinstance(child, dict)]
    more = ", …" if len(names) > _CHILDREN_SHOWN else ""
    return f"{group.get('name')}: {', '.join(names[:_CHILDREN_SHOWN])}{more}"


def _place(ref: object) -> str:
    return str(ref.get("path") or ref.get("name") or ref.get("id")) if isinstance(ref, dict) else ""


def _print_done(done: Written) -> None:
    counts = ", ".join(f"{done.row[name]} {name}" for name in ("moved", "merged", "described", "split"))
    output.say(f"done: {counts}; keywords made: {len(done.row['created'])}")
    output.say_undo(done.operation_id)


def _figures(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    missing, fan_out = figures["missing_descriptions"], figures["fan_out"]
    yield "keywords", f"{figures['nodes']}, of them {figures['leaves']} without children"
    yield "links of infos", str(figures["links"])
    yield "depth", ", ".join(f"{count} on level {level}" for level, count in figures["depths"].items())
    yield "too deep", _named(figures["deep_count"], (one["name"] for one in figures["deep"]))
    yield "orphans", _named(figures["orphan_count"], figures["orphans"])
    yield "without a description", f"{missing['count']} ({missing['rate']:.1%})"
    yield "children", f"{fan_out['mean']} on average, {fan_out['max']} at most, half have {fan_out['p50']} or fewer"
    yield "widest", ", ".join(f"{one['name']} {one['children']}" for one in fan_out["widest"])
    yield "the same name or alias", _named(figures["duplicate_count"], (one["token"] for one in figures["duplicates"]))


def _named(count: int, names: Any) -> str:  # noqa: ANN401 -- an iterable of names
    shown = list(names)[:_CHILDREN_SHOWN]
    return f"{count}: {', '.join(shown)}" if count else "0"
