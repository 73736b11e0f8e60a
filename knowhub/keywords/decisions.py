"""Rows in, rows out: what creating, editing and merging do to a keyword, with no store and no clock."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowhub.core import clock, permissions, scopes
from knowhub.core.erasing import EraseRules
from knowhub.core.errors import Conflict, InvalidInput, NotFound
from knowhub.core.operation import Row, Write, is_live, next_of
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import Lookup, Path, RowRules
from knowhub.keywords import fields
from knowhub.keywords.model import KEYWORDS, ROOT_ID, NewKeyword
from knowhub.keywords.ports import KeywordText
from knowhub.keywords.riding import riding_keywords, surviving

MAX_NAME_CHARS = 200
MAX_ALIASES = 200
MAX_DESCRIPTION_CHARS = 4_096
PATCHABLE = frozenset({"name", "aliases", "description", "metadata", "scopes"})
ROOT_PATCHABLE = frozenset({"name", "description", "metadata"})


def new_keyword_row(
    new: NewKeyword, ids: tuple[str, str], ctx: RequestContext, text: KeywordText, now: float
) -> dict[str, Any]:
    """Make the row of a fresh keyword; `ids` are its own and its parent's.

    Raises InvalidInput for a name of which nothing is left (G-01), for what is over its limit and for what no row can
    hold, Forbidden for somebody else's owner or scopes.
    """
    name, description = fields.text("name", new.name), fields.text("description", new.description)
    check_name(name, text)
    check_description(description)
    moment = clock.iso(now)
    row_id, parent_id = ids
    aliases = distinct_aliases(name, fields.texts("aliases", new.aliases), text)
    own_scopes = [scopes.PUBLIC] if new.scopes is None else fields.scopes("scopes", new.scopes)
    permissions.check_scopes(ctx, own_scopes)
    owner = None if new.owner is None else fields.owner("owner", new.owner)
    return {
        "id": row_id,
        "name": name,
        "aliases": aliases,
        **_keys(name, aliases, text),
        "parent_id": parent_id,
        "description": description,
        "metadata": fields.metadata("metadata", new.metadata),
        "scopes": own_scopes,
        "owner": permissions.owner_for(ctx, owner, "a keyword"),
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def patched_keyword(row: Row, patch: Mapping[str, Any], text: KeywordText, now: float) -> Row | None:
    """Return `row` with the fields of `patch`, or None when that changes nothing (KT-223).

    `aliases` and `metadata` are replaced as a whole. Raises InvalidInput for a field that is not the caller's to
    set, over its limit, or none that a row can hold; Conflict for a field that the root does not have.
    """
    sent = fields.patch(patch, PATCHABLE)
    for name, value in sent.items():
        if row["id"] == ROOT_ID and name not in ROOT_PATCHABLE and value != row[name]:
            raise Conflict(f"the {name} of the root cannot be changed")
    changed = {**row, **sent}
    if "name" in sent or "aliases" in sent:
        check_name(changed["name"], text)
    if row["id"] != ROOT_ID and ("name" in sent or "aliases" in sent):
        changed["aliases"] = distinct_aliases(changed["name"], changed["aliases"], text, row["aliases"])
    check_description(changed["description"])
    return None if changed == row else next_of(_with_keys(changed, row, text), row, now)


def placed(row: Row, parent_id: str, now: float) -> dict[str, Any]:
    """Return a fresh row below its parent, as of `now`: what takes long was done before the decision."""
    moment = clock.iso(now)
    return {**row, "parent_id": parent_id, "created_at": moment, "updated_at": moment}


def with_parent(row: Row, parent_id: str, now: float) -> Row:
    """Return `row` below another parent."""
    return next_of({**row, "parent_id": parent_id}, row, now)


def with_alias(row: Row, alias: str, text: KeywordText, now: float) -> Row | None:
    """Return `row` with one more alias, or None when it is spelt like the name or an alias that is there.

    Another spelling of the same is added: who asks for one alias wants to see it. Raises InvalidInput, and Conflict
    when there is no room.
    """
    alias = fields.text("alias", alias)
    _check_alias("alias", alias, text)
    if alias == row["name"] or alias in row["aliases"]:
        return None
    changed = {**row, "aliases": [*row["aliases"], alias]}
    _check_room(changed)
    return next_of(_with_keys(changed, row, text), row, now)


def without_alias(row: Row, alias: str, text: KeywordText, now: float) -> Row:
    """Return `row` without the alias that is spelt so, else without those of the same normal form.

    Raises NotFound when there is none.
    """
    tokens = set(text.tokens(fields.text("alias", alias)))
    doomed = {alias} if alias in row["aliases"] else {one for one in row["aliases"] if tokens & set(text.tokens(one))}
    if not doomed:
        raise NotFound.of("alias", alias)
    changed = {**row, "aliases": [one for one in row["aliases"] if one not in doomed]}
    return next_of(_with_keys(changed, row, text), row, now)


def absorbed(row: Row, other: Mapping[str, Any], text: KeywordText, now: float) -> Row | None:
    """Return `row` with what `other` has and it lacks, or None when that is nothing (KT-228).

    Name and aliases become aliases where no alias says the same; the description fills an empty one; metadata adds
    the keys that are not there. Raises Conflict when there is no room for the aliases or the metadata.
    """
    spellings = [*row["aliases"], other["name"], *other["aliases"]]
    aliases = _without_doubles(row["name"], spellings, text, row["aliases"])
    changed = {
        **row,
        "aliases": aliases,
        "description": row["description"] or other["description"],
        "metadata": {**other["metadata"], **row["metadata"]},
    }
    if changed == row:
        return None
    _check_room(changed)
    if changed["metadata"] != row["metadata"]:
        _check_room_for_metadata(changed)
    return next_of(_with_keys(changed, row, text), row, now)


def written_again(row: Row, now: float) -> Row:
    """Return `row` with nothing changed but its version and time."""
    return next_of(row, row, now)


def deleted_keyword(row: Row, now: float) -> Row:
    """Return the tombstone of a keyword: its content stays, so that a delete can be undone (KT-051)."""
    return next_of({**row, "deleted": True}, row, now)


def write_keyword(row: Row) -> Write:
    """Say that a keyword shall stand as `row`."""
    return Write(KEYWORDS, row["id"], row)


def distinct_aliases(name: str, aliases: Sequence[str], text: KeywordText, standing: Sequence[str] = ()) -> list[str]:
    """Return the aliases that say something which the name and those before them do not.

    Those that stand in the row already are kept as they are. Raises InvalidInput for an empty or overlong one, and
    for too many of them.
    """
    if len(aliases) > MAX_ALIASES:
        raise InvalidInput.of("aliases", f"must be at most {MAX_ALIASES}; these are {len(aliases)}")
    for index, alias in enumerate(aliases):
        _check_alias(f"aliases.{index}", alias, text)
    return _without_doubles(name, aliases, text, standing)


def check_name(name: str, text: KeywordText) -> None:
    """Raise InvalidInput when a keyword could not be found by its name (G-01), or it is too long."""
    check_length("name", name)
    if not text.tokens(name):
        raise InvalidInput.of("name", "has no letter, digit or sign by which it could be found")


def check_length(field: str, name: str) -> None:
    """Raise InvalidInput when a name or an alias is no text, longer than one may be, or blank."""
    if not fields.text(field, name).strip():
        raise InvalidInput.of(field, "must not be blank")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidInput.of(field, f"must have at most {MAX_NAME_CHARS} characters")


def check_description(description: str) -> None:
    """Raise InvalidInput when a description is no text, or longer than one may be."""
    if len(fields.text("description", description)) > MAX_DESCRIPTION_CHARS:
        raise InvalidInput.of("description", f"must have at most {MAX_DESCRIPTION_CHARS} characters")


def _check_alias(field: str, alias: str, text: KeywordText) -> None:
    check_length(field, alias)
    if not text.tokens(alias):
        raise InvalidInput.of(field, "has no letter, digit or sign by which it could be found")


def _check_room(row: Mapping[str, Any]) -> None:
    if len(row["aliases"]) > MAX_ALIASES:
        detail = f"keyword {row['id']!r} would have {len(row['aliases'])} aliases, and {MAX_ALIASES} is the most"
        raise Conflict(f"{detail}; remove some first", {"id": row["id"]})


def _check_room_for_metadata(row: Mapping[str, Any]) -> None:
    try:
        fields.metadata("metadata", row["metadata"])
    except InvalidInput as problem:
        detail = f"the metadata of keyword {row['id']!r}, with what would be added, {problem.errors[0].message}"
        raise Conflict(f"{detail}; remove some first", {"id": row["id"]}) from problem


def _without_doubles(name: str, aliases: Iterable[str], text: KeywordText, standing: Sequence[str]) -> list[str]:
    known = set(text.tokens(name))
    kept: dict[str, None] = {}
    for alias in aliases:
        tokens = text.tokens(alias)
        if alias != name and (alias in standing or not known.issuperset(tokens)):
            kept[alias] = None
        known.update(tokens)
    return list(kept)


def _with_keys(changed: dict[str, Any], row: Row, text: KeywordText) -> dict[str, Any]:
    if row["id"] == ROOT_ID or (changed["name"] == row["name"] and changed["aliases"] == row["aliases"]):
        return changed
    return changed | _keys(changed["name"], changed["aliases"], text)


def _keys(name: str, aliases: Sequence[str], text: KeywordText) -> dict[str, list[str]]:
    """Return what a keyword is found by: each form of its name and aliases once (KT-041, KT-157)."""
    spellings = (name, *aliases)
    return {
        "normalized": list(dict.fromkeys(form for spelling in spellings for form in text.tokens(spelling))),
        "pinyin": list(dict.fromkeys(form for spelling in spellings for form in text.pinyin(spelling))),
        "terms": list(dict.fromkeys(term for spelling in spellings for term in text.terms(spelling))),
    }


def _check_keyword(row: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a keyword that an undo would leave and no write could have made."""
    if row["id"] != ROOT_ID and not row["normalized"]:
        raise InvalidInput.of("name", "has no letter, digit or sign by which it could be found")
    if len(row["aliases"]) > MAX_ALIASES:
        raise InvalidInput.of("aliases", f"must be at most {MAX_ALIASES}; these are {len(row['aliases'])}")


