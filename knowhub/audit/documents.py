"""The rows that an audit reads, and why a record is stale."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from knowhub.audit.model import AuditDocument
from knowhub.core.clock import CooperativePause, parse_iso
from knowhub.core.operation import View, is_live
from knowhub.core.owned_rows import OwnedSummary
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import INFOS
from knowhub.keywords.tree import INFO_TABLE
from knowhub.knowledge.evidence import compute_quality
from knowhub.knowledge.model import DEFAULT_SCORE, KNOWLEDGE, KnowledgeSummary, ListQuery
from knowhub.knowledge.table import list_records

_IDS_A_TURN = 500


async def list_documents(view: View, ctx: RequestContext, pace: CooperativePause) -> Iterator[AuditDocument]:
    """Return the live records and infos that the caller sees, oldest first.

    Ids are read now, rows as they are reached: what went away meanwhile is left out, what is new is not looked at.
    """
    records = await _list_visible_ids(
        lambda before: list_records(view, ListQuery(limit=_IDS_A_TURN, before=before)), ctx, pace
    )
    infos = await _list_visible_ids(
        lambda before: list(islice(view.newest(INFO_TABLE, before), _IDS_A_TURN)), ctx, pace
    )
    return heapq.merge(
        _iter_documents(view, KNOWLEDGE, records), _iter_documents(view, INFOS, infos), key=lambda item: item.created_at
    )


def read_document(view: View, collection: str, row_id: str) -> AuditDocument | None:
    """Return the current row; None if it was deleted."""
    row = view.get(collection, row_id)
    if row is None or not is_live(row):
        return None
    texts = {name: str(row.get(name) or "") for name in ("task", "content")}
    if collection == INFOS:
        texts["source"] = str(row.get("source") or "")
    elif row.get("tags"):
        texts["tags"] = "\n".join(f"{name}={value}" for name, value in row["tags"].items())
    return AuditDocument(collection, row_id, parse_iso(row["created_at"]), _get_author(row), texts, row)


async def _list_visible_ids(
    page: Callable[[int | None], Sequence[KnowledgeSummary | OwnedSummary]], ctx: RequestContext, pace: CooperativePause
) -> list[str]:
    """Return the ids of all that the caller sees, newest first; `page` gives the summaries before an ordinal."""
    ids: list[str] = []
    before: int | None = None
    while summaries := page(before):
        ids += (summary.id for summary in summaries if ctx.sees(summary.audience))
        before = summaries[-1].ordinal
        await pace.pause()
    return ids


def _iter_documents(view: View, collection: str, newest_first: list[str]) -> Iterator[AuditDocument]:
    for row_id in reversed(newest_first):
        found = read_document(view, collection, row_id)
        if found is not None:
            yield found


def _get_author(row: Mapping[str, Any]) -> str:
    source = row.get("source")
    if isinstance(source, Mapping):
        for kind, name in (("agent", source.get("agent_id")), ("user", source.get("submitted_by"))):
            if name:
                return name if name.startswith(f"{kind}:") else f"{kind}:{name}"
    return str(row["owner"])


_DAY_S = 86_400.0


def find_stale(row: Mapping[str, Any], superseder: str | None, now: float, stale_days: float) -> dict[str, Any]:
    """Return why a record is stale, by name, with what shows it; empty when it is not.

    `expired`: its `valid_to` is over. `superseded`: a live record replaces it. `bad_evidence`: its quality is below
    0, or its score below 3 with a harmful case. `untouched`: nothing changed it for `stale_days`.
    """
    evaluation = row["eval"]
    score, helpful, harmful = evaluation["score"], evaluation["helpful"], evaluation["harmful"]
    reasons: dict[str, Any] = {}
    if row["valid_to"] is not None and parse_iso(row["valid_to"]) <= now:
        reasons["expired"] = {"valid_to": row["valid_to"]}
    if superseder is not None:
        reasons["superseded"] = {"by": superseder}
    if compute_quality(score, helpful, harmful) < 0 or (score < DEFAULT_SCORE and harmful > 0):
        reasons["bad_evidence"] = {"score": score, "helpful": helpful, "harmful": harmful}
    days = (now - parse_iso(row["updated_at"])) / _DAY_S
    if days >= stale_days:
        reasons["untouched"] = {"updated_at": row["updated_at"], "days": int(days)}
    return reasons
