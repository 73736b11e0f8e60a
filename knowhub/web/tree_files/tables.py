"""Keywords as an indented outline and as CSV. Infos are in neither."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.core.errors import FieldError, InvalidInput
from knowhub.keywords.exchange import ExportedKeyword

COLUMNS: Final = ("id", "parent_id", "name", "aliases", "description")
_INDENT: Final = "  "
_SEPARATOR: Final = " | "
_BULLET: Final = re.compile(r"[-*+]\s+")
_SEPARATORS: Final = re.compile(r"\s\|\s")
_TAB_COLUMNS: Final = 8
_MAX_NAMED: Final = 100


def render_line(keyword: ExportedKeyword) -> str:
    """Return a keyword as a line of an outline, two spaces a level: its name and its aliases, with ` | ` between."""
    names = [keyword.row["name"], *keyword.row["aliases"]]
    line = _SEPARATOR.join(" ".join(name.split()).replace("|", "\\|") for name in names)
    # A name may begin like an item of a list, or with the sign that says so.
    escaped = f"\\{line}" if _BULLET.match(line) or line.startswith("\\") else line
    return f"{_INDENT * keyword.level}{escaped}\n"


def parse_outline(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the keywords of an outline with their lines. A deeper line is below the nearest line that is less deep.

    Tabs and spaces indent; a list sign of Markdown before a name is dropped.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    above: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        plain = line.expandtabs(_TAB_COLUMNS)
        depth = len(plain) - len(plain.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        content = _BULLET.sub("", line.strip(), count=1) if _BULLET.match(line.strip()) else line.strip()
        names = [name.strip().replace("\\|", "|") for name in _SEPARATORS.split(content.removeprefix("\\"))]
        parent = {"parent_ref": str(above[-1][1])} if above else {}
        rows.append((number, {"ref": str(number), "name": names[0], "aliases": names[1:], **parent}))
        above.append((depth, number))
    return rows


def render_record(keyword: ExportedKeyword) -> str:
    """Return a keyword as a record of CSV with the fields of `COLUMNS`; aliases are separated by ` | `."""
    row = keyword.row
    aliases = _SEPARATOR.join(alias.replace("|", "\\|") for alias in row["aliases"])
    return render_fields([row["id"], keyword.parent_id or "", row["name"], aliases, row["description"]])


def render_fields(values: Sequence[str]) -> str:
    """Return a record of CSV."""
    buffer = io.StringIO()
    # A field is quoted if it has a character of the end of a line.
    csv.writer(buffer, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def parse_csv(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the keywords of a table with their lines, parents first. Only the column `name` is needed.

    `parent_id` is the `id` of another line. Raises InvalidInput for a wrong header, unknown parents and cycles.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        known = list(reader.fieldnames or ())
        if "name" not in known or not set(known) <= set(COLUMNS) or len(set(known)) < len(known):
            raise InvalidInput.of("lines.1", f"must name columns of {', '.join(COLUMNS)}, `name` among them")
        lines = [(reader.line_num, line) for line in reader]
    except csv.Error as error:
        raise InvalidInput.of(f"lines.{reader.line_num}", f"is not CSV: {error}") from error
    rows: dict[str, tuple[int, str | None, dict[str, Any]]] = {}
    for number, line in lines:
        if None in line or None in line.values():
            raise InvalidInput.of(f"lines.{number}", f"must have {len(known)} fields, as the header has")
        ref = line.get("id") or f"line {number}"
        if ref in rows:
            raise InvalidInput.of(f"lines.{number}.id", f"{ref!r} is in line {rows[ref][0]} already")
        aliases = _SEPARATORS.split(line.get("aliases") or "")
        row = {
            "ref": str(number),
            "name": line["name"],
            "aliases": [alias.strip().replace("\\|", "|") for alias in aliases if alias.strip()],
            "description": line.get("description") or "",
        }
        rows[ref] = (number, line.get("parent_id") or None, row)
    return sort_by_parent(rows, "lines", "parent_id")


def sort_by_parent(
    rows: Mapping[str, tuple[int, str | None, dict[str, Any]]], noun: str, field: str
) -> list[tuple[int, dict[str, Any]]]:
    """Return the numbered rows, now with `parent_ref`, each after the row that it is below.

    `rows` maps a ref to its number, the ref of the row above, and the row. Raises InvalidInput for rows above that are
    not there and for cycles, naming up to 100.
    """
    errors = [
        FieldError(f"{noun}.{number}.{field}", f"{parent!r} is not in the file")
        for number, parent, _ in rows.values()
        if parent is not None and parent not in rows
    ]
    below: dict[str | None, list[str]] = {}
    for ref, (_, parent, _) in rows.items():
        below.setdefault(parent, []).append(ref)
    order: list[str] = list(below.get(None, ()))
    for ref in order:
        order += below.get(ref, ())
    if not errors:
        endless = rows.keys() - set(order)
        errors = [
            FieldError(f"{noun}.{rows[ref][0]}.{field}", f"{ref!r} is below itself, or below one that is")
            for ref in sorted(endless, key=lambda ref: rows[ref][0])
        ]
    if errors:
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}; nothing was imported", errors[:_MAX_NAMED])
    placed = [rows[ref] for ref in order]
    for _, parent, row in placed:
        if parent is not None:
            row["parent_ref"] = rows[parent][2]["ref"]
    return [(number, row) for number, _, row in placed]
