"""The few ways in which a request can fail; `web/error_responses.py` gives each its status.

KnowHubError
├── InvalidInput      what was sent cannot be accepted; names the fields. A ValueError too
├── NotFound          there is no such thing, or the caller may not see it
├── Forbidden         the caller sees it, and may not do this to it
├── Conflict          the request is well formed, and the state does not allow it
│   └── VersionConflict
├── TooLarge          over a documented limit
├── TooManyRequests   too soon again; says after how many seconds
└── Unavailable       the server cannot do this now
    ├── ReadOnly      the log could not be written; restart after mending the cause
    └── StorageFull   no room on the disk; writing resumes by itself when there is
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its dotted path in the request and what to do about it."""

    field: str
    message: str


class KnowHubError(Exception):
    """Anything that KnowHub refuses; `detail` says what to do, `extra` is added to the answer."""

    def __init__(self, detail: str, extra: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = dict(extra or {})


class InvalidInput(KnowHubError, ValueError):
    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.errors = tuple(errors)

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidInput":
        """Make the common one: a single field is wrong."""
        return cls(f"{field}: {message}", [FieldError(field, message)])


class NotFound(KnowHubError):
    @classmethod
    def of(cls, noun: str, row_id: str) -> "NotFound":
        """Say that `row_id` is unknown, in the same words whether it is missing or hidden."""
        return cls(f"no {noun} with id {row_id!r}")


class Forbidden(KnowHubError):
    pass


class Conflict(KnowHubError):
    pass


class VersionConflict(Conflict):
    def __init__(self, current_version: int) -> None:
        super().__init__(
            f"the row is at version {current_version}; read it again and repeat the change on that",
            {"current_version": current_version},
        )


class TooLarge(KnowHubError):
    pass


class TooManyRequests(KnowHubError):
    def __init__(self, detail: str, retry_after_s: float) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(KnowHubError):
    pass


class ReadOnly(Unavailable):
    pass


class StorageFull(Unavailable):
    pass
