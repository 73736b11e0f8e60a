"""The live rows of an account in the order in which they were made, read one at a time."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from knowhub.audit.model import Document
from knowhub.audit.ports import AuditView
from knowhub.core.clock import parse_iso
from knowhub.core.operation import is_live
from knowhub.core.pace import Pace
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import INFOS, InfoHead
from knowhub.knowledge.model import COLLECTION, Head, ListQuery

_HEADS_A_TURN = 500


async def live_documents(view: AuditView, ctx: RequestContext, pace: Pace) -> Iterator[Document]:
    """Return the live records and infos that the caller sees, oldest first.

    Ids are read now, rows as they are reached: what went away meanwhile is left out, what is new is not looked at.
    """
    records = await _seen_ids(lambda before: view.page(ListQuery(limit=_HEADS_A_TURN, before=before)), ctx, pace)
    infos = await _seen_ids(lambda before: list(islice(view.infos_newest(before), _HEADS_A_TURN)), ctx, pace)
    return heapq.merge(
        _rows(view, COLLECTION, records), _rows(view, INFOS, infos), key=lambda document: document.created_at
    )


def document(view: AuditView, collection: str, row_id: str) -> Document | None:
    """Return a row as it stands now; None when it has gone."""
    row = view.get(collection, row_id)
    if row is None or not is_live(row):
        return None
    texts = {name: str(row.get(name) or "") for name in ("task", "content")}
    if collection == INFOS:
        texts["source"] = str(row.get("source") or "")
    elif row.get("tags"):
        texts["tags"] = "\n".join(f"{name}={value}" for name, value in row["tags"].items())
    return Document(collection, row_id, parse_iso(row["created_at"]), _author(row), texts, row)


async def _seen_ids(
    page: Callable[[int | None], Sequence[Head | InfoHead]], ctx: RequestContext, pace: Pace
) -> list[str]:
    """Return the ids of all that the caller sees, newest first; `page` gives the heads before an ordinal."""
    ids: list[str] = []
    before: int | None = None
    while heads := page(before):
        ids += (head.id for head in heads if ctx.sees(head.audience))
        before = heads[-1].ordinal
        await pace.pause()
    return ids


def _rows(view: AuditView, collection: str, newest_first: list[str]) -> Iterator[Document]:
    for row_id in reversed(newest_first):
        found = document(view, collection, row_id)
        if found is not None:
            yield found


def _author(row: Mapping[str, Any]) -> str:
    source = row.get("source")
    if isinstance(source, Mapping):
        for kind, name in (("agent", source.get("agent_id")), ("user", source.get("submitted_by"))):
            if name:
                return name if name.startswith(f"{kind}:") else f"{kind}:{name}"
    return str(row["owner"])
