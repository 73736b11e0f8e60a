"""Requests and answers about operations and undo."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from knowhub.core import clock
from knowhub.operations.model import OperationFilter
from knowhub.web.schemas.parts import Answer, Body, CallerIds, OperationAnswer, Page

_MAX_DIGITS = 15


_Position = Annotated[str, Field(pattern=r"^[0-9]{1,15}$")]


class OperationParams(CallerIds):
    """The filters of the operation list."""

    since: str | None = Field(default=None, description="After this sequence number, or after this time (ISO 8601).")
    op: str | None = Field(default=None, examples=["save_knowledge"])
    actor: str | None = Field(default=None, examples=["user:li"])
    subject: str | None = Field(default=None, description="The id of a row that it touched.")
    limit: int = Field(default=50, ge=1, le=1000)
    cursor: _Position | None = None

    @field_validator("since")
    @classmethod
    def _check_since(cls, value: str | None) -> str | None:
        if value is not None and not _is_seq(value):
            try:
                clock.parse_iso(value)
            except ValueError:
                raise ValueError("must be a sequence number or a time in ISO 8601") from None
        return value

    def to_filter(self) -> OperationFilter:
        """Return the parsed filter."""
        seq = int(self.since) if self.since and _is_seq(self.since) else None
        time = clock.parse_iso(self.since) if self.since and seq is None else None
        before = int(self.cursor) if self.cursor else None
        return OperationFilter(seq, time, self.op, self.actor, self.subject, before, self.limit)


class UndoBody(Body):
    """How to undo."""

    dry_run: bool = Field(default=False, description="Return what would be written, and write nothing.")
    with_later: bool = Field(
        default=False,
        description="Undo the later operations that are in the way too, newest first, all or none; at most 100.",
    )


def _is_seq(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


class HistoryParams(CallerIds):
    """Which part of a row's history."""

    limit: int = Field(default=100, ge=1, le=1000)
    cursor: _Position | None = None

    @property
    def before(self) -> int | None:
        """The version below which the page goes on."""
        return int(self.cursor) if self.cursor else None


class OperationSummary(Answer):
    operation_id: str
    seq: int
    op: str
    actor: str
    timestamp: str
    subjects: list[str]
    undo_of: str | None
    undone_by: str | None
    undoable: bool


class ChangeAnswer(Answer):
    collection: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any]


class OperationDetail(OperationSummary):
    account: str
    group_id: str | None
    changes: list[ChangeAnswer]
    agent_io: list[dict[str, Any]] | None = Field(
        description="What a language model was asked and answered. Only the maker of the operation sees it."
    )


class OperationList(Page[OperationSummary]):
    pass


class UndoAnswer(OperationAnswer):
    operation_ids: list[str]
    undone: list[str]
    dry_run: bool
    changes: list[ChangeAnswer] = Field(description="The rows that it changed, at most 10,000.")
    changes_total: int | None = Field(default=None, description="How many rows it changed, if that is more.")
