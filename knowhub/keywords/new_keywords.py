"""New keywords before their decision: rows, answers of a model, parents within a batch, and what is not kept."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.operation import Committed, Draft, Outcome, Row, View, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import edits, rendering
from knowhub.keywords.fields import prefix_errors
from knowhub.keywords.model import KEYWORDS, Dropped, NewKeyword, Node
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.search.prompts import ModelAnswer


@dataclass(slots=True)
class NewKeywordRow:
    """A keyword before its decision: its row without parent and times, and the normal forms of its names.

    `parent_id` is the id of its parent, or of the item of its batch that becomes its parent.
    """

    new: NewKeyword
    row: dict[str, Any]
    name_keys: Sequence[str]
    alias_keys: Mapping[str, Sequence[str]]
    parent_id: str

    @property
    def id(self) -> str:
        """The id of the row."""
        return str(self.row["id"])


@dataclass(slots=True)
class CreationAnswers:
    """The calls and decisions of a model while one keyword is created; `deadline` is on the monotonic clock."""

    deadline: float
    calls: list[Row] = field(default_factory=list)
    decided: dict[str, Any] = field(default_factory=dict)
    is_degraded: bool = False
    is_written: bool = False

    def get_remaining_s(self) -> float:
        """Return how many seconds are left for questions."""
        return max(self.deadline - time.monotonic(), 0.0)

    def add(self, outcome: ModelAnswer) -> None:
        """Add the calls of an answer, and whether it failed."""
        self.calls += outcome.calls
        self.is_degraded = self.is_degraded or outcome.failure is not None

    def set_written(self, outcome: Outcome) -> None:
        """Remember whether an operation has recorded the calls; that of a retry has not."""
        self.is_written = isinstance(outcome, Committed) and not outcome.replayed

    def make_draft(
        self, op: str, writes: Sequence[Write], row_id: str, placed: Mapping[str, Any] | None = None
    ) -> Draft:
        """Return a draft whose reply has the decisions of the model; `placed` overrides where the keyword was put."""
        degraded, decided = ["llm"] if self.is_degraded else [], {**self.decided, **(placed or {})}
        reply = {"id": row_id, "degraded": degraded, "decided": decided}
        return Draft(op, writes, reply=reply if degraded or decided else None, agent_io=self.calls or None)


def set_parents(new_rows: Sequence[NewKeywordRow], group: str) -> None:
    """Set the parents of items that are below earlier items. Raises InvalidInput for a wrong `ref` or `parent_ref`."""
    by_ref: dict[str, str] = {}
    for index, new_row in enumerate(new_rows):
        new = new_row.new
        with prefix_errors(f"{group}.{index}", item=index):
            if new.parent_ref is not None and new.parent_id is not None:
                raise InvalidInput.of("parent_ref", "names a parent beside `parent_id`; send one of them")
            if new.parent_ref is not None and new.parent_ref not in by_ref:
                raise InvalidInput.of("parent_ref", f"no earlier item has the ref {new.parent_ref!r}")
            if new.ref is not None and new.ref in by_ref:
                raise InvalidInput.of("ref", f"an earlier item has the ref {new.ref!r} already")
        if new.parent_ref is not None:
            new_row.parent_id = by_ref[new.parent_ref]
        if new.ref is not None:
            by_ref[new.ref] = new_row.id


def check_aliases_within(new_rows: Sequence[NewKeywordRow], group: str) -> None:
    """Raise Conflict if an alias of an item is the name of another item."""
    named: dict[str, list[int]] = {}
    for index, new_row in enumerate(new_rows):
        for name_key in new_row.name_keys:
            named.setdefault(name_key, []).append(index)
    for index, new_row in enumerate(new_rows):
        for alias, name_keys in new_row.alias_keys.items():
            for other in (other for name_key in name_keys for other in named.get(name_key, ()) if other != index):
                detail = f"{group}.{index}.aliases: {alias!r} is the name of {group}.{other}; choose another alias"
                raise Conflict(detail, {"item": index, "alias": alias})


def find_stored(
    view: View,
    ctx: RequestContext,
    text: KeywordText,
    new_row: NewKeywordRow,
    ids: Mapping[str, str],
    refs: Mapping[str | None, Sequence[str]] | None,
) -> Node | None:
    """Return the stored keyword that a new one means; None if it is new.

    A batch matches by path, unless a duplicate is allowed. An import has `refs`, the name keys of each item by its ref.
    It matches by id first, then by path. It never matches a keyword that is another item of the import, and for a
    duplicate none that an earlier item became (`ids`).
    """
    new, name_keys, parent_id = new_row.new, new_row.name_keys, ids.get(new_row.parent_id, new_row.parent_id)
    named = rendering.get_visible_node(view, ctx, new.ref) if refs is not None and new.ref is not None else None
    if named is not None and not set(name_keys).isdisjoint(text.name_keys(named.name)):
        above = rendering.list_visible_path(view, ctx, named.id)[-2:-1]
        if [node.id for node in above] == [parent_id]:
            return named
    if new.allow_duplicate and refs is None:
        return None
    for node in edits.iter_twins(view, ctx, text, name_keys, parent_id):
        is_other = not set((refs or {}).get(node.id, ())).isdisjoint(name_keys)
        if not is_other and not (new.allow_duplicate and node.id in ids):
            return node
    return None


def count_dropped(ctx: RequestContext, new_row: NewKeywordRow, row: Row, dropped: Dropped) -> None:
    """Count what a new keyword says and the row that it became does not: other spellings, and fields that differ."""
    new, own = new_row.new, new_row.row
    lost = len({new.name, *new.aliases} - {row["name"], *row["aliases"]})
    differs = (
        own["description"] not in {"", row["description"]}
        or any(row["metadata"].get(name) != value for name, value in own["metadata"].items())
        or (new.scopes is not None and set(own["scopes"]) != set(row["scopes"]))
        or (new.owner is not None and own["owner"] != row["owner"])
    )
    if ctx.can_edit(row["owner"]):
        dropped["aliases", "duplicate"] += lost
        dropped[KEYWORDS, "differs"] += differs
    else:
        dropped[KEYWORDS, "not_yours"] += bool(lost or differs)
