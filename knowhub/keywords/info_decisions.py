"""Rows in, rows out: what saving, editing and linking do to infos and links, with no store and no clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core import clock, permissions, scopes
from knowhub.core.erasing import EraseRules
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, Write, is_live, next_of, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import Lookup, RowRules
from knowhub.keywords import fields
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, NewInfo, RelationType, link_id
from knowhub.keywords.riding import riding_links, surviving

MAX_SOURCE_CHARS = 2_048
MAX_CREATOR_CHARS = 200
PATCHABLE = frozenset({"content", "source", "metadata", "scopes"})


def new_info_row(new: NewInfo, row_id: str, now: float, ctx: RequestContext) -> Row:
    """Make the row of a fresh info (KT-046). Raises InvalidInput, Forbidden for somebody else's owner or scopes."""
    content, source = fields.text("content", new.content), fields.text("source", new.source)
    check_content(content)
    _check_source(source)
    own_scopes = [scopes.PUBLIC] if new.scopes is None else fields.scopes("scopes", new.scopes)
    permissions.check_scopes(ctx, own_scopes)
    owner = None if new.owner is None else fields.owner("owner", new.owner)
    moment = clock.iso(now)
    return {
        "id": row_id,
        "content": content,
        "source": source,
        "metadata": fields.metadata("metadata", new.metadata),
        "scopes": own_scopes,
        "owner": permissions.owner_for(ctx, owner, "an info"),
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def patched_info(row: Row, patch: Mapping[str, Any], now: float) -> Row | None:
    """Return `row` with the fields of `patch`, or None when that changes nothing.

    `metadata` is replaced as a whole. Raises InvalidInput for a blank content, for a field that is not the caller's
    to set, and for what no row can hold.
    """
    changed = {**row, **fields.patch(patch, PATCHABLE)}
    if changed == row:
        return None
    check_content(changed["content"])
    _check_source(changed["source"])
    return next_of(changed, row, now)


def saved_at(row: Row, now: float) -> Row:
    """Return a fresh row as of `now`: what takes long was done before the decision."""
    moment = clock.iso(now)
    return {**row, "created_at": moment, "updated_at": moment}


def deleted_info(row: Row, now: float) -> Row:
    """Return the tombstone of an info: its content stays, so that a delete can be undone."""
    return next_of({**row, "deleted": True}, row, now)


def new_link_row(
    info_id: str, keyword_id: str, relation: RelationType, created_by: str, before: Row | None, now: float
) -> Row:
    """Make the row of a link over `before`, the row that stands under the pair's id, None when none ever did.

    A live one gets another relation and maker and keeps its time of creation (G-05); one that was unlinked begins
    anew. Versions go on rising either way. Raises InvalidInput for a maker who says nothing.
    """
    check_creator(created_by)
    moment = clock.iso(now)
    kept = before if is_live(before) else None
    return {
        "info_id": info_id,
        "keyword_id": keyword_id,
        "relation": relation.value,
        "created_by": fields.text("created_by", created_by),
        "version": next_version(before),
        "created_at": moment if kept is None else kept["created_at"],
        "updated_at": moment,
    }


def unlinked(row: Row, now: float) -> Row:
    """Return the tombstone of a link."""
    return next_of({**row, "deleted": True}, row, now)


def write_info(row: Row) -> Write:
    """Say that an info shall stand as `row`."""
    return Write(INFOS, row["id"], row)


def write_link(row: Row) -> Write:
    """Say that a link shall stand as `row`."""
    return Write(LINKS, link_id(row["info_id"], row["keyword_id"]), row)


def check_content(content: str) -> None:
    """Raise InvalidInput when an info would say nothing."""
    if not fields.text("content", content).strip():
        raise InvalidInput.of("content", "is blank; an info must say something")


def check_creator(created_by: str) -> None:
    """Raise InvalidInput when nobody is named as the maker of a link (KT-047), or somebody at great length."""
    if not fields.text("created_by", created_by).strip():
        raise InvalidInput.of("created_by", "is blank; use user, agent or the id of a source")
    if len(created_by) > MAX_CREATOR_CHARS:
        raise InvalidInput.of("created_by", f"must have at most {MAX_CREATOR_CHARS} characters")


def _check_source(source: str) -> None:
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidInput.of("source", f"must have at most {MAX_SOURCE_CHARS} characters")


def _check_info(row: Mapping[str, Any]) -> None:
    check_content(row["content"])


def _ends(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    # The info comes first: its owner is the link's.
    return [(INFOS, row["info_id"]), (KEYWORDS, row["keyword_id"])]


def _missing_ends(lookup: Lookup, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [end for row in rows for end in _ends(row) if not _stands(lookup, end)]


def _moved_up(row: Row, gone: tuple[str, Row], lookup: Lookup, now: float) -> list[tuple[str, str, Row]]:
    """Link an info to what the keyword hung below, where that goes; with the info a link goes too."""
    found = [(LINKS, link_id(row["info_id"], row["keyword_id"]), unlinked(row, now))]
    if gone[0] == KEYWORDS:
        heir = surviving(gone[1]["parent_id"], lookup)
        before = lookup(LINKS, link_id(row["info_id"], heir))
        if not is_live(before):
            kind, maker = RelationType(row["relation"]), row["created_by"]
            fresh = new_link_row(row["info_id"], heir, kind, maker, before, now)
            found.append((LINKS, link_id(row["info_id"], heir), fresh))
    return found


def _stands(lookup: Lookup, end: tuple[str, str]) -> bool:
    # Until an account's first keyword the root has no row, and infos hang on it nevertheless.
    return is_live(lookup(*end)) or end == (KEYWORDS, ROOT_ID)


INFO_RULES = RowRules(check=_check_info)
LINK_RULES = RowRules(references=_ends, obstacles=_missing_ends, is_bound=True, riders=riding_links, uphold=_moved_up)
ERASE_RULES = EraseRules(
    noun="info",
    kept=frozenset({"id", "scopes", "owner", "version", "created_at", "updated_at", "deleted"}),
    blanks={"content": "", "source": "", "metadata": {}},
    spare=("metadata", "source", "content"),
    says=lambda row: row["content"],
)
