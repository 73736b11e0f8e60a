"""What a resource is: code, a credential, a cookie or another text, part of it sealed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RESOURCES: Final = "resources"
REVEALS: Final = "reveals"
"""The collection in which each reveal leaves its line: one row a resource, which tells of the last one."""
DEFAULT_CONTENT_TYPE: Final = "text"
DEFAULT_LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class NewResource:
    """A resource to be saved. None means the default; `expires_at` is normalised ISO 8601."""

    id: str
    title: str = ""
    body: str = ""
    # Never in a traceback, a log or an assertion that failed.
    secure_body: str | None = field(default=None, repr=False)
    content_type: str = DEFAULT_CONTENT_TYPE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scopes: Sequence[str] | None = None
    owner: str | None = None
    expires_at: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """A page of resources by id, those behind `after` first. None filters nothing."""

    prefix: str = ""
    content_type: str | None = None
    expired: bool | None = None
    limit: int = DEFAULT_LIMIT
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceSummary:
    """A resource without its text: what lists and references need. `expires_at` in seconds since the epoch.

    `key_id` names the key of its sealed body.
    """

    id: str
    live: bool
    audience: frozenset[str]
    content_type: str
    expires_at: float | None
    key_id: str | None


@dataclass(frozen=True, slots=True)
class RevealedResource:
    """A resource with what was sealed of it; `operation_id` names the line that says who was shown it."""

    record: Mapping[str, Any]
    secure_body: str | None = field(repr=False)
    operation_id: str | None


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """A page of resources as they are shown; `next_after` is the id to go on from, None on the last page."""

    records: Sequence[Mapping[str, Any]]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key of one version of one sealed body."""

    id: str
    account: str
    resource_id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RotationResult:
    """What a rotation did: how many keys of bodies the master key `master` wraps now, and how many it took over."""

    master: str
    keys: int
    rewrapped: int
