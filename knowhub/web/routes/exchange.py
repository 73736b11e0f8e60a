"""Records out and in: JSON lines, and seed 004's workspace tree."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from knowhub.core.errors import FieldError, InvalidInput, TooLarge
from knowhub.knowledge.exchange import workspace_files
from knowhub.knowledge.model import ImportedKnowledge
from knowhub.web.dependencies import context_of, hub_of, query, raw_body, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.middleware import is_deeper
from knowhub.web.openapi import RETRY, WRITES, answers, content, examples, parameters, problems
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas.knowledge import MAX_IMPORT_LINES, ExportParams, ImportLine, ImportParams

router = APIRouter(prefix="/api/knowledge", tags=["knowledge"], route_class=EdgeRoute)

_ROWS_PER_CHUNK = 200
_MAX_WRONG = 100
# Room for a blank line after each record; what is behind is not split, as each line takes memory.
_MAX_LINES_WITH_BLANK = 2 * MAX_IMPORT_LINES
_TURN_S = 0.005


@router.get(
    "/export",
    summary="Export every record that the caller sees",
    responses=content(200, "JSON lines, or a tar.gz archive.", "application/x-ndjson", "application/gzip")
    | problems(422),
    openapi_extra=parameters(ExportParams),
)
async def export_knowledge(request: Request) -> Response:
    """Export as JSON lines, oldest first, or with `layout=workspace` as seed 004's tree in an archive."""
    params = query(request, ExportParams)
    records = await hub_of(request).exchange.export(context_of(request, params))
    if params.layout == "workspace":
        archive = await asyncio.to_thread(_workspace_archive, list(records))
        named = {"Content-Disposition": 'attachment; filename="knowledge.tar.gz"'}
        return Response(archive, 200, named, "application/gzip")
    return StreamingResponse(_lines(records), media_type="application/x-ndjson")


@router.post(
    "/import",
    summary="Import records",
    responses=answers(200, shapes.ImportAnswer) | WRITES | problems(409),
    openapi_extra=parameters(ImportParams, headers=RETRY) | examples("import"),
)
async def import_knowledge(request: Request) -> Response:
    """Import JSON lines, all or none: each keeps its id, owner, scopes, evidence and time of creation."""
    params = query(request, ImportParams, beside_body=True)
    ctx = context_of(request, params)
    lines = await _parse_in_turns(raw_body(request), request.app.state.settings.max_json_depth)
    done = await hub_of(request).exchange.import_lines(ctx, lines, params.on_conflict, retry_key(request, ctx))
    answer = {
        "imported": done.imported,
        "replaced": done.replaced,
        "skipped": done.skipped,
        "import_id": done.import_id,
        "operation_ids": done.operation_ids,
    }
    return written(answer, done.operation_ids[-1] if done.operation_ids else None)


def parse_lines(body: bytes, max_depth: int) -> list[ImportedKnowledge]:
    """Parse JSON lines into records.

    Raises TooLarge for more than 10,000 records, and InvalidInput naming `lines.<number>.<field>` for each line that is
    wrong, up to 100 of them.
    """
    return list(_parsed(body, max_depth))


async def _parse_in_turns(body: bytes, max_depth: int) -> list[ImportedKnowledge]:
    """Parse as `parse_lines` does, while other requests take their turns."""
    clock = asyncio.get_running_loop().time
    parsed: list[ImportedKnowledge] = []
    started = clock()
    for record in _parsed(body, max_depth):
        parsed.append(record)
        if clock() - started > _TURN_S:
            await asyncio.sleep(0)
            started = clock()
    return parsed


def _parsed(body: bytes, max_depth: int) -> Iterator[ImportedKnowledge]:
    errors: list[FieldError] = []
    wrong = found = 0
    for number, line in _numbered(body):
        found += 1
        try:
            if not is_deeper(line, max_depth):
                yield ImportLine.model_validate(orjson.loads(line)).to_imported()
                continue
            errors.append(FieldError(f"lines.{number}", f"JSON is nested more than {max_depth} deep"))
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


def _numbered(body: bytes) -> Sequence[tuple[int, bytes]]:
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
    return [_line_error(number, one["loc"], one["msg"]) for one in problem.errors()]


def _line_error(number: int, location: Sequence[int | str], message: str) -> FieldError:
    path = ".".join(["lines", str(number), *(str(part) for part in location)])
    return FieldError(path, message.removeprefix("Value error, "))


async def _lines(records: Iterator[bytes]) -> AsyncIterator[bytes]:
    chunk: list[bytes] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == _ROWS_PER_CHUNK:
            yield b"\n".join(chunk) + b"\n"
            chunk.clear()
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
