"""What an audit needs from outside: the rows of an account, and what searches have shown lately."""

from typing import Protocol

from knowhub.keywords.ports import KeywordView
from knowhub.knowledge.ports import KnowledgeView


class AuditView(KnowledgeView, KeywordView, Protocol):
    """The newest state of one account; reads of a view that is kept see what was written since."""


class AuditStore(Protocol):
    async def refresh(self) -> None:
        """Take in what other processes have acknowledged."""

    def view(self, account: str) -> AuditView:
        """Return the acknowledged state of one account."""


class Showings(Protocol):
    """What searches of this process have shown."""

    @property
    def known_since(self) -> float:
        """Return from when on every showing is known, in seconds since the epoch."""

    def last_shown(self, account: str, record_id: str) -> float | None:
        """Return when a search last showed the record; None when none has since `known_since`."""
