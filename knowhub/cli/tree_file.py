"""The file of `knowhub tree load`: a tree of keywords with their infos, as JSON lines."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from knowhub.bootstrap import Hub
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules
from knowhub.keywords.batches import prefix_item_errors
from knowhub.keywords.model import RelationType
from knowhub.web.json_text import MAX_WRONG_LINES, JsonLimits, parse_json_lines
from knowhub.web.schemas.keywords import MAX_LINKS, InfoFields, KeywordItem, Relation, RowId
from knowhub.web.schemas.knowledge import MAX_ITEMS
from knowhub.web.schemas.parts import Part

_ITEM = re.compile(r"\bitems\.(\d+)")


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
    """The lines of a file, by line number."""

    keywords: Mapping[int, KeywordLine]
    infos: Mapping[int, InfoLine]


def parse_tree(text: bytes, limits: JsonLimits) -> TreeFile:
    """Parse the lines of a tree file. Blank lines are skipped.

    Raises InvalidInput with `lines.<number>.<field>` for each wrong line, at most 100 of them.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    rows, errors = parse_json_lines(lines, limits, _parse_line)
    keywords = {number: row for number, row in rows.items() if isinstance(row, KeywordLine)}
    infos = {number: row for number, row in rows.items() if isinstance(row, InfoLine)}
    errors += [*_size_errors(keywords, infos), *_reference_errors(keywords, infos)]
    if errors:
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}; nothing was loaded", errors[:MAX_WRONG_LINES])
    return TreeFile(keywords, infos)


async def write_tree(hub: Hub, ctx: RequestContext, file: TreeFile) -> list[str]:
    """Write the keywords and then the infos of a file, and return the ids of these operations.

    Everything is checked first: a refused info must not leave the keywords behind.
    """
    linked = {link.keyword_id for info in file.infos.values() for link in info.links if link.keyword_id is not None}
    for keyword_id in linked.union(*(info.keyword_ids for info in file.infos.values())):
        await hub.keywords.tree.get(ctx, keyword_id)
    with _name_lines(file.infos):
        for index, info in enumerate(file.infos.values()):
            with prefix_item_errors(index):
                info_rules.new_info_row(info.to_new(), "checked", hub.clock.now(), ctx)

    operations: list[str | None] = []
    ids: dict[str | None, str] = {}
    if file.keywords:
        with _name_lines(file.keywords):
            batch = await hub.keywords.tree.create_batch(ctx, [line.to_new() for line in file.keywords.values()])
        operations.append(batch.operation_id)
        ids = {line.ref: row["id"] for line, row in zip(file.keywords.values(), batch.rows, strict=True)}
    if file.infos:
        infos = []
        for line in file.infos.values():
            links = [(link.keyword_id or ids[link.ref], link.relation) for link in line.links]
            infos.append(replace(line.to_new(), links=links))
        with _name_lines(file.infos):
            batch = await hub.keywords.infos.create_batch(ctx, infos)
        operations.append(batch.operation_id)
    return [operation_id for operation_id in operations if operation_id is not None]


def _parse_line(value: Any) -> KeywordLine | InfoLine:  # noqa: ANN401 -- any JSON value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "keyword":
        return KeywordLine.model_validate(value)
    if kind == "info":
        return InfoLine.model_validate(value)
    raise ValueError("must say its `kind`: keyword or info")


def _size_errors(keywords: Mapping[int, KeywordLine], infos: Mapping[int, InfoLine]) -> Iterator[FieldError]:
    for kind, count in (("keywords", len(keywords)), ("infos", len(infos))):
        if count > MAX_ITEMS:
            yield FieldError(kind, f"at most {MAX_ITEMS} in a file; there are {count}")
    for number, info in infos.items():
        if len(info.links) + len(info.keyword_ids) > MAX_LINKS:
            yield FieldError(f"lines.{number}.links", f"at most {MAX_LINKS}, including `keyword_ids`")


def _reference_errors(keywords: Mapping[int, KeywordLine], infos: Mapping[int, InfoLine]) -> Iterator[FieldError]:
    """Yield the parents and links that name no line, and the refs that two lines share."""
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


@contextmanager
def _name_lines(lines: Iterable[int]) -> Iterator[None]:
    """Replace the item of a batch in an error by its line of the file."""
    numbers = list(lines)

    def rename(text: str) -> str:
        return _ITEM.sub(lambda match: f"lines.{numbers[int(match[1])]}", text)

    try:
        yield
    except InvalidInput as error:
        errors = [FieldError(rename(item.field), rename(item.message)) for item in error.errors]
        raise InvalidInput(rename(error.detail), errors) from error
    except (Conflict, Forbidden) as error:
        extra = {name: value for name, value in error.extra.items() if name != "item"}
        raise type(error)(rename(error.detail), extra) from error
