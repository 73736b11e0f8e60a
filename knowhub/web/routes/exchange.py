"""Records out and in: JSON lines, and the workspace tree."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import Sequence

import orjson
from starlette.responses import Response

from knowhub.core.clock import CooperativePause
from knowhub.knowledge.exchange import group_by_workspace_file
from knowhub.web.json_limits import make_json_limits
from knowhub.web.responses import answer_report, answer_stream
from knowhub.web.route import Call, Routes, TextAnswer, WriteCall
from knowhub.web.schemas import knowledge_answers as answers
from knowhub.web.schemas.exchange import ExportParams, ImportParams, parse_import
from knowhub.web.views import make_import_view

routes = Routes("/api/knowledge", "knowledge")


@routes.add(
    "GET",
    "/export",
    {
        200: TextAnswer(
            "JSON lines, or a tar.gz archive.",
            ("application/x-ndjson", "application/gzip"),
            is_file=True,
        )
    },
    summary="Export every record that the caller sees",
)
async def export_knowledge(call: Call, params: ExportParams) -> Response:
    """Export as JSON lines, oldest first, or with `layout=workspace` as the workspace tree in an archive."""
    records = await call.hub.knowledge.exchange.export(call.ctx)
    if params.layout == "workspace":
        pace, lines = CooperativePause(), list[bytes]()
        for line in records:
            lines += [line] if line else []
            await pace.pause()
        archive = await asyncio.to_thread(_pack_workspace, lines)
        named = {"Content-Disposition": 'attachment; filename="knowledge.tar.gz"'}
        return Response(archive, 200, named, "application/gzip")
    return answer_stream(records, "application/x-ndjson")


@routes.add(
    "POST",
    "/import",
    {200: answers.ImportAnswer},
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
async def import_knowledge(call: WriteCall, lines: bytes, params: ImportParams) -> Response:
    """Import JSON lines, all or none: each keeps its id, owner, scopes, evidence and time of creation."""
    records = await asyncio.to_thread(parse_import, lines, make_json_limits(call.hub.settings))
    done = await call.hub.knowledge.exchange.import_lines(call.ctx, records, params.on_conflict, call.key)
    answer = make_import_view(done)
    return answer_report(answer)


def _pack_workspace(records: Sequence[bytes]) -> bytes:
    buffer = io.BytesIO()
    # The time in the header would make two exports of the same records differ.
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path, rows in sorted(group_by_workspace_file([orjson.loads(record) for record in records]).items()):
            text = orjson.dumps(rows, option=orjson.OPT_INDENT_2)
            member = tarfile.TarInfo(f"knowledge/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return buffer.getvalue()
