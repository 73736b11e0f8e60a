"""What searches of all kinds of rows share: hits, best first, how each was found, and a range of time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from knowhub.core.request_context import RequestContext

SearchableT = TypeVar("SearchableT", covariant=True)

LEXICAL: Final = "lexical"
VECTOR: Final = "vector"

MAX_QUERY_CHARS: Final = 4_096
"""How long a question may be, whatever is asked."""


@dataclass(frozen=True, slots=True)
class StageScore:
    """What one stage said of a row: its place there, counted from 1, and the stage's own score.

    `stage` is `lexical`, `vector`, `routing` or `rerank`. Scores of two stages are not comparable; None where a stage
    gives none.
    """

    stage: str
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class SearchHit(Generic[SearchableT]):
    """A row that recall found, and the stages it came by.

    The higher the `score`, the better; it compares with the hits of the same search only.
    """

    summary: SearchableT
    score: float
    stages: tuple[StageScore, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchHits(Generic[SearchableT]):
    """What recall answers: hits best first, how many rows the index had not yet absorbed, and which part failed.

    `max_score` is the score of a row that fits the query as well as can be, `sufficient_score` that of a row which has
    the rarest words of a long query. `nearest` says how near in meaning a row comes: 0 like unrelated texts, or without
    vectors, and 1 the same.
    """

    hits: Sequence[SearchHit[SearchableT]]
    index_lag: int
    degraded: Sequence[str] = ()
    max_score: float = 1.0
    sufficient_score: float = 1.0
    nearest: float = 0.0

    def get_relevance(self, hit: SearchHit[SearchableT]) -> float:
        """Return the score of a hit as a share of the highest possible one. It compares between searches."""
        return hit.score / self.max_score

    def get_floor(self, share: float) -> float:
        """Return the relevance of a row that has this share of the sufficient score."""
        return share * self.sufficient_score / self.max_score


class SearchIndex(Protocol[SearchableT]):
    """A search index over the texts of one family of rows. The caller supplies visibility and filters."""

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[SearchableT], bool],
        limit: int,
    ) -> SearchHits[SearchableT]:
        """Return the `limit` most relevant rows that pass; fewer only if fewer pass.

        A row passes if it has one facet of each group, and `accept` returns True.
        """

    def list_matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of the query that occur in `fields`."""


@dataclass(frozen=True, slots=True)
class MissingVector:
    """A row whose text has no vector.

    `seq` is the operation that wrote the text, `attempts` how often the embedder rejected it. With `retry_at` None it
    is not tried again by itself. It `is_asked` while the embedder has it.
    """

    row_id: str
    seq: int
    attempts: int = 0
    retry_at: float | None = 0.0
    is_asked: bool = False


def get_visible_lag(ctx: RequestContext, lag: int) -> int:
    """Return an `index_lag` as the caller may know it; it counts rows of the whole account.

    How many others have just written is not told to a key that sees a part.
    """
    return lag if ctx.sees_everything or ctx.key_id is None else 0


def tag_facets(tags: Mapping[str, str | Sequence[str]]) -> tuple[str, ...]:
    """Return a facet for each value of each tag."""
    return tuple(
        f"tag.{name}:{value}"
        for name, values in tags.items()
        for value in ((values,) if isinstance(values, str) else values)
    )


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` on, and before `until`, in seconds since the epoch. None is no limit."""

    since: float | None = None
    until: float | None = None

    @property
    def is_limiting(self) -> bool:
        """Whether there is a limit."""
        return self.since is not None or self.until is not None

    def contains(self, moment: float) -> bool:
        """Return whether a moment, in seconds since the epoch, is in the range."""
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)


ALL_TIME = TimeRange()
