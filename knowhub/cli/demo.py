"""`knowhub demo`: the example records, ten questions in two languages, feedback, undo, and a server to try."""

import asyncio
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub, open_hub
from knowhub.cli import output
from knowhub.cli.hub_access import settings_of
from knowhub.cli.options import Place, spread
from knowhub.cli.serve import listen, run_server
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.request_context import RequestContext, caller_context, local_context
from knowhub.knowledge.model import Found, OnConflict, SearchQuery, Vote
from knowhub.settings import Settings

_SHOWN = 3
# Several records are about it, so that evidence decides which one leads.
_JUDGED = "验签"
_TASK_CHARS = 60


@spread
def demo(
    place: Place,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one. Else KNOWHUB_PORT.")] = None,
    serve: Annotated[bool, typer.Option(help="Leave a server running on the records.")] = True,
) -> None:
    """Load the examples into a fresh directory, ask ten questions, give feedback, undo it, and serve."""
    folder = _fresh_folder(place.data_dir)
    settings = settings_of(Place(folder, place.as_json), port=port)
    listening = listen(settings) if serve else None
    told = asyncio.run(_tell(settings, as_json=place.as_json))
    if place.as_json:
        output.print_json(told)
    if listening is not None:
        run_server(settings, listening, as_json=place.as_json)
    elif not place.as_json:
        output.say(f"\nlook on with: knowhub serve --data-dir {folder}")


def _fresh_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="knowhub-demo-"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not an empty folder; the demo takes only a fresh one")
    return folder


def _example(name: str) -> bytes:
    """Return an example file: from the package where it is installed, from the repository in a checkout."""
    places: list[Traversable] = [
        resources.files("knowhub.cli") / "examples" / name,
        Path(__file__).parents[2] / "examples" / name,
    ]
    for place in places:
        if place.is_file():
            return place.read_bytes()
    raise NotFound(f"the example file {name} is not part of this installation")


async def _tell(settings: Settings, *, as_json: bool) -> dict[str, Any]:
    from knowhub.web.routes.exchange import parse_lines

    lines = parse_lines(_example("knowledge.jsonl"), settings.max_json_depth)
    questions = orjson.loads(_example("questions.json"))
    async with open_hub(settings) as hub:
        done = await hub.exchange.import_lines(local_context(hub.default_owner), lines, OnConflict.FAIL)
        if not as_json:
            output.say(f"imported {done.imported} records in Chinese and English into {settings.data_dir}\n")
        answers = [await _ask(hub, question) for question in questions]
        found = sum(answer["place"] is not None for answer in answers)
        judged = await _judge(hub)
        if not as_json:
            for answer in answers:
                _print_answer(answer)
            output.say(f"{found} of {len(answers)} expected records are among the first {_SHOWN}\n")
            _print_judged(judged)
    return {"data_dir": str(settings.data_dir), "imported": done.imported, "questions": answers, "feedback": judged}


async def _ask(hub: Hub, question: dict[str, Any]) -> dict[str, Any]:
    found = await _search(hub, _context(hub, question["context"]), question["q"])
    ids = [record["id"] for record in found.records]
    expected = question["expect"]
    return {
        **question,
        "place": ids.index(expected) + 1 if expected in ids else None,
        "results": found.records,
        "filtered": (found.explanation or {})["filtered"],
    }


def _context(hub: Hub, ids: dict[str, str]) -> RequestContext:
    return caller_context(ids, hub.default_owner) if ids else local_context(hub.default_owner)


async def _search(hub: Hub, ctx: RequestContext, text: str) -> Found:
    return await hub.retrieval.search(ctx, SearchQuery(text, top_k=_SHOWN, explain=True))


async def _judge(hub: Hub) -> dict[str, Any]:
    """Report that the leading record did harm, often enough that the next one leads; then undo that."""
    ctx = local_context(hub.default_owner)
    before = await _search(hub, ctx, _JUDGED)
    leader, second = before.records[0], before.records[1]
    votes = int(leader["quality_score"] - second["quality_score"]) // 2 + 1
    case = {"task": "demo", "outcome": "refused", "reason": "out of date"}
    vote = Vote(leader["id"], is_helpful=False, case=case)
    _, operation_id = await hub.knowledge.give_feedback_batch(ctx, [vote] * votes)
    after = await _search(hub, ctx, _JUDGED)
    await hub.operations.undo(ctx, operation_id or "")
    undone = await _search(hub, ctx, _JUDGED)
    return {
        "q": _JUDGED,
        "voted_on": leader["id"],
        "harmful_votes": votes,
        "operation_id": operation_id,
        "before": _brief(before),
        "after": _brief(after),
        "undone": _brief(undone),
    }


def _brief(found: Found) -> list[dict[str, Any]]:
    return [{name: record[name] for name in ("id", "task", "quality_score")} for record in found.records]


def _print_answer(answer: dict[str, Any]) -> None:
    asker = ", ".join(f"{name.removesuffix('_id')} {value}" for name, value in answer["context"].items())
    table = output.table(
        "", "quality", "record", "why", title=f"{answer['q']}" + (f"   (asked by {asker})" if asker else "")
    )
    for record in answer["results"]:
        expected = record["id"] == answer["expect"]
        why = record["why"]
        words = " ".join(why["recall"]["matched"])
        table.add_row(
            output.cell("✓" if expected else "", "green"),
            output.cell(f"{record['quality_score']:g}"),
            output.cell(f"{record['task']}\n{record['id']}", "bold" if expected else ""),
            output.cell(f"{why['recall']['rank']}. by words: {words}\nseen by {why['scope']['seen_by']}"),
        )
    output.print_table(table)
    for dropped in answer["filtered"]:
        output.say(f"  left out: {dropped['id']} ({dropped['rule'].replace('_', ' ')})")
    output.say(f"  {answer['note']}\n")


def _print_judged(judged: dict[str, Any]) -> None:
    reports = f"harmful reports on {judged['voted_on']}: {judged['harmful_votes']}"
    table = output.table("", "before", reports, "after undo", title=f"feedback: {judged['q']}")
    for rank in range(_SHOWN):
        columns = [judged[name] for name in ("before", "after", "undone")]
        table.add_row(str(rank + 1), *(output.cell(_line(column, rank)) for column in columns))
    output.print_table(table)


def _line(column: list[dict[str, Any]], rank: int) -> str:
    if rank >= len(column):
        return ""
    record = column[rank]
    return f"{record['quality_score']:g}  {output.one_line(record['task'], _TASK_CHARS)}"
