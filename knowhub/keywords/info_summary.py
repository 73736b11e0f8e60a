"""The summary of an info in memory. It is apart from the model, which commands load for their help."""

from dataclasses import dataclass

from knowhub.core.owned_rows import OwnedSummary
from knowhub.keywords.model import INFOS, make_facets


@dataclass(frozen=True, slots=True)
class Info(OwnedSummary):
    """The summary of an info; its text is on disk.

    `text_key` is that of `near_duplicates.make_text_key`, `text_num` the number of the change that wrote the row last.
    """

    text_key: int
    text_num: int
    is_rewritten: bool

    @property
    def facets(self) -> frozenset[str]:
        """What a search filters by."""
        return make_facets(INFOS, self.audience)
