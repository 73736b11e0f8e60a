"""`knowhub replay`: the recorded decisions of the language model, read from the log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hub_access import run_on_hub
from knowhub.cli.options import CommonOptions
from knowhub.core.request_context import DEFAULT_ACCOUNT

if TYPE_CHECKING:
    from knowhub.bootstrap import Hub
    from knowhub.core.operation import Row

_MAX_CHARS = 200
# Answers use these fields, and every field that ends with "id" or "ids", to name an item of the prompt by its index.
_REFERENCE_FIELDS = {"same", "same_as", "against"}

app = typer.Typer()


@command(app, "replay")
def replay(
    options: CommonOptions,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many decisions, the newest.")] = 100,
    function: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only decisions of this function, such as pick_branch.")
    ] = None,
) -> None:
    """Show what the language model was asked and what it decided.

    The oldest decision comes first. No model is asked, and nothing is written.
    """
    decisions = run_on_hub(options, lambda hub, _: _read_decisions(hub, limit, function))
    lines = [line for decision in decisions for line in _list_decision(decision)]
    answer = {"results": decisions, "count": len(decisions)}
    output.print_answer(answer, [*lines, f"decisions: {len(decisions)}"], as_json=options.as_json)


async def _read_decisions(hub: Hub, limit: int, function: str | None) -> list[dict[str, Any]]:
    """Return the newest `limit` decisions, the oldest of them first."""
    decisions: list[dict[str, Any]] = []
    async for operation in hub.store.operations(DEFAULT_ACCOUNT):
        calls = [call for call in operation.agent_io or () if function in {None, call.get("function")}]
        decisions += [_parse_call(call, operation.operation_id) for call in reversed(calls)]
        if len(decisions) >= limit:
            break
    return decisions[:limit][::-1]


def _parse_call(call: Row, operation_id: str) -> dict[str, Any]:
    """Return one call of a model, as the log has it.

    `question` is the subject of the call, in short. `decided` is the answer with ids in place of indexes, or None when
    the call failed; then `failure` says how. `names` has the names of these ids.
    """
    prompt = _parse_prompt(call.get("messages") or ())
    choices = call.get("choices") or {}
    decided = _resolve(call.get("output"), choices)
    used = json.dumps(decided, ensure_ascii=False)
    return {
        "operation_id": operation_id,
        "function": str(call.get("function")),
        "model": str(call.get("model")),
        "question": _find_subject(prompt),
        "decided": decided,
        "failure": call.get("failure"),
        "names": {row_id: name for row_id, name in _find_names(prompt, choices).items() if f'"{row_id}"' in used},
    }


def _resolve(value: Any, choices: Mapping[str, str], *, is_reference: bool = False) -> Any:  # noqa: ANN401 -- any JSON
    """Replace each index of the prompt by the id of its item."""
    match value:
        case Mapping():
            return {
                name: _resolve(
                    part, choices, is_reference=name in _REFERENCE_FIELDS or str(name).endswith(("id", "ids"))
                )
                for name, part in value.items()
            }
        case list() | tuple():
            return [_resolve(part, choices, is_reference=is_reference) for part in value]
        case int() | str() if is_reference:
            return choices.get(str(value), value)
        case _:
            return value


def _parse_prompt(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the JSON object in the last message; an empty one when there is none."""
    content = str(messages[-1].get("content", "")) if messages else ""
    try:
        data = json.loads(content[content.find("{") : content.rfind("}") + 1])
    except ValueError:
        return {}
    return data if isinstance(data, Mapping) else {}


def _find_subject(prompt: Mapping[str, Any]) -> str:
    text = prompt.get("query") or prompt.get("info") or prompt.get("feedback")
    new = prompt.get("new")
    if not text and isinstance(new, Mapping):
        text = new.get("name")
    elif not text:
        rows = _find_first_list(prompt, "records", "messages")
        text = next((row.get("name") or row.get("task") or row.get("text") for row in rows), "")
    return output.shorten(str(text or ""), _MAX_CHARS)


def _find_names(prompt: Mapping[str, Any], choices: Mapping[str, str]) -> dict[str, str]:
    # Keywords are shown with an index and a name; records with an id or an index, and a task or content.
    rows = _find_first_list(prompt, "candidates", "nodes", "records", "known")
    named = (
        (choices.get(str(row.get("idx")), row.get("id")), row.get("name") or row.get("task") or row.get("content"))
        for row in rows
    )
    return {str(row_id): output.shorten(str(name), _MAX_CHARS) for row_id, name in named if row_id is not None}


def _find_first_list(prompt: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the objects of the first of these lists that has any."""
    for name in names:
        value = prompt.get(name)
        rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
        if rows:
            return rows
    return []


def _list_decision(decision: Mapping[str, Any]) -> tuple[str, str]:
    what = f"{decision['function']}  {decision['question']}"
    failure = decision["failure"]
    done = f"failed  {failure}" if failure else f"decided  {_format(decision['decided'], decision['names'])}"
    return f"{what}  (model {decision['model']}, operation {decision['operation_id']})", f"  {done}"


def _format(value: Any, names: Mapping[str, str]) -> str:  # noqa: ANN401 -- any JSON
    match value:
        case Mapping():
            return ", ".join(f"{name} {_format(part, names)}" for name, part in value.items())
        case list():
            return "[" + ", ".join(_format(part, names) for part in value) + "]"
        case None:
            return "none"
        case _:
            return names.get(str(value), output.shorten(str(value), _MAX_CHARS))
