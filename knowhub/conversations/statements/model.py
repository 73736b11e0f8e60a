"""A statement of a user, or a lesson of their tools, as it was said."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TypeAlias

Values: TypeAlias = tuple[tuple[str, str], ...]
"""Single-valued facts, each a slot and its value."""


class StatementKind(StrEnum):
    """What a statement is: an explicit request to remember, a self-introduction, and so on."""

    REQUEST = "request"
    INTRODUCTION = "introduction"
    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    PLAN = "plan"
    LESSON = "lesson"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it was said, and the numbers of its messages, the decisive one last.

    `values` are its single-valued facts: ("home", "berlin"); `ended` are those that are said not to be so any more.
    `day` is the day of a plan, which takes the place of an earlier one if it `is_change`; a change without a day says
    nothing but that. A plan that `is_over` is only ended. `task` is the problem of a lesson. `speaker` is named where
    several people speak as users.
    """

    kind: StatementKind
    text: str
    numbers: tuple[int, ...]
    values: Values = ()
    ended: Values = ()
    day: date | None = None
    is_change: bool = False
    is_over: bool = False
    task: str = ""
    speaker: str = ""
