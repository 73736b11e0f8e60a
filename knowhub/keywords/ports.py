"""What the keyword tree needs from outside."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from knowhub.core.operation import Commits, View
from knowhub.keywords.model import InfoHead, InfoQuery, Link, Node


class KeywordView(View, Protocol):
    """The newest state of one account. It knows no caller: who asks filters what they may see."""

    def raw(self, collection: str, row_id: str) -> bytes | None:
        """Return the row as JSON text, a tombstone too; None when the id was never used."""

    def node(self, keyword_id: str) -> Node | None:
        """Return a keyword, a deleted one too (`live` is False); None when the id was never used."""

    def by_token(self, token: str) -> Sequence[Node]:
        """Return the live keywords whose name or alias has this normal form, oldest first."""

    def by_pinyin(self, token: str) -> Sequence[Node]:
        """Return the live keywords whose name or alias is spelt so in pinyin, in full or by initials, oldest first."""

    def by_term(self, term: str, limit: int) -> Sequence[Node]:
        """Return up to `limit` live keywords that have this word in their name or an alias, oldest first."""

    def children(self, keyword_id: str) -> Sequence[Node]:
        """Return the live children of a keyword, oldest first; the truth of what hangs where (KT-044)."""

    def child_ids(self, keyword_id: str) -> Sequence[str]:
        """Return the ids of `children`."""

    def child_count(self, keyword_id: str) -> int:
        """Return how many `children` there are, however many, at once."""

    def nodes(self) -> Iterator[Node]:
        """Yield every live keyword, oldest first."""

    def info(self, info_id: str) -> InfoHead | None:
        """Return the head of an info, of a deleted one too; None when the id was never used."""

    def infos_newest(self, before: int | None = None) -> Iterator[InfoHead]:
        """Yield the live infos below ordinal `before`, newest first."""

    def links_of_info(self, info_id: str) -> Sequence[Link]:
        """Return the live links of an info."""

    def links_of_keyword(self, keyword_id: str) -> Sequence[Link]:
        """Return the live links of a keyword, oldest info first."""

    def infos_of_keyword(self, keyword_id: str, query: InfoQuery) -> Iterator[InfoHead]:
        """Yield the infos that are linked to a keyword, in the query's order and of its relation; pages not applied."""


class KeywordStore(Commits[KeywordView], Protocol):
    """Where the tree lives: durable decisions, and reads that see every acknowledged write."""

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""

    def view(self, account: str) -> KeywordView:
        """Return the acknowledged state of one account."""


class KeywordText(Protocol):
    """How names and queries are read; replaceable (KT-023)."""

    def load(self) -> None:
        """Load what reading needs, such as dictionaries, before somebody waits for it; it may take a second."""

    def tokens(self, text: str) -> list[str]:
        """Return the normal forms by which `text` is looked up, one in general; empty when nothing is left (G-01)."""

    def pinyin(self, text: str) -> list[str]:
        """Return how `text` is spelt in pinyin, in full and by initials; empty when it holds no Chinese (C-19)."""

    def terms(self, text: str) -> list[str]:
        """Return the words of `text`, each once, for lexical candidates."""
