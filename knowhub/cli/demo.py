"""`knowhub demo`: example records, ten questions in two languages, an agent that learns, undo, and a running server."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command
from knowhub.cli.hub_access import load_settings
from knowhub.cli.options import CommonOptions
from knowhub.cli.records import list_found
from knowhub.cli.serve import bind_socket, run_server
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.request_context import RequestContext, caller_context, local_context
from knowhub.knowledge.impressions import ImpressionScope
from knowhub.knowledge.model import NewKnowledge, OnConflict, SearchQuery
from knowhub.knowledge.outcomes import GoalOutcome, OutcomeKind

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from knowhub.bootstrap import Hub
    from knowhub.knowledge.model import KnowledgeSearchResult
    from knowhub.settings import Settings

_TOP_K = 3
# The goal of an agent. Several records are about it, and the first one does not help with its file.
_GOAL = "pandas 读取 CSV 中文乱码"
_LESSON = "从支付宝下载的 CSV 账单:前几行是说明,用 read_csv(path, encoding='gb18030', skiprows=24) 跳过,中文不乱码。"
_TASK_CHARS = 60

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class DemoOptions(CommonOptions):
    """The directory of the examples, which are not to come among the caller's own records."""

    data_dir: Annotated[
        Path | None, typer.Option(help="An empty or new directory, kept. Default: a temporary one, removed at the end.")
    ] = None


@command(app, "demo")
def demo(
    options: DemoOptions,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 takes a free port. Default: KNOWHUB_PORT.")
    ] = None,
    serve: Annotated[bool, typer.Option(help="Leave a server running.")] = True,
) -> None:
    """Load examples into a directory of their own, ask ten questions, and serve.

    An agent then works on a goal twice. Its second run is shown what the first one learned. That is undone at the end.
    """
    import asyncio

    with ExitStack() as stack:
        folder = _make_folder(options.data_dir, stack)
        settings = load_settings(CommonOptions(folder, options.as_json), port=port)
        listening = bind_socket(settings) if serve else None
        report = asyncio.run(_run_demo(settings))
        output.print_answer(report, _list_report(report), as_json=options.as_json)
        if listening is not None:
            run_server(settings, listening, as_json=options.as_json)
        elif options.data_dir is not None and not options.as_json:
            output.say(f"\nstart a server on these records with: knowhub serve --data-dir {folder}")


def _make_folder(folder: Path | None, stack: ExitStack) -> Path:
    if folder is None:
        import tempfile

        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knowhub-demo-")))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not an empty folder; the demo needs an empty or a new one")
    return folder


async def _run_demo(settings: Settings) -> dict[str, Any]:
    import orjson

    from knowhub.bootstrap import open_hub
    from knowhub.web.json_limits import make_json_limits
    from knowhub.web.schemas.exchange import parse_import

    lines = parse_import(_read_example("knowledge.jsonl"), make_json_limits(settings))
    questions = orjson.loads(_read_example("questions.json"))
    async with open_hub(settings) as hub:
        result = await hub.knowledge.exchange.import_lines(local_context(hub.default_owner), lines, OnConflict.FAIL)
        answers = [await _answer(hub, question) for question in questions]
        learning = await _run_agent(hub)
    return {"data_dir": str(settings.data_dir), "imported": result.imported, "questions": answers, "feedback": learning}


def _list_report(report: Answer) -> Lines:
    yield f"imported {report['imported']} records in Chinese and English into {report['data_dir']}\n"
    for answer in report["questions"]:
        yield from _list_answer(answer)
    found = [answer for answer in report["questions"] if answer["place"] is not None]
    yield f"{len(found)} of {len(report['questions'])} expected records are among the first {_TOP_K}\n"
    learning = report["feedback"]
    columns = [learning[name] for name in ("before", "after", "undone")]
    tasks = [[output.shorten(record["task"], _TASK_CHARS) for record in column] for column in columns]
    rows = [(rank, *row) for rank, row in enumerate(zip_longest(*tasks, fillvalue=""), 1)]
    headings = ("", "first run", "second run", "after undo")
    yield output.make_table(headings, rows, f"an agent that learns: {learning['q']}")
    yield f"  the first run said that {learning['misled_by']} was wrong, and saved {learning['learned']}"


def _read_example(name: str) -> bytes:
    """Return an example file, from the installed package or from a checkout of the repository."""
    from importlib import resources

    paths: list[Traversable] = [
        resources.files("knowhub.cli") / "examples" / name,
        Path(__file__).parents[2] / "examples" / name,
    ]
    for path in paths:
        if path.is_file():
            return path.read_bytes()
    raise NotFound(f"the example file {name} is not part of this installation")


async def _answer(hub: Hub, question: dict[str, Any]) -> dict[str, Any]:
    from knowhub.knowledge.search.filters import BELOW_FLOOR

    caller = question["context"]
    owner = hub.default_owner
    found = await _search(hub, caller_context(caller, owner) if caller else local_context(owner), question["q"])
    ids = [record["id"] for record in found.records]
    expected = question["expect"]
    return {
        **question,
        "place": ids.index(expected) + 1 if expected in ids else None,
        "results": found.records,
        "filtered": [item for item in (found.explanation or {})["filtered"] if item["rule"] != BELOW_FLOOR],
    }


async def _run_agent(hub: Hub) -> dict[str, Any]:
    """Run an agent twice. The first record fails it, and it saves what worked. Then undo both."""
    ctx = local_context(hub.default_owner)
    before = await _search(hub, ctx, _GOAL, "run-1")
    misled_by = before.records[0]["id"]
    case = {"task": _GOAL, "outcome": "ParserError", "reason": "the file begins with lines of text"}
    first = GoalOutcome(ImpressionScope("run-1", _GOAL), OutcomeKind.FAILURE, case, wrong=[misled_by])
    _, failed_id = await hub.knowledge.outcomes.report(ctx, first)
    lesson = await hub.knowledge.records.save(ctx, NewKnowledge(_GOAL, _LESSON, types=["tool"]))
    after = await _search(hub, ctx, _GOAL, "run-2")
    for operation_id in (lesson.operation_id, failed_id):
        await hub.operations.log.undo(ctx, operation_id or "")
    undone = await _search(hub, ctx, _GOAL)
    return {
        "q": _GOAL,
        "misled_by": misled_by,
        "learned": lesson.record["id"],
        "before": _summarize(before),
        "after": _summarize(after),
        "undone": _summarize(undone),
    }


async def _search(hub: Hub, ctx: RequestContext, query: str, run: str | None = None) -> KnowledgeSearchResult:
    goal_id = query if run else None
    return await hub.knowledge.search.search(
        ctx, SearchQuery(query, top_k=_TOP_K, explain=True, session_id=run, goal_id=goal_id)
    )


def _summarize(found: KnowledgeSearchResult) -> list[dict[str, Any]]:
    return [{name: record[name] for name in ("id", "task")} for record in found.records]


def _list_answer(answer: Answer) -> Lines:
    caller = ", ".join(f"{name.removesuffix('_id')} {value}" for name, value in answer["context"].items())
    yield ("✓  " if answer["place"] else "   ") + answer["q"] + (f"   (asked by {caller})" if caller else "")
    yield from list_found(answer["results"], answer["filtered"])
    yield f"  {answer['note']}\n"
