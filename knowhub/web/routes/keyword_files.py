"""The keyword tree out and in, as files."""

import asyncio

import orjson
from starlette.responses import Response

from knowhub.keywords.model import TreeFormat
from knowhub.web.json_limits import make_json_limits
from knowhub.web.responses import answer_report, answer_stream
from knowhub.web.route import Call, Routes, TextAnswer, WriteCall
from knowhub.web.schemas import keyword_answers as answers
from knowhub.web.schemas import keywords as schemas
from knowhub.web.tree_files.formats import (
    MEDIA_TYPES,
    get_media_type,
    import_tree_file,
    parse_tree_file,
    render_tree,
)
from knowhub.web.views import make_tree_import_view

routes = Routes("/api/keywords", "keywords")

_LINES = [
    {"kind": "keyword", "ref": "db", "name": "数据库", "aliases": ["database"]},
    {"kind": "keyword", "ref": "redis", "parent_ref": "db", "name": "Redis"},
    {"kind": "info", "content": "SCAN，而不是 KEYS。", "links": [{"ref": "redis"}]},
]


@routes.add(
    "GET",
    "/export",
    {200: TextAnswer("The keywords, as a file.", tuple(map(get_media_type, TreeFormat)), is_file=True)},
    summary="Export the keyword tree that the caller sees",
)
async def export_keywords(call: Call, params: schemas.TreeExportParams) -> Response:
    """Export all keywords below the root, each after its parent; JSON lines have the infos and their links too."""
    exchange = call.hub.keywords.exchange
    keywords, infos = await exchange.export_keywords(call.ctx), await exchange.export_infos(call.ctx)
    return answer_stream(render_tree(params.format, keywords, infos), get_media_type(params.format))


@routes.add(
    "POST",
    "/import",
    {200: answers.TreeImportAnswer},
    summary="Import a keyword tree",
    examples={"a small tree": "".join(orjson.dumps(line).decode() + "\n" for line in _LINES)},
    is_large=True,
    media_types=tuple(MEDIA_TYPES),
)
async def import_keywords(call: WriteCall, lines: bytes, params: schemas.TreeImportParams) -> Response:
    """Import a file, all or nothing. Keywords are matched by their paths, so the same file twice changes nothing.

    `format` says what the file is. Without it the content type does, such as `text/csv`.
    """
    headers = {} if call.request is None else call.request.headers
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    form = params.format or MEDIA_TYPES.get(media_type, TreeFormat.JSONL)
    file = await asyncio.to_thread(parse_tree_file, lines, form, make_json_limits(call.hub.settings))
    answer = make_tree_import_view(await import_tree_file(call.hub, call.ctx, file, call.key), file.dropped)
    return answer_report(answer)
