"""Rows of the tree as the product writes them, for tests of stores and views."""

from typing import Any

from knowhub.keywords import info_rules, keyword_rules
from knowhub.keywords.model import ROOT_ID, NewInfo, NewKeyword, RelationType
from tests.builders import START, local
from tests.fakes.plain_text import PlainText

TEXT = PlainText()


def keyword_row(row_id: str, name: str | None = None, parent_id: str = ROOT_ID, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a keyword: `aliases` … are fields of NewKeyword, `version` and `deleted` of rows."""
    fixed = {field: fields.pop(field) for field in ("version", "deleted") if field in fields}
    new = NewKeyword(name or row_id, **fields)
    return keyword_rules.make_keyword_row(new, (row_id, parent_id), local(), TEXT, START) | fixed


def info_row(row_id: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of an info: `content` … are fields of NewInfo, `version` and `deleted` of rows."""
    fixed = {field: fields.pop(field) for field in ("version", "deleted") if field in fields}
    new = NewInfo(**{"content": f"content of {row_id}"} | fields)
    return dict(info_rules.make_info_row(new, row_id, START, local())) | fixed


def link_row(info_id: str, keyword_id: str, relation: str = "PRIMARY", **fixed: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a link; `version` and `deleted` may be given."""
    row = info_rules.make_link_row(info_id, keyword_id, RelationType(relation), "user", None, START)
    return dict(row) | fixed
