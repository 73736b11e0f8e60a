"""The rules of info rows and link rows. Pure functions: rows in, rows out."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core.collection import Lookup
from knowhub.core.erasing import EraseRules
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, View, Write, add_version, is_live, next_of
from knowhub.core.owned_rows import make_owned_fields
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields
from knowhub.keywords.model import INFOS, LINKS, NewInfo, RelationType, make_link_id

MAX_SOURCE_CHARS = 2_048
MAX_CREATOR_CHARS = 200
MAX_KEYWORD_IDS = 1_000
PATCHABLE = frozenset({"content", "source", "metadata", "scopes"})


def make_info_row(new: NewInfo, row_id: str, now: float, ctx: RequestContext) -> Row:
    """Make the row of a new info. Raises InvalidInput, Forbidden for an owner or scopes of somebody else."""
    content, source = fields.parse_text("content", new.content), fields.parse_text("source", new.source)
    check_content(content)
    _check_source(source)
    own_scopes = list(ctx.default_keyword_scopes) if new.scopes is None else fields.parse_scopes("scopes", new.scopes)
    owner = None if new.owner is None else fields.parse_owner("owner", new.owner)
    return {
        "id": row_id,
        "content": content,
        "source": source,
        "metadata": fields.parse_metadata("metadata", new.metadata),
        **make_owned_fields(ctx, own_scopes, owner, "an info", now),
    }


def apply_info_patch(row: Row, patch: Mapping[str, Any], now: float) -> Row | None:
    """Return `row` with the fields of `patch`, or None if nothing changes. Raises InvalidInput.

    `metadata` is replaced as a whole.
    """
    changed = {**row, **fields.parse_patch(patch, PATCHABLE)}
    if changed == row:
        return None
    check_content(changed["content"])
    _check_source(changed["source"])
    return next_of(changed, row, now)


def make_link_row(
    info_id: str, keyword_id: str, relation: RelationType, created_by: str, before: Row | None, now: float
) -> Row:
    """Make the row of a link. `before` is the earlier row of this pair, or None.

    A live link gets a new relation and creator and keeps its time of creation. A deleted link is created again. The
    version rises in both cases. Raises InvalidInput for an invalid `created_by`.
    """
    check_creator(created_by)
    fields_of_link = {
        "info_id": info_id,
        "keyword_id": keyword_id,
        "relation": relation.value,
        "created_by": fields.parse_text("created_by", created_by),
    }
    return add_version(fields_of_link, before, now)


def make_missing_links(view: View, info_id: str, relations: Mapping[str, RelationType], created_by: str) -> list[Row]:
    """Make the rows of the links of an info to keywords to which it is not linked."""
    links = [(keyword_id, view.get(LINKS, make_link_id(info_id, keyword_id))) for keyword_id in relations]
    return [
        make_link_row(info_id, keyword_id, relations[keyword_id], created_by, before, view.now)
        for keyword_id, before in links
        if not is_live(before)
    ]


def write_info(row: Row) -> Write:
    """Return the write of an info's row."""
    return Write(INFOS, row["id"], row)


def write_link(row: Row) -> Write:
    """Return the write of a link's row."""
    return Write(LINKS, make_link_id(row["info_id"], row["keyword_id"]), row)


def check_content(content: str) -> None:
    """Raise InvalidInput for a blank content."""
    if not fields.parse_text("content", content).strip():
        raise InvalidInput.of("content", "is blank; an info must say something")


def validate(_lookup: Lookup, rows: Sequence[Row]) -> None:
    """Raise InvalidInput for a row that no write makes; an undo is checked by this."""
    for row in rows:
        check_content(row["content"])


def check_creator(created_by: str) -> None:
    """Raise InvalidInput for a creator of a link that is blank or too long."""
    if not fields.parse_text("created_by", created_by).strip():
        raise InvalidInput.of("created_by", "is blank; use user, agent or the id of a source")
    if len(created_by) > MAX_CREATOR_CHARS:
        raise InvalidInput.of("created_by", f"must have at most {MAX_CREATOR_CHARS} characters")


def _check_source(source: str) -> None:
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidInput.of("source", f"must have at most {MAX_SOURCE_CHARS} characters")


ERASE_RULES = EraseRules(
    noun="info",
    blanks={"content": "", "source": "", "metadata": {}},
    texts=("content",),
    optional=("metadata", "source", "content"),
)
