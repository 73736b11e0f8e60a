"""What is left of a row that is erased: who owns it, who sees it and when it stood, and nothing that it said."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core.operation import Draft, IdempotencyKey, Unchanged

ERASED = "erased"
"""The field, true, by which an erased row is known: as it stands, and in every line of the log that told of it."""
ERASING = "erase_"
"""How the name of every operation begins after which content is gone for good."""


@dataclass(frozen=True, slots=True)
class EraseRules:
    """What erasing must know of a collection.

    `noun` names a row to people. `kept` are the fields that stay as they are, `blanks` those that go, each with what
    stands there instead. `spare` are the blanks that a row can do without, where an old line has no room for them.
    `told` are the fields of an operation's reply in which somebody, a model perhaps, tells of the row in words of their
    own: no search for its texts would find them. `joined` is the field by which a row names another that it became
    part of. `says(row)` is the text by which rows are known to say the same, and `twins(view, row)` names live rows
    that say it in another spelling. Where `is_rooted`, a row that stands holds others up: it must have been deleted
    before it is erased.

    Rows of the collection `below` whose ids go on behind this one's, after a slash, are part of it and erased with it.
    `quoted_by(id)` names the row that may quote this one: of it the fields `quoting` go where they tell of this one,
    and where it `retells(row)`, in words in which no search would find this one.
    `made_of(view, row)` names live rows that were made of this one, in words of their own perhaps.
    """

    noun: str
    kept: frozenset[str]
    blanks: Mapping[str, Any]
    says: Callable[[Mapping[str, Any]], str]
    spare: tuple[str, ...] = ()
    told: frozenset[str] = frozenset()
    joined: str | None = None
    is_rooted: bool = False
    below: str | None = None
    quoted_by: Callable[[str], tuple[str, str] | None] = lambda _row_id: None
    quoting: frozenset[str] = frozenset()
    retells: Callable[[Mapping[str, Any]], bool] = lambda _row: False
    made_of: Callable[[Any, Mapping[str, Any]], Sequence[tuple[str, str]]] = lambda _view, _row: ()
    twins: Callable[[Any, Mapping[str, Any]], Sequence[str]] = lambda _view, _row: ()

    @property
    def op(self) -> str:
        """The name of the operation that erases such a row."""
        return f"{ERASING}{self.noun}"

    def stub(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is left of a version of a row; its fields keep their order."""
        kept = {name: value for name, value in row.items() if name in self.kept or name in self.blanks}
        return {name: self.blanks.get(name, value) for name, value in kept.items()} | {ERASED: True}


def is_erased(row: Mapping[str, Any] | None) -> bool:
    """Tell whether a row, or one version of it, is a stub."""
    return row is not None and row.get(ERASED) is True


@dataclass(frozen=True, slots=True)
class Found:
    """What a store finds of a row before it is erased: the texts that it said, and who else said one at some time.

    `rows` are collections and ids of other rows; how they stand now is not looked at. `parts` are ids of rows of its
    collection that became part of it at some time, or of such a part. `below` are the rows that are erased with it.
    `tells(text)` says whether a text tells of it, or quotes a sentence of it.
    """

    texts: Sequence[str]
    rows: Sequence[tuple[str, str]]
    parts: Sequence[str] = ()
    below: Sequence[tuple[str, str]] = ()
    tells: Callable[[str], bool] = lambda _text: False


DecideErasing: TypeAlias = Callable[[Any, Found], "Draft | Unchanged"]


@dataclass(frozen=True, slots=True)
class Erasing:
    """Which row a store shall erase, for whom, and the decision that writes what is left of it."""

    account: str
    actor: str
    collection: str
    id: str
    rules: EraseRules
    decide: DecideErasing
    idempotency: IdempotencyKey | None = None
