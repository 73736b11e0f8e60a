"""What is heard in the messages of a session: statements that somebody means, and what happened."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpokenStatement:
    """A sentence that a person says of themselves or their world, in the message with this number.

    `text` is as it was said, `bare` as it is understood: lower case, quotations masked. `kind` is what of it lasts:
    `preference`, `habit`, `background`, `constraint` or `definition`, empty where no rule knows. `domain` is a field
    of work that it speaks of, `values` its single-valued facts: (home, berlin). Where it is not
    `is_meant`, it asks, supposes, hedges, or reports somebody else's words.
    """

    number: int
    text: str
    bare: str
    kind: str = ""
    domain: str = ""
    values: frozenset[tuple[str, str]] = frozenset()
    is_meant: bool = True


@dataclass(frozen=True, slots=True)
class Episode:
    """What happened in the messages of these numbers: a `pitfall`, an `outcome` or a `plan`."""

    kind: str
    task: str
    content: str
    numbers: Sequence[int]
