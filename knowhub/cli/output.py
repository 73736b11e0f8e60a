"""What the commands print: JSON or tables on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias
from unicodedata import category

from knowhub.core.errors import InvalidInput, KnowHubError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text


Columns: TypeAlias = Mapping[str, str | Callable[[Mapping[str, Any]], object]]
"""The headings of a table, each with a field of a row, or with what else its column shows of the row."""
_MAX_ERRORS = 20
_PIPE_WIDTH = 140
_LINE_CHARS = 120
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def say(text: str) -> None:
    """Print a line for a person on stdout."""
    sys.stdout.write(make_printable(text) + "\n")
    sys.stdout.flush()


def list_undo(operation_id: str | None) -> list[str]:
    """Return how to undo an operation; nothing when there is no operation."""
    return [] if operation_id is None else [f"undo it with: knowhub undo {operation_id}"]


def list_degraded(parts: Iterable[str]) -> list[str]:
    """Return the parts of the server that were missing, such as the language model."""
    return [f"did without: {part}" for part in parts]


def print_answer(answer: Any, parts: Iterable[str | Table], *, as_json: bool) -> None:  # noqa: ANN401 -- any JSON
    """Print what a command did: as the HTTP API answers, or in lines and tables for a person."""
    if as_json:
        print_json(answer)
        return
    for part in parts:
        if isinstance(part, str):
            say(part)
        else:
            _make_console().print(part)


def warn(text: str) -> None:
    """Print a line for a person on stderr."""
    sys.stdout.flush()
    sys.stderr.write(make_printable(text) + "\n")


def print_json(value: Any) -> None:  # noqa: ANN401 -- any JSON value
    """Print a JSON value in UTF-8, whatever the locale says. It is indented on a terminal."""
    import orjson

    options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(value, option=options))
    sys.stdout.buffer.flush()


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """Make a table. A value that is not a cell of `make_cell` is shown as plain text."""
    from rich.table import Table

    table = Table(title=make_cell(title) if title else None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(make_cell, row))
    return table


def _make_console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    # A pipe has no width of its own: a table gets the width that it needs.
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def list_page(page: Mapping[str, Any], columns: Columns) -> Iterator[str | Table]:
    """Yield the table of a page, and how to read the next page."""
    shown = (
        [row[show] if isinstance(show, str) else show(row) for show in columns.values()] for row in page["results"]
    )
    yield make_table(tuple(columns), shown)
    if page.get("next_cursor") is not None:
        yield f"more with: --cursor {page['next_cursor']}"


def list_fields(row: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the table of all fields of a row. A list or an object is shown as JSON."""
    import orjson

    plain = (str, int, float, NoneType)
    rows = [(name, value if isinstance(value, plain) else orjson.dumps(value).decode()) for name, value in row.items()]
    yield make_table(("field", "value"), rows)


def make_cell(value: object, style: str = "") -> Text:
    """Make a table cell. Markup and control characters in the text have no effect."""
    from rich.text import Text

    return value if isinstance(value, Text) else Text(make_printable(str(value)), style=style)


def make_printable(text: str) -> str:
    """Replace what a terminal would obey. Spaces of every width and tabs stay."""
    if text.isprintable():
        return text
    # Python counts no space but the plain one as printable, nor the characters that join the parts of an emoji.
    return "".join(
        char if char.isprintable() or char in _HARMLESS or category(char) == "Zs" else "\N{REPLACEMENT CHARACTER}"
        for char in text.replace("\r\n", "\n")
    )


def shorten(text: str, max_chars: int = _LINE_CHARS) -> str:
    """Return `text` on one line of at most `max_chars` characters."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


@contextmanager
def show_progress(quiet: bool) -> Iterator[Progress]:
    """Show progress bars on stderr. Show nothing when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=quiet or not screen.is_terminal) as bars:
        yield bars


def print_refusal(error: KnowHubError) -> None:
    """Print on stderr what was refused and what to do, with every field of the HTTP answer."""
    warn(f"knowhub: {error.detail}")
    fields = [f"{item.field}: {item.message}" for item in error.errors] if isinstance(error, InvalidInput) else []
    groups = [fields if fields != [error.detail] else []]
    for name, value in error.extra.items():
        groups.append([f"{name}: {_format_detail(item)}" for item in (value if isinstance(value, list) else [value])])
    for lines in groups:
        more = [f"… and {len(lines) - _MAX_ERRORS} more"] if len(lines) > _MAX_ERRORS else []
        for line in [*lines[:_MAX_ERRORS], *more]:
            warn(f"  {line}")


def _format_detail(value: object) -> str:
    if isinstance(value, Mapping):
        parts = {name: " ".join(map(str, part)) if isinstance(part, list) else part for name, part in value.items()}
        return ", ".join(f"{name} {part}" for name, part in parts.items())
    return str(value)