def _parent(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [] if row["parent_id"] is None else [(KEYWORDS, row["parent_id"])]


def _moved_up(row: Row, gone: tuple[str, Row], lookup: Lookup, now: float) -> list[tuple[str, str, Row]]:
    return [(KEYWORDS, row["id"], with_parent(row, surviving(gone[1]["parent_id"], lookup), now))]


def _in_the_way(lookup: Lookup, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name what keeps keywords from standing where they say: no parent there, or one that is above itself."""
    # What was found to reach the root is not walked again: a chain of thousands would be, for each of its rows.
    sound = {ROOT_ID}
    found = []
    for row in rows:
        above: str | None = row["parent_id"]
        passed: set[str] = set()
        while above is not None and above not in sound and above not in passed:
            parent = lookup(KEYWORDS, above)
            if parent is None or not is_live(parent) or parent["parent_id"] == row["id"]:
                found.append((KEYWORDS, above))
                break
            passed.add(above)
            above = parent["parent_id"]
        if above is None or above in sound:
            sound |= {*passed, row["id"]}
    return found


_NAMES: frozenset[Path] = frozenset({("name",), ("aliases",), ("normalized",), ("pinyin",), ("terms",)})
KEYWORD_RULES = RowRules(
    check=_check_keyword,
    references=_parent,
    obstacles=_in_the_way,
    is_bound=True,
    fixed=frozenset({ROOT_ID}),
    # What a keyword is found by is computed from all of its names; where it was merged away, they went along.
    units=(_NAMES | {("deleted",)},),
    names=("parent_id",),
    riders=riding_keywords,
    uphold=_moved_up,
)
ERASE_RULES = EraseRules(
    noun="keyword",
    kept=frozenset({"id", "parent_id", "scopes", "owner", "version", "created_at", "updated_at", "deleted"}),
    blanks={"name": "", "aliases": [], "normalized": [], "pinyin": [], "terms": [], "description": "", "metadata": {}},
    spare=("metadata", "aliases"),
    # Why a model placed it where it hangs.
    told=frozenset({"reason"}),
    says=lambda row: row["name"],
    is_rooted=True,
)
