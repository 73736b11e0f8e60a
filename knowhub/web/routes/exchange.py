"""Records out and in: JSON lines, and the workspace tree."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence

import orjson
from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from knowhub.core.errors import FieldError, InvalidInput, TooLarge
from knowhub.knowledge.exchange import workspace_files
from knowhub.knowledge.model import ImportedKnowledge
from knowhub.web.json_depth import JsonLimits, find_excess, json_limits
from knowhub.web.parsing import parse_json
from knowhub.web.responses import answer_write
from knowhub.web.route import Call, Routes, TextAnswer, Write
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas.exchange import ExportParams, ImportLine, ImportParams
from knowhub.web.schemas.knowledge import MAX_IMPORT_LINES

routes = Routes("/api/knowledge", "knowledge")

_ROWS_PER_CHUNK = 200
_CHUNK_BYTES = 256 * 1024
_MAX_WRONG = 100
# Room for a blank line after each record; what is behind is not split, as each line takes memory.
_MAX_LINES_WITH_BLANK = 2 * MAX_IMPORT_LINES


@routes.add(
    "GET",
    "/export",
    {
        200: TextAnswer(
            "JSON lines, or a tar.gz archive.",
            ("application/x-ndjson", "application/gzip"),
        )
    },
    summary="Export every record that the caller sees",
)
async def export_knowledge(call: Call, params: ExportParams) -> Response:
    """Export as JSON lines, oldest first, or with `layout=workspace` as the workspace tree in an archive."""
    records = await call.hub.knowledge.exchange.export(call.ctx)
    if params.layout == "workspace":
        archive = await asyncio.to_thread(_workspace_archive, list(records))
        named = {"Content-Disposition": 'attachment; filename="knowledge.tar.gz"'}
        return Response(archive, 200, named, "application/gzip")
    return StreamingResponse(_lines(records), media_type="application/x-ndjson")


@routes.add(
    "POST",
    "/import",
    {200: shapes.ImportAnswer},
    summary="Import records",
    examples={
        "one record": orjson.dumps(
            {
                "id": "profile_001",
                "type": "user_profile",
                "task": "用户编码风格偏好",
                "tags": {"category": "preference", "domain": "coding_style"},
                "scopes": ["user:123", "project:456"],
                "owner": "user:123",
                "visibility": "shared",
                "content": "用户偏好使用 TypeScript 而非 JavaScript，注重类型安全",
                "source": {"agent_id": "general_assistant", "trace_id": "trace-xxx", "timestamp": "2026-03-03"},
                "eval": {"helpful": 5, "harmful": 0, "confidence": 0.9},
            }
        ).decode()
        + "\n"
    },
    is_large=True,
)
async def import_knowledge(call: Write, lines: bytes, params: ImportParams) -> Response:
    """Import JSON lines, all or none: each keeps its id, owner, scopes, evidence and time of creation."""
    records = await asyncio.to_thread(parse_lines, lines, json_limits(call.hub.settings))
    done = await call.hub.knowledge.exchange.import_lines(call.ctx, records, params.on_conflict, call.key)
    answer = {
        "imported": done.imported,
        "replaced": done.replaced,
        "skipped": done.skipped,
        "import_id": done.import_id,
        "operation_ids": done.operation_ids,
    }
    return answer_write(answer, done.operation_ids[-1] if done.operation_ids else None)


def parse_lines(body: bytes, limits: JsonLimits) -> list[ImportedKnowledge]:
    """Parse JSON lines into records.

    Raises TooLarge for more than 10,000 records, and InvalidInput naming `lines.<number>.<field>` for each line that is
    wrong, up to 100 of them.
    """
    return list(_parse_lines(body, limits))


def _parse_lines(body: bytes, limits: JsonLimits) -> Iterator[ImportedKnowledge]:
    errors: list[FieldError] = []
    wrong = found = 0
    for number, line in _number_lines(body):
        found += 1
        try:
            excess = find_excess(line, limits)
            if excess is None:
                yield ImportLine.model_validate(parse_json(line)).to_imported()
                continue
            errors.append(FieldError(f"lines.{number}", excess))
        except orjson.JSONDecodeError as problem:
            errors.append(FieldError(f"lines.{number}", f"is not JSON: {problem}"))
        except ValidationError as problem:
            errors += _line_errors(number, problem)
        wrong += 1
        if wrong == _MAX_WRONG:
            break
    if errors:
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}; nothing was imported", errors[:_MAX_WRONG])
    if not found:
        raise InvalidInput.of("body", "holds no record; send one JSON object a line")


def _number_lines(body: bytes) -> Sequence[tuple[int, bytes]]:
    """Return the lines that are not blank with their numbers. Raises TooLarge when they are too many."""
    lines = body.split(b"\n", _MAX_LINES_WITH_BLANK)
    rest = lines.pop() if len(lines) > _MAX_LINES_WITH_BLANK else b""
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len(numbered) > MAX_IMPORT_LINES or rest.strip():
        raise TooLarge(
            f"one import takes at most {MAX_IMPORT_LINES} records, this one has more: split the file "
            f"(`split -l {MAX_IMPORT_LINES}`) and import its parts; nothing was imported"
        )
    return numbered


def _line_errors(number: int, problem: ValidationError) -> Sequence[FieldError]:
    if problem.error_count() > _MAX_WRONG:
        # A line may hold a million fields; naming each takes seconds.
        return [FieldError(f"lines.{number}", f"{problem.error_count()} fields of this line are wrong")]
    return [_line_error(number, error["loc"], error["msg"]) for error in problem.errors()]


def _line_error(number: int, location: Sequence[int | str], message: str) -> FieldError:
    path = ".".join(["lines", str(number), *(str(part) for part in location)])
    return FieldError(path, message.removeprefix("Value error, "))


async def _lines(records: Iterator[bytes]) -> AsyncIterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record)
        if len(chunk) == _ROWS_PER_CHUNK or size > _CHUNK_BYTES:
            yield b"\n".join(chunk) + b"\n"
            chunk.clear()
            size = 0
    if chunk:
        yield b"\n".join(chunk) + b"\n"


def _workspace_archive(records: Sequence[bytes]) -> bytes:
    buffer = io.BytesIO()
    # The time in the header would make two exports of the same records differ.
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path, rows in sorted(workspace_files([orjson.loads(record) for record in records]).items()):
            text = orjson.dumps(rows, option=orjson.OPT_INDENT_2)
            member = tarfile.TarInfo(f"knowledge/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return buffer.getvalue()
