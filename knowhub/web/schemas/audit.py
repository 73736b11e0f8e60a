"""The junk-rate report: what may be asked of it, and what it answers."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from knowhub.audit.model import (
    DEFAULT_LIMIT,
    DEFAULT_STALE_DAYS,
    MAX_LIMIT,
    MAX_STALE_DAYS,
    Kind,
    Question,
    Severity,
)
from knowhub.web.schemas.answers import Answer
from knowhub.web.schemas.parts import CallerIds, CommaSeparated

# Written out: the description of a parameter has no components to refer to.
KindName = Annotated[Kind, WithJsonSchema({"type": "string", "enum": [kind.value for kind in Kind]})]


class AuditParams(CallerIds):
    """Which findings, and from when on a row is old."""

    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    kinds: Annotated[list[KindName], CommaSeparated] = Field(
        default_factory=list, description="Only these kinds, separated by commas; all when left out."
    )
    stale_days: int = Field(
        default=DEFAULT_STALE_DAYS, ge=1, le=MAX_STALE_DAYS, description="Days after which a record is old."
    )

    def question(self) -> Question:
        """Return the parsed question."""
        return Question(self.limit, frozenset(self.kinds or Kind), self.stale_days)


class AuditFinding(Answer):
    kind: Kind
    severity: Severity
    collection: str = Field(examples=["knowledge", "infos", "keywords"])
    id: str = Field(description="Of a group of copies, the oldest: the one to keep.")
    related: list[str] = Field(description="The rows that it has to do with, the first 50.")
    evidence: dict[str, Any]
    suggestion: str


class AuditAnswer(Answer):
    account: str
    records: int = Field(description="Live knowledge records that were looked at.")
    infos: int = Field(description="Live infos that were looked at.")
    junk: int = Field(description="Records and infos that are copies, near copies, out of a search, or expired.")
    junk_rate: float = Field(ge=0, le=1, description="`junk` over `records` and `infos`.")
    searches_known_since: str = Field(description="From when on it is known which records searches have shown.")
    summary: dict[str, int] = Field(description="How many findings there are of each kind, shown or not.")
    findings: list[AuditFinding]
    count: int = Field(description="How many findings are shown.")
    truncated: bool
