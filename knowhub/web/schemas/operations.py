"""Requests on operations, jobs and upkeep."""

from typing import Annotated

from pydantic import Field, field_validator

from knowhub.core import clock
from knowhub.operations.model import OperationFilter
from knowhub.web.schemas.parts import Body, CallerIds

_MAX_DIGITS = 15


class OperationParams(CallerIds):
    """The filters of the operation list."""

    since: str | None = Field(default=None, description="After this sequence number, or after this time (ISO 8601).")
    op: str | None = Field(default=None, examples=["save_knowledge"])
    actor: str | None = Field(default=None, examples=["user:li"])
    subject: str | None = Field(default=None, description="The id of a row that it touched.")
    limit: int = Field(default=50, ge=1, le=1000)
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,15}$")] | None = Field(
        None, description="`next_cursor` of the page before."
    )

    @field_validator("since")
    @classmethod
    def _check_since(cls, value: str | None) -> str | None:
        if value is not None and not _is_seq(value):
            try:
                clock.parse_iso(value)
            except (ValueError, OverflowError):
                raise ValueError("must be a sequence number or a time in ISO 8601") from None
        return value

    def filter(self) -> OperationFilter:
        """Return the parsed filter."""
        seq = int(self.since) if self.since and _is_seq(self.since) else None
        time = clock.parse_iso(self.since) if self.since and seq is None else None
        before = int(self.cursor) if self.cursor else None
        return OperationFilter(seq, time, self.op, self.actor, self.subject, before, self.limit)


class UndoBody(Body):
    """How to undo."""

    dry_run: bool = Field(default=False, description="Tell what would be written, and write nothing.")


class LongWorkParams(CallerIds):
    """Whether to wait for long work."""

    wait: bool = Field(default=True, description="false answers at once with a job id.")


class CompactParams(LongWorkParams):
    """How far back operations are kept, for once."""

    undo_retention_days: float | None = Field(
        default=None,
        ge=0,
        le=36_500,
        allow_inf_nan=False,
        description="For once in the place of KNOWHUB_UNDO_RETENTION_DAYS.",
    )


def _is_seq(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


class HistoryParams(CallerIds):
    """Which part of a record's history."""

    limit: int = Field(default=100, ge=1, le=1000)
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,15}$")] | None = Field(
        default=None, description="`next_cursor` of the page before."
    )

    @property
    def before(self) -> int | None:
        """The version below which the page goes on."""
        return int(self.cursor) if self.cursor else None
