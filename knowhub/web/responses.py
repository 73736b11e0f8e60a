"""Answers: JSON values, rows that are JSON text already, results of writes; and views of what services return.

Routes and the CLI share the views. A view holds values that orjson writes: copying them into dictionaries first would
cost as much as a search.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from knowhub.context.commit.rule_extraction import UNREAD
from knowhub.context.commit_model import CommitResult
from knowhub.context.events import OutboxEvent
from knowhub.conversations.secrets.detection import cut_pieces, find_secrets, has_secret_hint
from knowhub.core.clock import CooperativePause, iso
from knowhub.core.owned_rows import HistoryPage, RowText, SavedBatch, SavedRow
from knowhub.core.store_results import SnapshotEntry
from knowhub.identity.model import ApiKey, IssuedKey
from knowhub.identity.service import IdentityService
from knowhub.keywords.exchange import TreeImportResult
from knowhub.keywords.model import Dropped, KeywordSearchResult
from knowhub.knowledge.evolve.slimming import SlimResult
from knowhub.knowledge.exchange import ImportResult
from knowhub.operations.model import RestoreResult
from knowhub.web.schemas.answers import SlimAnswer
from knowhub.web.schemas.context_answers import CommitAnswer

_CHUNK_BYTES = 256 * 1024
_PARTS_A_CHUNK = 200
# A longer text is searched for secrets in a thread.
_SEARCHED_AT_ONCE = 20_000
_MAX_WARNINGS = 20
_ADVICE = (
    "{field} has what looks like a secret ({pattern}, at character {start}). It is stored as it was sent. "
    "Save it as the secure_body of a resource, which is encrypted, and name that resource here."
)


class JsonText(Response):
    """An answer that is JSON text already; its headers are encoded once."""

    def __init__(self, text: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.background = None
        self.body = text
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(text)),
        ]
        for name, value in (headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    def read(self) -> bytes:
        """Return the text."""
        return bytes(self.body)


class JsonTextParts(JsonText):
    """A long answer that is JSON text in parts. They are sent one after another: joining 16 MiB takes 30 ms."""

    def __init__(self, parts: Sequence[bytes], status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(b"", status, headers)
        self._parts = parts
        self.raw_headers[1] = (b"content-length", b"%d" % sum(map(len, parts)))

    def read(self) -> bytes:
        """Return the whole text."""
        return b"".join(self._parts)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the parts, short ones together."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        chunk = bytearray()
        for part in self._parts:
            chunk += part
            if len(chunk) > _CHUNK_BYTES:
                await send({"type": "http.response.body", "body": bytes(chunk), "more_body": True})
                await asyncio.sleep(0)
                chunk = bytearray()
        await send({"type": "http.response.body", "body": bytes(chunk)})


def answer_json(
    body: Any,  # noqa: ANN401 -- any JSON value
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a JSON value."""
    return JsonText(orjson.dumps(body), status, headers)


def answer_list(results: Sequence[Any], next_cursor: str | None = None) -> Response:
    """Answer with a page of a list."""
    return answer_json({"results": results, "count": len(results), "next_cursor": next_cursor})


def answer_text_list(rows: Sequence[bytes], next_cursor: str | None = None) -> Response:
    """Answer with a page of rows that are JSON text already: parsing and writing them again would cost most."""
    cursor = b"null" if next_cursor is None else b'"%s"' % next_cursor.encode()
    return _answer_rows(rows, b'"count":%d,"next_cursor":%s}' % (len(rows), cursor), 200, {})


def _answer_rows(rows: Sequence[bytes], rest: bytes, status: int, headers: Mapping[str, str]) -> Response:
    """Answer with rows as JSON text; `rest` is the text of the other fields, with the last brace."""
    if sum(map(len, rows)) <= _CHUNK_BYTES:
        return JsonText(b'{"results":[%s],%s' % (b",".join(rows), rest), status, headers)
    parts = [b'{"results":[', *(part for row in rows for part in (row, b","))]
    parts[-1] = b"],"
    return JsonTextParts([*parts, rest], status, headers)


def answer_stream(parts: Iterator[bytes], media_type: str) -> Response:
    """Answer with the parts of a text while they are made; others are answered meanwhile. A part may be empty."""
    return StreamingResponse(_join_parts(parts), media_type=media_type)


