"""Forgetting one message: what its session is said to be about must not go on quoting it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.context.commit.archive_builder import SUMMARISED_MESSAGES, ArchiveBuilder
from knowhub.context.commit.parts import message_of
from knowhub.context.edits import row_at
from knowhub.context.model import NODES, ContextHead
from knowhub.context.ports import ContextView
from knowhub.core import clock
from knowhub.core.operation import Row, Write, is_live, next_version

_COUNT = "message_count"


@dataclass(frozen=True, slots=True)
class SummedUp:
    """A session without one of its messages: which are left, and an abstract and an overview of those."""

    left: Sequence[str]
    abstract: str
    overview: str


class Forgetting:
    """Sums sessions up anew, by their own sentences."""

    def __init__(self, archives: ArchiveBuilder) -> None:
        self._archives = archives

    async def summed_up(self, view: ContextView, head: ContextHead) -> SummedUp | None:
        """Sum a session up without one of its messages; None for what is no message. Nobody else waits for it."""
        if not head.is_part:
            return None
        left = _left(view, head)
        messages = [message_of(row_at(view, one)) for one in left[-SUMMARISED_MESSAGES:]]
        abstract, overview = await asyncio.to_thread(self._archives.extracted, messages) if messages else ("", "")
        return SummedUp([one.uri for one in left], abstract, overview)

    def session(self, view: ContextView, head: ContextHead, told: SummedUp) -> list[Write]:
        """Say how the node of a session shall stand when one of its messages goes.

        Where others wrote to the session meanwhile nothing is said of what it is about until the next commit: what
        they said is not in the summary, and what goes must not be.
        """
        row = view.get(NODES, head.parent_uri)
        if row is None or not is_live(row):
            return []
        left = [one.uri for one in _left(view, head)]
        is_newest = left == list(told.left)
        return [Write(NODES, head.parent_uri, _without(row, told if is_newest else SummedUp(left, "", ""), view.now))]


def _left(view: ContextView, head: ContextHead) -> list[ContextHead]:
    return [one for one in view.context_parts(head.parent_uri) if one.uri != head.uri]


def _without(row: Row, told: SummedUp, now: float) -> dict[str, Any]:
    return {
        **row,
        "abstract": told.abstract,
        "overview": told.overview,
        "metadata": {**row["metadata"], "by": "rules", _COUNT: len(told.left)},
        "version": next_version(row),
        "updated_at": clock.iso(now),
    }
