"""How routes answer with rows: one that was made, changed or read, many that were made, a list."""

from collections.abc import Sequence
from typing import Any

from fastapi import Response

from knowhub.keywords.model import ShownRow, Written, WrittenBatch
from knowhub.web.dependencies import JsonText, written


def created_answer(made: Written, folder: str, status: int = 201) -> Response:
    """Answer with a row that was made, where it is, and what a model said to it."""
    row = made.row
    headers = {**etag(row["version"]), "Location": f"{folder}/{row['id']}"}
    told: dict[str, Any] = {**row, "degraded": list(made.degraded)}
    if made.decided:
        told["decided"] = made.decided
    return written(told, made.operation_id, status, headers)


def batch_answer(made: WrittenBatch) -> Response:
    """Answer with rows that were made in one operation, in order."""
    told = {"results": list(made.rows), "count": len(made.rows), "degraded": list(made.degraded)}
    return written(told, made.operation_id, 201)


def row_answer(done: Written) -> Response:
    """Answer with a row that was changed."""
    return written(done.row, done.operation_id, headers=etag(done.row["version"]))


def list_answer(rows: Sequence[bytes], next_cursor: str | None = None) -> Response:
    """Answer with a list of rows that are JSON text already: writing them again would cost more than all else."""
    cursor = b"null" if next_cursor is None else b'"%s"' % next_cursor.encode()
    return JsonText(b'{"results":[%s],"count":%d,"next_cursor":%s}' % (b",".join(rows), len(rows), cursor))


def read_answer(shown: ShownRow) -> Response:
    """Answer with a row that is JSON text already."""
    return JsonText(shown.json, 200, etag(shown.version))


def etag(version: int) -> dict[str, str]:
    """Return the header that tells the version of a row; a writer sends it back as `If-Match`."""
    return {"ETag": f'"{version}"'}
