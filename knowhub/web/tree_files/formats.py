"""The forms in which a keyword tree is exported and imported: JSON lines of everything, SKOS, an outline, CSV."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import Field, model_validator

from knowhub.bootstrap import Hub
from knowhub.core.clock import CooperativePause, free_in_turns, free_items
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput, TooLarge
from knowhub.core.operation import IdempotencyKey
from knowhub.core.request_context import RequestContext
from knowhub.keywords.exchange import MAX_ROWS, ExportedInfo, ExportedKeyword, ImportedTree, TreeImportResult
from knowhub.keywords.model import ROOT_ID, Dropped, RelationType, TreeFormat
from knowhub.web.json_limits import JsonLimits
from knowhub.web.json_parsing import MAX_WRONG_LINES, parse_json_lines
from knowhub.web.schemas.keywords import MAX_LINKS, InfoFields, KeywordItem, Relation, RowId
from knowhub.web.schemas.parts import Part
from knowhub.web.tree_files.skos import SKOS_BEGIN, SKOS_END, parse_skos, render_concept
from knowhub.web.tree_files.tables import COLUMNS, parse_csv, parse_outline, render_fields, render_line, render_record

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


class LineLink(Part):
    """The keyword of an info: `ref` names a keyword of this file, `keyword_id` a keyword that exists already."""

    ref: RowId | None = None
    keyword_id: RowId | None = None
    relation: Relation = RelationType.PRIMARY

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.ref is None) == (self.keyword_id is None):
            raise ValueError("must have either `ref` or `keyword_id`")
        return self


class KeywordLine(KeywordItem):
    """A line for a new keyword."""

    kind: Literal["keyword"]


class InfoLine(InfoFields):
    """A line for a new info."""

    kind: Literal["info"]
    links: Annotated[list[LineLink], Field(max_length=MAX_LINKS)] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TreeFile:
    """The rows of a file by number. `noun` says what is counted: lines, or concepts.

    `dropped` counts what the file has beyond keywords and infos.
    """

    keywords: dict[int, KeywordLine]
    infos: dict[int, InfoLine]
    noun: str = "lines"
    dropped: Dropped = field(default_factory=Dropped)


def get_media_type(form: TreeFormat) -> str:
    """Return the media type of an export."""
    return next(media_type for media_type, known in MEDIA_TYPES.items() if known is form)


def parse_tree_file(text: bytes, form: TreeFormat, limits: JsonLimits) -> TreeFile:
    """Parse a file. Raises InvalidInput, naming the line or the concept, and TooLarge."""
    if form is TreeFormat.JSONL:
        lines = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
        return _parse_tree_lines(lines, limits)
    dropped = Dropped()
    if form is TreeFormat.SKOS:
        rows, dropped = parse_skos(text)
    else:
        parse = parse_outline if form is TreeFormat.OUTLINE else parse_csv
        rows = parse(_decode(text))
    lines = [(number, orjson.dumps({"kind": "keyword", **row})) for number, row in rows]
    free_items(rows)
    file = _parse_tree_lines(lines, limits, "concepts" if form is TreeFormat.SKOS else "lines")
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
    begin, render, end = {
        TreeFormat.JSONL: ("", _render_keyword, ""),
        TreeFormat.SKOS: (SKOS_BEGIN, render_concept, SKOS_END),
        TreeFormat.OUTLINE: ("", render_line, ""),
        TreeFormat.CSV: (render_fields(COLUMNS), render_record, ""),
    }[form]
    yield begin.encode()
    yield from (b"" if keyword is None else render(keyword).encode() for keyword in keywords)
    if form is TreeFormat.JSONL:
        yield from (b"" if info is None else _render_info(info) for info in infos)
    yield end.encode()


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput.of("body", f"is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _render_keyword(keyword: ExportedKeyword) -> str:
    row = keyword.row
    parent = {} if keyword.parent_id is None else {"parent_ref": keyword.parent_id}
    rest = {name: row[name] for name in _KEYWORD_FIELDS}
    twin = {"allow_duplicate": True} if keyword.is_twin else {}
    return orjson.dumps({"kind": "keyword", "ref": row["id"], **parent, **rest, **twin}).decode() + "\n"


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


def _parse_tree_lines(lines: Sequence[tuple[int, bytes]], limits: JsonLimits, noun: str = "lines") -> TreeFile:
    """Parse numbered rows, each a JSON object with its `kind`.

    Raises InvalidInput with `<noun>.<number>.<field>` for each wrong row, at most 100 of them, and TooLarge.
    """
    if len(lines) > MAX_ROWS:
        raise TooLarge(f"an import takes at most {MAX_ROWS} keywords and infos, this one has {len(lines)}; split it")
    rows, errors = parse_json_lines(lines, limits, _parse_line)
    keywords = {number: row for number, row in rows.items() if isinstance(row, KeywordLine)}
    infos = {number: row for number, row in rows.items() if isinstance(row, InfoLine)}
    errors += _find_wrong_links(keywords, infos)
    if errors:
        named = [FieldError(error.field.replace("lines", noun, 1), error.message) for error in errors]
        raise InvalidInput(f"{named[0].field}: {named[0].message}; nothing was imported", named[:MAX_WRONG_LINES])
    if not rows:
        raise InvalidInput.of("body", "holds no keyword and no info")
    return TreeFile(keywords, infos, noun)


def _parse_line(value: Any) -> KeywordLine | InfoLine:  # noqa: ANN401 -- any JSON value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "keyword":
        return KeywordLine.model_validate(value)
    if kind == "info":
        return InfoLine.model_validate(value)
    raise ValueError("must say its `kind`: keyword or info")


def _find_wrong_links(keywords: Mapping[int, KeywordLine], infos: Mapping[int, InfoLine]) -> Iterator[FieldError]:
    """Yield too many links of an info, parents and links that name no line, and the refs that two lines share."""
    for number, info in infos.items():
        if len(info.links) + len(info.keyword_ids) > MAX_LINKS:
            yield FieldError(f"lines.{number}.links", f"at most {MAX_LINKS}, including `keyword_ids`")

    refs: set[str] = set()
    for number, keyword in keywords.items():
        if keyword.parent_ref is not None and keyword.parent_ref not in refs:
            yield FieldError(f"lines.{number}.parent_ref", f"no line above has the ref {keyword.parent_ref!r}")
        if keyword.ref in refs:
            yield FieldError(f"lines.{number}.ref", f"a line above has the ref {keyword.ref!r} already")
        refs |= {keyword.ref} if keyword.ref is not None else set()
    for number, info in infos.items():
        for index, link in enumerate(info.links):
            if link.ref is not None and link.ref not in refs:
                yield FieldError(f"lines.{number}.links.{index}.ref", f"no line has the ref {link.ref!r}")
