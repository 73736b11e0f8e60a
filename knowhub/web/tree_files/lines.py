"""The rows of a tree file: keywords and infos as JSON lines, checked by the models of the API."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from knowhub.core.errors import FieldError, InvalidInput, TooLarge
from knowhub.keywords.exchange import MAX_ROWS
from knowhub.keywords.model import RelationType
from knowhub.web.json_text import MAX_WRONG_LINES, JsonLimits, parse_json_lines
from knowhub.web.schemas.keywords import MAX_LINKS, InfoFields, KeywordItem, Relation, RowId
from knowhub.web.schemas.parts import Part


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

    `dropped` counts what the file has beyond keywords and infos, by its name.
    """

    keywords: dict[int, KeywordLine]
    infos: dict[int, InfoLine]
    noun: str = "lines"
    dropped: Mapping[str, int] = field(default_factory=dict)


def parse_tree_lines(lines: Sequence[tuple[int, bytes]], limits: JsonLimits, noun: str = "lines") -> TreeFile:
    """Parse numbered rows, each a JSON object with its `kind`.

    Raises InvalidInput with `<noun>.<number>.<field>` for each wrong row, at most 100 of them, and TooLarge.
    """
    if len(lines) > MAX_ROWS:
        raise TooLarge(f"an import takes at most {MAX_ROWS} keywords and infos, this one has {len(lines)}; split it")
    rows, errors = parse_json_lines(lines, limits, _parse_line)
    keywords = {number: row for number, row in rows.items() if isinstance(row, KeywordLine)}
    infos = {number: row for number, row in rows.items() if isinstance(row, InfoLine)}
    errors += [*_link_errors(infos), *_reference_errors(keywords, infos)]
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


def _link_errors(infos: Mapping[int, InfoLine]) -> Iterator[FieldError]:
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
