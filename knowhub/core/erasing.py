"""What is left of an erased row: its owner, its scopes and its times, but no content."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core.operation import Draft, IdempotencyKey, Unchanged

ERASED = "erased"
"""The field that marks an erased row with `true`, in its newest state and in every line of the log."""
OWNED_FIELDS = frozenset({"id", "owner", "scopes", "version", "created_at", "updated_at", "deleted"})
"""The fields of every row with an owner."""
ERASING = "erase_"
"""The prefix of the names of operations that erase."""


@dataclass(frozen=True, slots=True)
class EraseRules:
    """How the rows of a collection are erased.

    `noun` names a row in messages. `kept` are the fields that stay, `blanks` the fields that are replaced, each with
    its new value. `optional` are the blanks that may be left out if an old line of the log has no room for them.
    `reply_fields` are the fields of an operation's reply that describe the row in other words, which no search for its
    texts finds. `merge_field` names the row into which a row was merged. `texts` are the fields whose texts are looked
    for elsewhere: the first that is not blank (`main_text`). `find_equal(view, row)` names live rows with the same
    text in another spelling. A row that `must_be_deleted` before it is erased may have live children.

    Rows of the collection `below` whose ids begin with this one's and a slash are part of it and erased with it.
    `quoted_by(id)` names the row that may quote this one. Its fields `quoting` are cleared where they mention this row,
    and always if `is_paraphrase(row)`: it then says the same in words that no search finds. Its field `metadata` may
    count the live rows, under `counted_as`.
    `find_derived(view, row)` names live rows that were made from this one, perhaps in other words.
    """

    noun: str
    blanks: Mapping[str, Any]
    texts: Sequence[str] = ()
    kept: frozenset[str] = OWNED_FIELDS
    optional: Sequence[str] = ()
    reply_fields: frozenset[str] = frozenset()
    merge_field: str | None = None
    must_be_deleted: bool = False
    below: str | None = None
    quoted_by: Callable[[str], tuple[str, str] | None] = lambda _row_id: None
    quoting: frozenset[str] = frozenset()
    counted_as: str | None = None
    is_paraphrase: Callable[[Mapping[str, Any]], bool] = lambda _row: False
    find_derived: Callable[[Any, Mapping[str, Any]], Sequence[tuple[str, str]]] = lambda _view, _row: ()
    find_equal: Callable[[Any, Mapping[str, Any]], Sequence[str]] = lambda _view, _row: ()

    @property
    def op(self) -> str:
        """The name of the operation that erases such a row."""
        return f"{ERASING}{self.noun}"

    def main_text(self, row: Mapping[str, Any]) -> str:
        """Return the text of a row by which rows that say the same are found; empty if it has none."""
        names = self.texts or [name for name, blank in self.blanks.items() if blank == ""]
        values = [str(row.get(name) or "") for name in names]
        return next((value for value in values if value.strip()), values[-1])

    def make_stub(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is left of a version of a row; its fields keep their order."""
        kept = {name: value for name, value in row.items() if name in self.kept or name in self.blanks}
        return {name: self.blanks.get(name, value) for name, value in kept.items()} | {ERASED: True}


def is_erased(row: Mapping[str, Any] | None) -> bool:
    """Return whether a row, or one version of it, is a stub."""
    return row is not None and row.get(ERASED) is True


@dataclass(frozen=True, slots=True)
class RowTraces:
    """What a store finds of a row before it is erased: its texts, and the rows that had one of them at some time.

    `rows` are collections and ids of other rows; their current state is not read. `parts` are ids of rows of its
    collection that were merged into it at some time, or into such a part. `below` are the rows that are erased with it.
    `mentions(text)` returns whether a text names the row or quotes a sentence of it.
    """

    texts: Sequence[str]
    rows: Sequence[tuple[str, str]]
    parts: Sequence[str] = ()
    below: Sequence[tuple[str, str]] = ()
    mentions: Callable[[str], bool] = lambda _text: False


DecideErasing: TypeAlias = Callable[[Any, RowTraces], "Draft | Unchanged"]


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """Which row a store shall erase, for whom, and the decision that writes what is left of it."""

    account: str
    actor: str
    collection: str
    id: str
    rules: EraseRules
    decide: DecideErasing
    idempotency: IdempotencyKey | None = None
