"""`knowhub tree load`: a whole tree with its infos from JSON lines."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import orjson
import typer
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import ids_of, settings_of, use_hub
from knowhub.cli.options import Caller, Place, spread
from knowhub.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_decisions
from knowhub.keywords.creation import naming_item
from knowhub.keywords.model import NewInfo, RelationType
from knowhub.web.middleware import is_deeper
from knowhub.web.schemas.keywords import MAX_LINKS, InfoFields, KeywordItem, Relation, RowId
from knowhub.web.schemas.knowledge import MAX_ITEMS
from knowhub.web.schemas.parts import Part

_STREAM = "-"
_MAX_WRONG = 100
_ITEM = re.compile(r"\bitems\.(\d+)")


class Link(Part):
    """To which keyword an info is linked: one of this file by its `ref`, or one that stands already by its id."""

    ref: RowId | None = None
    keyword_id: RowId | None = None
    relation: Relation = RelationType.PRIMARY

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.ref is None) == (self.keyword_id is None):
            raise ValueError("must have either `ref` or `keyword_id`")
        return self


class KeywordLine(KeywordItem):
    """A line that makes a keyword."""

    kind: Literal["keyword"]


class InfoLine(InfoFields):
    """A line that makes an info."""

    kind: Literal["info"]
    links: Annotated[list[Link], Field(max_length=MAX_LINKS)] = Field(default_factory=list)


_LINES: TypeAdapter[KeywordLine | InfoLine] = TypeAdapter(
    Annotated[KeywordLine | InfoLine, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class TreeFile:
    """The lines of a file, by their numbers in it."""

    keywords: Mapping[int, KeywordLine]
    infos: Mapping[int, InfoLine]


@dataclass(frozen=True, slots=True)
class Loaded:
    """How much was written, and by which operations."""

    keywords: int
    infos: int
    links: int
    operation_ids: Sequence[str]


@spread
def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - is stdin.", show_default=False)],
    caller: Caller,
    place: Place,
) -> None:
    """Load keywords and infos: all keywords in one operation, all infos in another.

    The file is checked whole before anything is written.
    """
    ids = ids_of(caller)
    text = sys.stdin.buffer.read() if file == _STREAM else Path(file).read_bytes()
    parsed = parse(text, settings_of(place).max_json_depth)

    async def work(hub: Hub) -> Loaded:
        return await _load(hub, ids.context(hub.default_owner), parsed)

    done = use_hub(place, work, make=True)
    if place.as_json:
        counts = {"keywords": done.keywords, "infos": done.infos, "links": done.links}
        last = done.operation_ids[-1] if done.operation_ids else None
        output.print_json({**counts, "operation_ids": done.operation_ids, "operation_id": last})
        return
    output.say(f"loaded {done.keywords} keywords and {done.infos} infos with {done.links} links")


def parse(text: bytes, max_depth: int) -> TreeFile:
    """Parse the lines of a tree file; blank ones are skipped.

    Raises InvalidInput naming `lines.<number>.<field>` for each line that is wrong, up to 100 of them.
    """
    keywords: dict[int, KeywordLine] = {}
    infos: dict[int, InfoLine] = {}
    errors: list[FieldError] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            if is_deeper(line, max_depth):
                errors.append(FieldError(f"lines.{number}", f"JSON is nested more than {max_depth} deep"))
                continue
            parsed = _LINES.validate_python(orjson.loads(line))
        except orjson.JSONDecodeError as problem:
            errors.append(FieldError(f"lines.{number}", f"is not JSON: {problem}"))
        except ValidationError as problem:
            errors += _line_errors(number, problem)
        else:
            if isinstance(parsed, KeywordLine):
                keywords[number] = parsed
            else:
                infos[number] = parsed
    errors += _misfits(keywords, infos)
    if errors:
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}; nothing was loaded", errors[:_MAX_WRONG])
    return TreeFile(keywords, infos)


async def _load(hub: Hub, ctx: RequestContext, file: TreeFile) -> Loaded:
    links = [link for info in file.infos.values() for link in info.links]
    given = [keyword_id for info in file.infos.values() for keyword_id in info.keyword_ids]
    for named in {*given, *(link.keyword_id for link in links if link.keyword_id is not None)}:
        # One that is not there is said before the first write.
        await hub.keywords.get(ctx, named)
    _check_infos(file.infos, ctx, hub.clock.now())
    operations: list[str | None] = []
    ids: dict[str, str] = {}
    if file.keywords:
        with _by_line(file.keywords):
            made = await hub.keywords.create_batch(ctx, [line.to_new() for line in file.keywords.values()])
        operations.append(made.operation_id)
        refs = [line.ref for line in file.keywords.values()]
        ids = {ref: row["id"] for ref, row in zip(refs, made.rows, strict=True) if ref is not None}
    if file.infos:
        with _by_line(file.infos):
            saved = await hub.infos.create_batch(ctx, [_linked(line, ids) for line in file.infos.values()])
        operations.append(saved.operation_id)
    written = [operation_id for operation_id in operations if operation_id is not None]
    return Loaded(len(file.keywords), len(file.infos), len(links) + len(given), written)


def _check_infos(infos: Mapping[int, InfoLine], ctx: RequestContext, now: float) -> None:
    """Raise what saving the infos would: the keywords are written before them, and must not stay behind alone."""
    with _by_line(infos):
        for index, line in enumerate(infos.values()):
            with naming_item(index):
                info_decisions.new_info_row(line.to_new(), "checked", now, ctx)


def _linked(line: InfoLine, ids: Mapping[str, str]) -> NewInfo:
    return replace(line.to_new(), links=[(_target(link, ids), link.relation) for link in line.links])


def _target(link: Link, ids: Mapping[str, str]) -> str:
    return link.keyword_id if link.keyword_id is not None else ids[link.ref or ""]


def _misfits(keywords: Mapping[int, KeywordLine], infos: Mapping[int, InfoLine]) -> list[FieldError]:
    """Say which lines do not fit the others: a parent that does not stand above, a link to nothing, too many lines."""
    errors = []
    for kind, lines in (("keywords", keywords), ("infos", infos)):
        if len(lines) > MAX_ITEMS:
            errors.append(FieldError(kind, f"at most {MAX_ITEMS} at a time; these are {len(lines)}"))
    refs: set[str] = set()
    for number, keyword in keywords.items():
        if keyword.parent_ref is not None and keyword.parent_ref not in refs:
            errors.append(FieldError(f"lines.{number}.parent_ref", f"no line above has the ref {keyword.parent_ref!r}"))
        if keyword.ref in refs:
            errors.append(FieldError(f"lines.{number}.ref", f"a line above has the ref {keyword.ref!r} already"))
        refs |= {keyword.ref} if keyword.ref is not None else set()
    for number, info in infos.items():
        if len(info.links) + len(info.keyword_ids) > MAX_LINKS:
            errors.append(FieldError(f"lines.{number}.links", f"at most {MAX_LINKS}, with those of `keyword_ids`"))
        for index, link in enumerate(info.links):
            if link.ref is not None and link.ref not in refs:
                errors.append(FieldError(f"lines.{number}.links.{index}.ref", f"no line has the ref {link.ref!r}"))
    return errors


def _line_errors(number: int, problem: ValidationError) -> list[FieldError]:
    found = []
    for error in problem.errors():
        # The first part is the kind of line, which the reader sees.
        path = ".".join(map(str, (number, *error["loc"][1:])))
        is_of_no_kind = str(error["type"]).startswith("union_tag")
        message = "must say its `kind`: keyword or info" if is_of_no_kind else str(error["msg"])
        found.append(FieldError(f"lines.{path}", message.removeprefix("Value error, ")))
    return found


@contextmanager
def _by_line(lines: Iterable[int]) -> Iterator[None]:
    """Name the line of the file where a batch names its item."""
    numbers = list(lines)

    def named(text: str) -> str:
        return _ITEM.sub(lambda found: f"lines.{numbers[int(found[1])]}", text)

    try:
        yield
    except InvalidInput as problem:
        errors = [FieldError(named(one.field), named(one.message)) for one in problem.errors]
        raise InvalidInput(named(problem.detail), errors) from problem
    except (Conflict, Forbidden) as problem:
        extra = {name: value for name, value in problem.extra.items() if name != "item"}
        raise type(problem)(named(problem.detail), extra) from problem
