"""New keywords before their decision: rows, parents within a batch, and keywords that are there already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import keyword_rules, rendering
from knowhub.keywords.fields import prefix_errors
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node
from knowhub.keywords.ports import KeywordText


@dataclass(frozen=True, slots=True)
class NewKeywordRow:
    """A keyword before its decision: its row without parent and times, and the normal forms of its names."""

    new: NewKeyword
    row: dict[str, Any]
    name_tokens: Sequence[str]
    alias_tokens: Mapping[str, Sequence[str]]

    @property
    def id(self) -> str:
        """The id of the row."""
        return str(self.row["id"])


def get_parent_ids(items: Sequence[NewKeyword], new_rows: Sequence[NewKeywordRow], group: str = "items") -> list[str]:
    """Return the parent of each item: an existing keyword or an earlier item."""
    by_ref: dict[str, str] = {}
    parents = []
    for index, (new, new_row) in enumerate(zip(items, new_rows, strict=True)):
        with prefix_errors(f"{group}.{index}", item=index):
            if new.parent_ref is not None and new.parent_id is not None:
                raise InvalidInput.of("parent_ref", "names a parent beside `parent_id`; send one of them")
            if new.parent_ref is not None and new.parent_ref not in by_ref:
                raise InvalidInput.of("parent_ref", f"no earlier item has the ref {new.parent_ref!r}")
            if new.ref is not None and new.ref in by_ref:
                raise InvalidInput.of("ref", f"an earlier item has the ref {new.ref!r} already")
        parents.append(by_ref[new.parent_ref] if new.parent_ref is not None else new.parent_id or ROOT_ID)
        if new.ref is not None:
            by_ref[new.ref] = new_row.id
    return parents


def check_aliases_within(new_rows: Sequence[NewKeywordRow], group: str = "items") -> None:
    """Raise Conflict if an alias of an item is the name of another item."""
    named: dict[str, list[int]] = {}
    for index, new_row in enumerate(new_rows):
        for token in new_row.name_tokens:
            named.setdefault(token, []).append(index)
    for index, new_row in enumerate(new_rows):
        for alias, tokens in new_row.alias_tokens.items():
            for other in (other for token in tokens for other in named.get(token, ()) if other != index):
                detail = f"{group}.{index}.aliases: {alias!r} is the name of {group}.{other}; choose another alias"
                raise Conflict(detail, {"item": index, "alias": alias})


def merge_into_twin(
    view: View, ctx: RequestContext, text: KeywordText, new_row: NewKeywordRow, twin: Node
) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the row of a keyword with what a new one of its path adds, and whether that is refused.

    The row is None if nothing is added. To a keyword of somebody else nothing is.
    """
    row = rendering.get_keyword_row(view, twin.id)
    if not ctx.can_edit(twin.owner):
        return None, keyword_rules.add_fields(row, new_row.row, text) != row
    return keyword_rules.merge_rows(row, new_row.row, text, view.now), False
