"""HTTP answers: JSON values, rows that are JSON text already, streams, and the results of writes with their headers."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from knowhub.core.clock import CooperativePause, iso
from knowhub.core.owned_rows import HistoryPage, RowText, SavedBatch, SavedRow
from knowhub.web.views import make_saved_view

_CHUNK_BYTES = 256 * 1024
_PARTS_A_CHUNK = 200


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
    return JsonText(row.json, 200, make_etag(row.version))


def answer_write(
    body: Mapping[str, Any], operation_id: str | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a write: its body with the id of the operation, which is in a header too."""
    text = orjson.dumps({**body, "operation_id": operation_id})
    return JsonText(text, status, {**(headers or {}), **name_operation(operation_id)})


def answer_report(report: Mapping[str, Any]) -> Response:
    """Answer with what long work did, which names its operation."""
    return answer_write(report, report["operation_id"])


def answer_saved(
    saved: SavedRow, status: int = 200, location: str | None = None, more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with a row after a write, the path of a new one, and what `more` says of it."""
    located = {} if location is None else {"Location": location}
    view = {**make_saved_view(saved), **(more or {})}
    return answer_write(view, saved.operation_id, status, {**make_etag(saved.record["version"]), **located})


def answer_created(saved: SavedRow, folder: str, status: int = 201) -> Response:
    """Answer with a row that a model may have helped to create; `folder` is the path of its collection."""
    return answer_saved(saved, status, f"{folder}/{saved.record['id']}", {"degraded": saved.degraded})


def answer_history(page: HistoryPage) -> Response:
    """Answer with a page of the versions of a row."""
    results = [{**asdict(entry), "timestamp": iso(entry.timestamp)} for entry in page.entries]
    return answer_list(results, None if page.next_before is None else str(page.next_before))


async def answer_rows(rows: Sequence[Mapping[str, Any]], rest: Mapping[str, Any], status: int) -> Response:
    """Answer a write with the rows that it made, in `results`, and the `rest`.

    The rows are written as JSON in a thread: they may be long, and the event loop goes on meanwhile.
    """
    texts = await asyncio.to_thread(lambda: [orjson.dumps(row) for row in rows])
    headers = name_operation(rest["operation_id"])
    return _answer_rows(texts, orjson.dumps({"count": len(rows), **rest})[1:], status, headers)


async def answer_created_batch(written: SavedBatch) -> Response:
    """Answer with the rows that one operation made, in order."""
    # A batch asks no model.
    rest: dict[str, Any] = {"degraded": [], "operation_id": written.operation_id}
    return await answer_rows([make_saved_view(saved) for saved in written.records], rest, 201)


def make_etag(version: int) -> dict[str, str]:
    """Return the header with the version of a row; a client sends it back as `If-Match`."""
    return {"ETag": f'"{version}"'}


def name_operation(operation_id: str | None) -> dict[str, str]:
    """Return the header with the operation that a write made; none where it changed nothing."""
    return {} if operation_id is None else {"X-Operation-Id": operation_id}
