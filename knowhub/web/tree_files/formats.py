"""The forms in which a keyword tree is exported and imported: JSON lines of everything, SKOS, an outline, CSV."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import orjson

from knowhub.bootstrap import Hub
from knowhub.core.clock import CooperativePause, free_in_turns, free_items
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from knowhub.core.operation import IdempotencyKey
from knowhub.core.request_context import RequestContext
from knowhub.keywords.exchange import ExportedInfo, ExportedKeyword, ImportedTree, TreeImportResult
from knowhub.keywords.model import ROOT_ID, TreeFormat
from knowhub.web.json_text import JsonLimits
from knowhub.web.tree_files.lines import TreeFile, parse_tree_lines
from knowhub.web.tree_files.skos import parse_skos, render_skos
from knowhub.web.tree_files.tables import parse_csv, parse_outline, render_csv, render_outline

_ITEM: Final = re.compile(r"\b(keywords|infos)\.(\d+)")
_KEYWORD_FIELDS: Final = ("name", "aliases", "description", "metadata", "scopes", "owner")
_INFO_FIELDS: Final = ("content", "source", "metadata", "scopes", "owner")


MEDIA_TYPES: Final = {
    "application/x-ndjson": TreeFormat.JSONL,
    "application/jsonl": TreeFormat.JSONL,
    "application/x-jsonlines": TreeFormat.JSONL,
    "application/rdf+xml": TreeFormat.SKOS,
    "application/xml": TreeFormat.SKOS,
    "text/xml": TreeFormat.SKOS,
    "text/plain": TreeFormat.OUTLINE,
    "text/csv": TreeFormat.CSV,
}
"""The format of a body, where the request names none. The first type of a format is that of its exports."""


def get_media_type(form: TreeFormat) -> str:
    """Return the media type of an export."""
    return next(media_type for media_type, known in MEDIA_TYPES.items() if known is form)


def parse_tree_file(text: bytes, form: TreeFormat, limits: JsonLimits) -> TreeFile:
    """Parse a file. Raises InvalidInput, naming the line or the concept, and TooLarge."""
    if form is TreeFormat.JSONL:
        lines = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
        return parse_tree_lines(lines, limits)
    dropped: Mapping[str, int] = {}
    if form is TreeFormat.SKOS:
        rows, dropped = parse_skos(text)
    else:
        parse = parse_outline if form is TreeFormat.OUTLINE else parse_csv
        rows = parse(_decode(text))
    lines = [(number, orjson.dumps({"kind": "keyword", **row})) for number, row in rows]
    free_items(rows)
    file = parse_tree_lines(lines, limits, "concepts" if form is TreeFormat.SKOS else "lines")
    return replace(file, dropped=dropped)


async def import_tree_file(
    hub: Hub, ctx: RequestContext, file: TreeFile, key: IdempotencyKey | None = None
) -> TreeImportResult:
    """Import a parsed file: all of it, or nothing. A parent or a link may name a keyword that is there by its path.

    The file is empty afterwards. Raises InvalidInput, Conflict and Forbidden, naming the line or the concept.
    """
    find_id, pace = hub.keywords.tree.find_id, CooperativePause()
    keywords, infos, refs = [], [], []
    for line in file.keywords.values():
        parent_id = None if line.parent_id is None else await find_id(ctx, line.parent_id)
        keywords.append(replace(line.to_new(), parent_id=parent_id))
        await pace.pause()
    for info in file.infos.values():
        keyword_ids = [await find_id(ctx, given) for given in info.keyword_ids]
        stored = [(link.keyword_id, link.relation) for link in info.links if link.keyword_id is not None]
        links = [(await find_id(ctx, keyword_id), relation) for keyword_id, relation in stored]
        infos.append(replace(info.to_new(), keyword_ids=keyword_ids, links=links))
        refs.append([(link.ref, link.relation) for link in info.links if link.ref is not None])
        await pace.pause()
    try:
        with _name_rows(file):
            return await hub.keywords.exchange.import_tree(ctx, ImportedTree(keywords, infos, refs), key)
    finally:
        await free_in_turns(file.keywords, file.infos, keywords, infos, refs)


def render_tree(
    form: TreeFormat, keywords: Iterator[ExportedKeyword | None], infos: Iterator[ExportedInfo | None]
) -> Iterator[bytes]:
    """Yield the parts of an export; an empty part for what is not exported, so that the caller may pause."""
    if form is TreeFormat.JSONL:
        yield from (b"" if keyword is None else _render_keyword(keyword) for keyword in keywords)
        yield from (b"" if info is None else _render_info(info) for info in infos)
        return
    render = {TreeFormat.SKOS: render_skos, TreeFormat.OUTLINE: render_outline, TreeFormat.CSV: render_csv}[form]
    yield from (part.encode() for part in render(keywords))


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput.of("body", f"is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _render_keyword(keyword: ExportedKeyword) -> bytes:
    row = keyword.row
    parent = {} if keyword.parent_id is None else {"parent_ref": keyword.parent_id}
    rest = {name: row[name] for name in _KEYWORD_FIELDS}
    return orjson.dumps({"kind": "keyword", "ref": row["id"], **parent, **rest}) + b"\n"


def _render_info(info: ExportedInfo) -> bytes:
    links = [
        {("keyword_id" if link["keyword_id"] == ROOT_ID else "ref"): link["keyword_id"], "relation": link["relation"]}
        for link in info.links
    ]
    makers = {"created_by": info.links[0]["created_by"]} if info.links else {}
    rest = {name: info.row[name] for name in _INFO_FIELDS}
    return orjson.dumps({"kind": "info", **rest, "links": links, **makers}) + b"\n"


@contextmanager
def _name_rows(file: TreeFile) -> Iterator[None]:
    """Replace the positions of keywords and infos in an error by the lines of the file."""
    numbers = {"keywords": list(file.keywords), "infos": list(file.infos)}

    def rename(text: str) -> str:
        return _ITEM.sub(lambda match: f"{file.noun}.{numbers[match[1]][int(match[2])]}", text)

    try:
        yield
    except InvalidInput as error:
        errors = [FieldError(rename(item.field), rename(item.message)) for item in error.errors]
        raise InvalidInput(rename(error.detail), errors) from error
    except (Conflict, Forbidden) as error:
        extra = {name: value for name, value in error.extra.items() if name != "item"}
        raise type(error)(rename(error.detail), extra) from error
