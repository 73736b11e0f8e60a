"""Saving, finding and judging records: the verbs of the HTTP API, in this process."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, tags_of, use_hub
from knowhub.cli.inputs import Asked, Draft, Evidence, Listed
from knowhub.cli.options import Caller, Filters, Place, spread
from knowhub.core.row_paths import differences
from knowhub.knowledge.evolution import Evolved
from knowhub.knowledge.heads import facet
from knowhub.knowledge.model import COLLECTION, Found, ListQuery, Page, Saved, Stored
from knowhub.operations.model import UndoResult
from knowhub.web.schemas.knowledge import ListParams, SearchParams

Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


@spread
def save(draft: Draft, caller: Caller, place: Place) -> None:
    """Save what was learnt, and print its id. What is there already is not saved twice."""
    body, ids = draft.body(), ids_of(caller)

    async def work(hub: Hub) -> tuple[Saved, list[str]]:
        ctx = ids.context(hub.default_owner)
        made = await hub.knowledge.save(ctx, body.to_new())
        return made, hub.resources.missing(ctx, made.record["resource_ids"])

    saved, missing = use_hub(place, work, make=True)
    _print_saved(saved, "there already" if saved.duplicate_of else "saved", place)
    if missing:
        output.warn(f"it refers to resources that are not there: {', '.join(missing)}")


@spread
def search(
    query: Annotated[str, typer.Argument(show_default=False)],
    asked: Asked,
    filters: Filters,
    caller: Caller,
    place: Place,
) -> None:
    """Find what is known about QUERY, the best first."""
    params = checked(SearchParams, {"q": query, **asdict(asked), **filters.values(), **asdict(caller)})

    async def work(hub: Hub) -> Found:
        return await hub.retrieval.search(params.context(hub.default_owner), params.query())

    found = use_hub(place, work)
    if place.as_json:
        output.print_json(_found_answer(found))
    else:
        _print_found(found)


@spread
def list_records(listed: Listed, filters: Filters, caller: Caller, place: Place) -> None:
    """List records, the newest first."""
    values = {"owner": listed.owner, "limit": listed.limit, "cursor": listed.cursor}
    params = checked(ListParams, {**values, **filters.values(), **asdict(caller)})
    groups = _filters_of(params, tags_of(listed.tags))

    async def work(hub: Hub) -> tuple[Page, str | None]:
        ctx = params.context(hub.default_owner)
        before = hub.cursors.place(ctx.account, COLLECTION, params.cursor)
        page = await hub.knowledge.page(ctx, ListQuery(groups, params.limit, before))
        return page, hub.cursors.sealed(ctx.account, COLLECTION, page.next_before)

    page, cursor = use_hub(place, work)
    records = [orjson.loads(record) for record in page.records]
    if place.as_json:
        output.print_json({"results": records, "count": len(records), "next_cursor": cursor})
    else:
        _print_records(records, cursor)


@spread
def get(knowledge_id: Id, caller: Caller, place: Place) -> None:
    """Show one record, whole."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> Stored:
        return await hub.knowledge.get(ids.context(hub.default_owner), knowledge_id)

    record = orjson.loads(use_hub(place, work).json)
    if place.as_json:
        output.print_json(record)
    else:
        _print_record(record)


@spread
def feedback(knowledge_id: Id, evidence: Evidence, caller: Caller, place: Place) -> None:
    """Say whether a record helped, did harm, deserves another score, or what was learnt since; search ranks by it."""
    body, ids = evidence.body(), ids_of(caller)

    async def work(hub: Hub) -> Saved | Evolved:
        ctx = ids.context(hub.default_owner)
        if body.evolve_feedback is None:
            return await hub.knowledge.give_feedback(ctx, knowledge_id, body.feedback())
        return await hub.evolution.evolve(ctx, knowledge_id, body.feedback())

    done = use_hub(place, work)
    if isinstance(done, Evolved):
        _print_evolved(done, place)
    else:
        _print_saved(done, _changed(done), place)


