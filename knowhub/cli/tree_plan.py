"""`knowhub tree metrics` and `reorganize`: measure the tree, and make or apply a plan to tidy it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import run_routes
from knowhub.cli.options import CallerOptions
from knowhub.core.errors import InvalidInput

app = typer.Typer()

_REASON_CHARS = 60
_MAX_NAMES = 5


@route_command(app, "metrics", "keywords.tree_metrics")
def metrics(figures: Answer) -> Lines:
    """Count orphans, missing descriptions, depths, children and duplicate names."""
    return output.list_fields(figures)


@command(app, "reorganize")
def reorganize(
    options: CallerOptions,
    keyword: Annotated[
        str | None,
        typer.Argument(metavar="[KEYWORD]", help="Only this keyword and those below it.", show_default=False),
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Use this plan, which --out wrote. It may be edited.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the plan to this file.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the plan that is shown.")] = False,
) -> None:
    """Show a plan of moves, merges, descriptions and splits. --apply applies it as one operation."""
    import orjson

    if keyword is not None and plan_file is not None:
        raise typer.BadParameter("--plan: cannot be used with KEYWORD; the plan names its part of the tree")
    if plan_file is None:
        [plan] = run_routes(options, "keywords.reorganize_keywords", {"scope_id": keyword})
    else:
        plan = _read_plan(plan_file)
    if out is not None:
        out.write_bytes(orjson.dumps(plan, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    if not options.as_json:
        # Print first: if the plan is refused, the reader sees which plan it was.
        output.print_answer(plan, _list_plan(plan), as_json=False)
    if apply:
        [done] = run_routes(options, "keywords.apply_plan", {"plan": plan})
        counts = ", ".join(f"{done[name]} {name}" for name in ("moved", "merged", "described", "split"))
        lines = [f"done: {counts}; new keywords: {len(done['created'])}", *output.list_undo(done["operation_id"])]
        output.print_answer(done, lines, as_json=options.as_json)
    elif options.as_json:
        output.print_json(plan)


def _read_plan(file: Path) -> dict[str, Any]:
    import orjson

    try:
        plan = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{file} is not JSON: {error}") from error
    if not isinstance(plan, dict) or not isinstance(plan.get("steps"), list):
        raise InvalidInput(f"{file} is not a plan: it must be an object with a list `steps`")
    return plan


def _list_plan(plan: Mapping[str, Any]) -> Lines:
    if plan.get("summary"):
        yield str(plan["summary"])
    if "llm" in plan.get("degraded", ()):
        yield "the model failed: these steps come from rules alone"
    steps = [step for step in plan["steps"] if isinstance(step, dict)]
    if steps:
        rows = [
            (
                number,
                step.get("kind", "?"),
                *_describe_step(step),
                output.shorten(str(step.get("reason", "")), _REASON_CHARS),
            )
            for number, step in enumerate(steps, 1)
        ]
        yield output.make_table(("", "step", "keyword", "what", "why"), rows)
    if missing := plan.get("missing_description_count", 0):
        yield f"without a description: {missing}"


def _describe_step(step: Mapping[str, Any]) -> tuple[str, str]:
    """Return the keyword of a step and its change. An invalid step is empty here; applying it is refused."""
    match step:
        case {"kind": "move", "node": node, "to": to}:
            return _name_keyword(node), f"below {_name_keyword(to)}"
        case {"kind": "merge", "source": source, "into": into}:
            return _name_keyword(source), f"into {_name_keyword(into)}"
        case {"kind": "describe", "node": node, "description": description}:
            return _name_keyword(node), output.shorten(str(description))
        case {"kind": "split", "node": node, "groups": [*groups]}:
            return _name_keyword(node), "\n".join(_describe_group(group) for group in groups)
        case _:
            return "", ""


def _describe_group(group: object) -> str:
    if not isinstance(group, dict) or not isinstance(group.get("children"), list):
        return ""
    names = [str(child.get("name", "")) for child in group["children"] if isinstance(child, dict)]
    more = ", …" if len(names) > _MAX_NAMES else ""
    return f"{group.get('name')}: {', '.join(names[:_MAX_NAMES])}{more}"


def _name_keyword(reference: object) -> str:
    if not isinstance(reference, dict):
        return ""
    return str(reference.get("path") or reference.get("name") or reference.get("id"))
