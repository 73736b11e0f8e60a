"""What the commands print: JSON or tables on stdout, everything else on stderr."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from knowhub.core.errors import InvalidInput, KnowHubError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.text import Text


_MAX_ERRORS = 20
_PIPE_WIDTH = 140
_LINE_CHARS = 120
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def say(text: str) -> None:
    """Print a line for a person on stdout."""
    sys.stdout.write(make_printable(text) + "\n")
    sys.stdout.flush()


def say_undo(operation_id: str | None) -> None:
    """Print how to undo an operation. Print nothing when there is no operation."""
    if operation_id is not None:
        say(f"undo it with: knowhub undo {operation_id}")


def say_degraded(parts: Iterable[str]) -> None:
    """Print the parts of the server that were missing, such as the language model."""
    for part in parts:
        say(f"did without: {part}")


def print_answer(answer: Any, *lines: str, as_json: bool, undo: str | None = None) -> None:  # noqa: ANN401 -- any JSON
    """Print what a command did: as the HTTP API answers, or in lines that end with how to undo the operation."""
    if as_json:
        print_json(answer)
        return
    for line in lines:
        say(line)
    say_undo(undo)


def print_either(answer: Any, show: Callable[[Any], None], *, as_json: bool) -> None:  # noqa: ANN401 -- any JSON
    """Print an answer: as the HTTP API answers, or as `show` prints it."""
    if as_json:
        print_json(answer)
    else:
        show(answer)


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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table on stdout. A value that is not a `cell` is shown as plain text."""
    from rich.console import Console
    from rich.table import Table

    # A pipe has no width of its own: the table gets the width that it needs.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    table = Table(title=cell(title) if title else None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    console.print(table)


def print_page(
    results: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Callable[[Mapping[str, Any]], object]],
    cursor: str | None = None,
    *,
    as_json: bool,
) -> None:
    """Print a page of a list: as the HTTP API answers, or as a table with how to read the next page.

    `columns` has the heading of each column, and what it shows of a row.
    """
    if as_json:
        print_json({"results": results, "count": len(results), "next_cursor": cursor})
        return
    print_table(tuple(columns), ([show(row) for show in columns.values()] for row in results))
    if cursor is not None:
        say(f"more with: --cursor {cursor}")


def cell(value: object, style: str = "") -> Text:
    """Make a table cell. Markup and control characters in the text have no effect."""
    from rich.text import Text

    return value if isinstance(value, Text) else Text(make_printable(str(value)), style=style)


def make_printable(text: str) -> str:
    """Replace what a terminal would obey. Spaces of every width and tabs stay."""
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n")
    return "".join(char if char.isprintable() or _is_harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in lines)


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
    if isinstance(error, InvalidInput):
        fields = error.errors[:_MAX_ERRORS]
        lines = [f"{item.field}: {item.message}" for item in fields]
        for line in lines if lines != [error.detail] else []:
            warn(f"  {line}")
        _warn_of_more(len(error.errors))
    for name, value in error.extra.items():
        values: Sequence[object] = value if isinstance(value, list) else [value]
        for item in values[:_MAX_ERRORS]:
            warn(f"  {name}: {_format_detail(item)}")
        _warn_of_more(len(values))


def _warn_of_more(count: int) -> None:
    if count > _MAX_ERRORS:
        warn(f"  … and {count - _MAX_ERRORS} more")


def _format_detail(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_join(part)}" for name, part in value.items())
    return str(value)


def _join(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_harmless(char: str) -> bool:
    # Python counts no space but the plain one as printable, nor the characters that join the parts of an emoji.
    return char in _HARMLESS or unicodedata.category(char) == "Zs"