@spread
def undo(
    operation_id: Annotated[str, typer.Argument(metavar="OPERATION_ID", show_default=False)],
    caller: Caller,
    place: Place,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be written, and write nothing.")] = False,
) -> None:
    """Undo an operation, or a whole import by its import_id, while nothing newer stands on it."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> UndoResult:
        return await hub.operations.undo(ids.context(hub.default_owner), operation_id, dry_run=dry_run)

    done = use_hub(place, work)
    if place.as_json:
        output.print_json(_undo_answer(done))
    else:
        _print_undone(done)


def _filters_of(params: ListParams, tags: Mapping[str, str | list[str]]) -> list[frozenset[str]]:
    filters = [frozenset(facet("type", kind) for kind in params.types)] if params.types else []
    if params.scopes:
        filters.append(frozenset(facet("scope", scope) for scope in params.scopes))
    if params.owner is not None:
        filters.append(frozenset({facet("owner", params.owner)}))
    for name, value in tags.items():
        values = [value] if isinstance(value, str) else value
        filters.append(frozenset(facet(f"tag.{name}", one) for one in values))
    return filters


def _found_answer(found: Found) -> dict[str, Any]:
    answer = {
        "results": found.records,
        "count": len(found.records),
        "degraded": found.degraded,
        "index_lag": found.index_lag,
    }
    asked_for = {"explanation": found.explanation, "tokens": found.tokens}
    return answer | {name: value for name, value in asked_for.items() if value is not None}


def _undo_answer(done: UndoResult) -> dict[str, Any]:
    return {
        "operation_id": done.operation_ids[-1] if done.operation_ids else None,
        "operation_ids": done.operation_ids,
        "undone": done.undone,
        "dry_run": done.dry_run,
        "changes": [asdict(change) for change in done.changes],
    }


def _print_saved(saved: Saved, what: str, place: Place) -> None:
    if place.as_json:
        duplicate = {"duplicate_of": saved.duplicate_of} if saved.duplicate_of else {}
        output.print_json({**saved.record, **duplicate, "operation_id": saved.operation_id})
        return
    output.say(f"{what}  {saved.record['id']}  (version {saved.record['version']})")
    if saved.operation_id:
        output.say(f"undo it with: knowhub undo {saved.operation_id}")


def _changed(saved: Saved) -> str:
    return "changed" if saved.operation_id else "unchanged"


def _print_evolved(done: Evolved, place: Place) -> None:
    if place.as_json:
        output.print_json({**done.saved.record, **done.told, "operation_id": done.saved.operation_id})
        return
    for line in filter(None, (*(done.diff or "").splitlines(), done.detail)):
        output.say(line)
    _print_saved(done.saved, _changed(done.saved), place)


def _print_found(found: Found) -> None:
    if not found.records:
        output.say("nothing was found")
    for record in found.records:
        output.say(f"{record['quality_score']:>6g}  {record['id']}  {' '.join(record['types'])}")
        for text in filter(None, (record["task"], output.one_line(record["content"]))):
            output.say(f"        {text}")
        if "why" in record:
            why = record["why"]
            words = ", ".join(why["recall"]["matched"])
            stages = ", ".join(map(_stage, why["stages"]))
            output.say(f"        by {why['scope']['seen_by']}; {stages} for: {words}")
    for dropped in (found.explanation or {}).get("filtered", ()):
        output.say(f"  left out  {dropped['id']}  {dropped['rule']}")


def _stage(stage: Mapping[str, Any]) -> str:
    score = "" if stage["score"] is None else f" ({stage['score']})"
    return f"{stage['stage']} {stage['rank']}.{score}"


def _print_records(records: list[dict[str, Any]], cursor: str | None) -> None:
    table = output.table("id", "types", "score", "+", "-", "owner", "task")
    for record in records:
        evaluation = record["eval"]
        counts = (evaluation["score"], evaluation["helpful"], evaluation["harmful"])
        text = record["task"] or output.one_line(record["content"])
        row = (record["id"], " ".join(record["types"]), *counts, record["owner"], text)
        table.add_row(*map(output.cell, row))
    output.print_table(table)
    if cursor is not None:
        output.say(f"more with: --cursor {cursor}")


def _print_record(record: dict[str, Any]) -> None:
    table = output.table("field", "value")
    for name, value in record.items():
        shown = value if isinstance(value, str | int | float) else orjson.dumps(value).decode()
        table.add_row(name, output.cell(shown))
    output.print_table(table)


def _print_undone(done: UndoResult) -> None:
    for change in done.changes:
        version = change.after["version"]
        output.say(f"{'would write' if done.dry_run else 'wrote'}  {change.id}  (version {version})")
        for path in differences(change.before, change.after):
            output.say(f"        {path}")
    for operation_id in done.operation_ids:
        output.say(f"undo this with: knowhub undo {operation_id}")
