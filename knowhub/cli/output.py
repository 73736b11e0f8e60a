"""What the commands print: JSON or tables on stdout, everything else on stderr."""

import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from knowhub.core.errors import InvalidInput, KnowHubError
from knowhub.keywords.model import Written

_ERRORS_SHOWN = 20
_PIPED_WIDTH = 140
_LINE_CHARS = 120
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def console() -> Console:
    """Return the console of stdout; when that is a pipe it is as wide as a table needs."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=_PIPED_WIDTH)


def say(text: str) -> None:
    """Print a line for a person, on stdout."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def say_undo(operation_id: str | None) -> None:
    """Say how an operation is undone; nothing when there was none."""
    if operation_id is not None:
        say(f"undo it with: knowhub undo {operation_id}")


def created_answer(made: Written) -> dict[str, Any]:
    """Return what the HTTP API answers to the creation of a keyword or an info."""
    told: dict[str, Any] = {**made.row, "degraded": list(made.degraded)}
    decided = {"decided": made.decided} if made.decided else {}
    return {**told, **decided, "operation_id": made.operation_id}


def warn(text: str) -> None:
    """Print a line for a person, on stderr."""
    sys.stdout.flush()
    sys.stderr.write(printable(text) + "\n")


def print_json(value: Any) -> None:  # noqa: ANN401 -- any JSON value
    """Print one JSON value, in UTF-8 whatever the locale says; indented where a person looks at it."""
    options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(value, option=options))
    sys.stdout.buffer.flush()


def print_table(table: Table) -> None:
    """Print a table on stdout."""
    console().print(table)


def table(*columns: str, title: str | None = None) -> Table:
    """Make a table with these headings."""
    made = Table(
        title=cell(title) if title else None, title_justify="left", header_style="bold", show_lines=False, expand=False
    )
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def cell(text: object, style: str = "") -> Text:
    """Make a cell of text that somebody else wrote: no markup and no control characters in it are obeyed."""
    return Text(printable(str(text)), style=style)


def printable(text: str) -> str:
    """Return `text` without what a terminal would obey; spaces of every width and tabs stay."""
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n")
    return "".join(char if char.isprintable() or _is_harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in lines)


def one_line(text: str, chars: int = _LINE_CHARS) -> str:
    """Return `text` on one line of at most `chars` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= chars else joined[: chars - 1] + "…"


def print_refusal(problem: KnowHubError) -> None:
    """Say on stderr what was refused and what to do about it, with everything that the HTTP answer would name."""
    warn(f"knowhub: {problem.detail}")
    if isinstance(problem, InvalidInput):
        shown = problem.errors[:_ERRORS_SHOWN]
        lines = [f"{one.field}: {one.message}" for one in shown]
        for line in lines if lines != [problem.detail] else []:
            warn(f"  {line}")
        if len(problem.errors) > len(shown):
            warn(f"  … and {len(problem.errors) - len(shown)} more")
    for name, value in problem.extra.items():
        _warn_about(name, value)


def _warn_about(name: str, value: object) -> None:
    values: Sequence[object] = value if isinstance(value, list) else [value]
    for one in values[:_ERRORS_SHOWN]:
        said = ", ".join(f"{key} {_joined(part)}" for key, part in one.items()) if isinstance(one, Mapping) else one
        warn(f"  {name}: {said}")
    if len(values) > _ERRORS_SHOWN:
        warn(f"  … and {len(values) - _ERRORS_SHOWN} more")


def _joined(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Show bars on stderr while work is under way; nothing where nobody looks."""
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


def _is_harmless(char: str) -> bool:
    # Python counts no space but the plain one as printable, and not what joins the parts of an emoji.
    return char in _HARMLESS or unicodedata.category(char) == "Zs"