async def _join_parts(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    pace = CooperativePause()
    for part in parts:
        # A client that reads fast lets no other have its turn.
        await pace.pause()
        if part:
            chunk.append(part)
            size += len(part)
        if len(chunk) == _PARTS_A_CHUNK or size > _CHUNK_BYTES:
            yield b"".join(chunk)
            chunk.clear()
            size = 0
    if chunk:
        yield b"".join(chunk)


def answer_text_row(row: RowText) -> Response:
    """Answer with a row that is JSON text already."""
    return JsonText(row.json, 200, etag(row.version))


def answer_write(
    body: Mapping[str, Any], operation_id: str | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a write: its body with the id of the operation, which is in a header too."""
    named = {} if operation_id is None else {"X-Operation-Id": operation_id}
    return JsonText(orjson.dumps({**body, "operation_id": operation_id}), status, {**(headers or {}), **named})


def answer_report(report: Mapping[str, Any]) -> Response:
    """Answer with what long work did, which names its operation."""
    return answer_write(report, report["operation_id"])


def answer_saved(
    saved: SavedRow, status: int = 200, location: str | None = None, more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with a row after a write, the path of a new one, and what `more` says of it."""
    body = make_saved_view(saved)
    body.update(more or {})
    body["operation_id"] = saved.operation_id
    headers = {"ETag": f'"{saved.record["version"]}"'}
    if location:
        headers["Location"] = location
    if saved.operation_id is not None:
        headers["X-Operation-Id"] = saved.operation_id
    return JsonText(orjson.dumps(body), status, headers)


async def find_warnings(texts: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Return the field `warnings` of an answer: a `field` and a `message` for each secret in texts, at most 20.

    Without a secret, there is no such field. Other values than texts are passed over. No message contains any part of
    a secret.
    """
    searched = {field: text for field, text in texts.items() if isinstance(text, str)}
    if sum(map(len, searched.values())) > _SEARCHED_AT_ONCE:
        warnings = await asyncio.to_thread(_list_warnings, searched)
    elif has_secret_hint("\n".join(searched.values())):
        warnings = _list_warnings(searched)
    else:
        return {}
    return {"warnings": warnings} if warnings else {}


def _list_warnings(texts: Mapping[str, str]) -> list[dict[str, str]]:
    warnings: list[dict[str, str]] = []
    for field, text in texts.items():
        end = -1
        for piece, offset in cut_pieces(text):
            for secret in find_secrets(piece, offset):
                # Pieces overlap.
                if secret.start >= end:
                    end, pattern = secret.end, secret.pattern.replace("_", " ")
                    message = _ADVICE.format(field=field, pattern=pattern, start=secret.start)
                    warnings.append({"field": field, "message": message})
            if len(warnings) >= _MAX_WARNINGS:
                return warnings[:_MAX_WARNINGS]
    return warnings


def answer_history(page: HistoryPage) -> Response:
    """Answer with a page of the versions of a row."""
    results = [{**asdict(entry), "timestamp": iso(entry.timestamp)} for entry in page.entries]
    return answer_list(results, None if page.next_before is None else str(page.next_before))


def answer_created_row(written: SavedRow, folder: str, status: int = 201) -> Response:
    """Answer with a new row, its path, and what a model decided about it."""
    row = make_saved_view(written, written.decided)
    headers = {**etag(written.record["version"]), "Location": f"{folder}/{row['id']}"}
    return answer_write({**row, "degraded": written.degraded}, written.operation_id, status, headers)


async def answer_rows(rows: Sequence[Mapping[str, Any]], rest: Mapping[str, Any], status: int) -> Response:
    """Answer a write with the rows that it made, in `results`, and the `rest`.

    The rows are written as JSON in a thread: they may be long, and the event loop goes on meanwhile.
    """
    headers = {} if rest.get("operation_id") is None else {"X-Operation-Id": rest["operation_id"]}
    texts = await asyncio.to_thread(lambda: [orjson.dumps(row) for row in rows])
    return _answer_rows(texts, orjson.dumps({"count": len(rows), **rest})[1:], status, headers)


async def answer_created_rows(written: SavedBatch) -> Response:
    """Answer with the rows that one operation made, in order."""
    # A batch asks no model.
    rest: dict[str, Any] = {"degraded": [], "operation_id": written.operation_id}
    rows = [make_saved_view(saved, saved.decided) for saved in written.records]
    return await answer_rows(rows, rest, 201)


def etag(version: int) -> dict[str, str]:
    """Return the header with the version of a row; a client sends it back as `If-Match`."""
    return {"ETag": f'"{version}"'}


# Views.


def view_of(model: type[BaseModel], source: object, **others: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    """Return the fields of an answer that `source` has by the same names, and `others`."""
    names = [name for name in model.model_fields if name not in others and hasattr(source, name)]
    return {name: getattr(source, name) for name in names} | others


# Knowledge.


def make_saved_view(saved: SavedRow, decided: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a row after a write, what happened to it, and what a model `decided`."""
    view = dict(saved.record)
    if saved.duplicate_of:
        view["duplicate_of"] = saved.duplicate_of
    if saved.is_restored:
        view["restored"] = True
    if decided:
        view["decided"] = decided
    if saved.dropped:
        view["dropped"] = saved.dropped
    return view


def make_slimming_view(done: SlimResult) -> dict[str, Any]:
    """Return what was merged into what."""
    operation_id = done.operation_ids[-1] if done.operation_ids else None
    return {**done.report, **view_of(SlimAnswer, done, operation_id=operation_id)}


def make_import_view(done: ImportResult | TreeImportResult) -> dict[str, Any]:
    """Return what an import of records or of keywords did."""
    return asdict(done) | {"operation_id": done.operation_ids[-1] if done.operation_ids else None}


def make_tree_import_view(done: TreeImportResult, dropped: Dropped) -> dict[str, Any]:
    """Return what an import of keywords did, and what of the file it left out."""
    left_out = [*dropped.items(), *sorted(done.dropped.items())]
    rows = [{"what": what, "why": why, "count": count} for (what, why), count in left_out]
    return make_import_view(done) | {"dropped": rows}


# The keyword tree, whose rows are JSON text.


def render_keyword_search(found: KeywordSearchResult) -> bytes:
    """Return what a search found as JSON text: parsing its rows and writing them again would cost more than it."""
    rest = {
        "suggested_parent_id": found.suggested_parent_id,
        "suggested_name": found.suggested_name,
        "reason": found.reason,
        "degraded": found.degraded,
    }
    return b'{"status":"%s","node":%s,"path":[%s],"infos":[%s],"candidates":[%s],%s' % (
        found.status.encode(),
        found.node or b"null",
        b",".join(found.path),
        b",".join(found.infos),
        b",".join(found.candidates),
        orjson.dumps(rest)[1:],
    )


# Memories.


def make_commit_view(done: CommitResult) -> dict[str, Any]:
    """Return what committing a session did."""
    return view_of(
        CommitAnswer,
        done,
        outbox_events=[make_event_view(event) for event in done.outbox_events],
        dropped=[
            {"what": "messages", "why": "not_read", "count": count}
            if why == UNREAD
            else {"what": "candidates", "why": why, "count": count}
            for why, count in done.stats.get("dropped", {}).items()
        ],
    )


def make_event_view(event: OutboxEvent) -> dict[str, Any]:
    """Return an event of the outbox."""
    return asdict(event) | {"created_at": iso(event.created_at)}


# Operations, keys and upkeep.


def make_key_view(identity: IdentityService, key: ApiKey) -> dict[str, Any]:
    """Return the public view of a key, without its hash."""
    row = {name: value for name, value in key.row.items() if name not in {"id", "hash"}}
    return {
        "key_id": key.key_id,
        "account": key.account,
        **row,
        "expired": identity.has_expired(key),
        "last_used_at": identity.uses.find_last_use(key.key_id),
    }


def make_issued_key_view(identity: IdentityService, issued: IssuedKey) -> dict[str, Any]:
    """Return the view of a new key, with its text unless this answers a retry."""
    view = make_key_view(identity, issued.key)
    return {**view, "key": issued.text, "replaces": issued.replaces, "operation_id": issued.operation_id}


def make_snapshot_view(entry: SnapshotEntry) -> dict[str, Any]:
    """Return a snapshot."""
    view = asdict(entry)
    return {"ts": view.pop("ts"), "path": view.pop("path"), "bytes": view.pop("size"), **view}


def make_restore_view(done: RestoreResult) -> dict[str, Any]:
    """Return what a restore did."""
    erased = [{"collection": collection, "id": row_id} for collection, row_id in done.erased]
    operation_id = done.operation_ids[-1] if done.operation_ids else None
    return asdict(done) | {"erased": erased, "operation_id": operation_id}
