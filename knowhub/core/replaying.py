"""What a domain tells of its questions to a model, so that a recorded one can be asked again and compared (KT-251)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from knowhub.core.choices import Choices
from knowhub.core.operation import Row


@dataclass(frozen=True, slots=True)
class Replayable:
    """One function that models are asked: the shape of its answers, and what an answer decides.

    `meaning` leaves out reasons and orders that decide nothing, so that equal decisions are equal; what points at
    nothing that was shown may be told as it likes. It raises nothing for any mapping.
    """

    schema: Mapping[str, Any]
    meaning: Callable[[Mapping[str, Any], Choices], Row]
