"""What a domain tells of its questions to a model, so that a recorded one can be asked again and compared (KT-251)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from knowhub.core.choices import Choices
from knowhub.core.operation import Row

UNUSABLE: Row = {"failure": "unusable_answer"}
"""What an answer decides that nothing can be made of."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a question showed: what each idx stood for, and the data of its prompt, empty where there is none."""

    choices: Choices
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Replayable:
    """One function that models are asked: the shape of its answers, and what an answer decides.

    `meaning` leaves out reasons and orders that decide nothing, so that equal decisions are equal; what points at
    nothing that was shown may be told as it likes. `text` is what an answer writes: told, and not compared, as no two
    models write the same words. Both raise nothing for any mapping.
    """

    schema: Mapping[str, Any]
    meaning: Callable[[Mapping[str, Any], Shown], Row]
    text: Callable[[Mapping[str, Any]], str] = lambda _answer: ""


def by_choices(schema: Mapping[str, Any], meaning: Callable[[Mapping[str, Any], Choices], Row]) -> Replayable:
    """Return a function whose answers decide by what they point at alone."""
    return Replayable(schema, lambda answer, shown: meaning(answer, shown.choices))
