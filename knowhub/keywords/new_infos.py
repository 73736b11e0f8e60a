"""New infos before their decision: their rows, links and duplicates."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, View, Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import info_rules, rendering
from knowhub.keywords.auto_link import AutoLinks
from knowhub.keywords.model import NewInfo, RelationType
from knowhub.keywords.tree import Info, find_equal_info

MAX_KEYWORD_IDS = 1_000


@dataclass(frozen=True, slots=True)
class InfoBatch:
    """The writes of a batch of infos, the id of each info, and the indexes of those that are stored already."""

    writes: list[Write] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NewInfoRow:
    """An info before its decision: its row without times, its explicit links, and what `auto_link` found."""

    new: NewInfo
    row: Row
    keyword_ids: Sequence[str]
    links: Sequence[tuple[str, RelationType]]
    auto: AutoLinks = field(default_factory=AutoLinks)

    @property
    def get_links(self) -> dict[str, RelationType]:
        """Return the relation of each linked keyword."""
        return {**dict.fromkeys(self.keyword_ids, RelationType.PRIMARY), **dict(self.links)}


def find_duplicate(view: View, new_row: NewInfoRow) -> Info | None:
    """Return the stored info that says the same, if the caller wants no second one."""
    return find_equal_info(view, new_row.row) if new_row.new.dedup else None


def make_info_writes(
    view: View, ctx: RequestContext, new_row: NewInfoRow, stored: Info | None
) -> tuple[str, list[Write]]:
    """Return the id of an info, and its writes: the row and its links, or the links that its duplicate lacks."""
    check_seen(view, ctx, new_row)
    info_id = new_row.row["id"] if stored is None else stored.id
    writes = []
    if stored is None:
        writes.append(info_rules.write_info(info_rules.set_created_at(new_row.row, view.now)))
    links = info_rules.make_missing_links(view, info_id, new_row.get_links, new_row.new.created_by)
    return info_id, [*writes, *map(info_rules.write_link, links)]


def check_seen(view: View, ctx: RequestContext, new_row: NewInfoRow) -> None:
    """Raise InvalidInput for a link to a keyword that the caller does not see, and for too many links."""
    named = {f"keyword_ids.{index}": keyword_id for index, keyword_id in enumerate(new_row.keyword_ids)}
    named |= {f"links.{index}.keyword_id": keyword_id for index, (keyword_id, _) in enumerate(new_row.links)}
    if len(named) > MAX_KEYWORD_IDS:
        raise InvalidInput.of("keyword_ids", f"must have at most {MAX_KEYWORD_IDS} entries, with those of `links`")
    for name, keyword_id in named.items():
        if rendering.get_visible_node(view, ctx, keyword_id) is None:
            raise InvalidInput.of(name, f"no keyword with id {keyword_id!r}")
