"""The rules of keyword rows: create, change, merge, delete. Pure functions: rows in, rows out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowhub.core.collection import Lookup
from knowhub.core.erasing import OWNED_FIELDS, EraseRules
from knowhub.core.errors import Conflict, InvalidInput, NotFound
from knowhub.core.operation import Row, Write, add_version, next_of
from knowhub.core.owned_rows import make_owned_fields
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields
from knowhub.keywords.model import KEYWORDS, ROOT_ID, NewKeyword
from knowhub.keywords.ports import KeywordText

MAX_NAME_CHARS = 200
MAX_ALIASES = 200
MAX_DESCRIPTION_CHARS = 4_096
_NO_LETTERS = "has no letter, digit or sign by which it could be found"
PATCHABLE = frozenset({"name", "aliases", "description", "metadata", "scopes"})
ROOT_PATCHABLE = frozenset({"name", "description", "metadata"})


def make_keyword_row(
    new: NewKeyword, ids: tuple[str, str], ctx: RequestContext, text: KeywordText, now: float
) -> dict[str, Any]:
    """Make the row of a new keyword; `ids` are its id and its parent's.

    Raises InvalidInput for an invalid field, Forbidden for an owner or scopes that the caller may not set.
    """
    name, description = fields.parse_text("name", new.name), fields.parse_text("description", new.description)
    check_name("name", name, text)
    check_description(description)
    row_id, parent_id = ids
    aliases = check_aliases(name, fields.parse_texts("aliases", new.aliases), text)
    own_scopes = list(ctx.default_keyword_scopes) if new.scopes is None else fields.parse_scopes("scopes", new.scopes)
    owner = None if new.owner is None else fields.parse_owner("owner", new.owner)
    return {
        "id": row_id,
        "name": name,
        "aliases": aliases,
        **_make_keys(name, aliases, text),
        "parent_id": parent_id,
        "description": description,
        "metadata": fields.parse_metadata("metadata", new.metadata),
        **make_owned_fields(ctx, own_scopes, owner, "a keyword", now),
    }


def apply_patch(row: Row, patch: Mapping[str, Any], text: KeywordText, now: float) -> Row | None:
    """Return `row` with the fields of `patch`, or None if nothing changes.

    `aliases` and `metadata` are replaced as a whole. A name or aliases that are sent make new keys of look-up, also if
    they are the same. Raises InvalidInput for an unknown or invalid field, Conflict for a field that the root does not
    have.
    """
    sent = fields.parse_patch(patch, PATCHABLE)
    for name, value in sent.items():
        if row["id"] == ROOT_ID and name not in ROOT_PATCHABLE and value != row[name]:
            raise Conflict(f"the {name} of the root cannot be changed")
    changed = {**row, **sent}
    if "name" in sent or "aliases" in sent:
        check_name("name", changed["name"], text)
    if row["id"] != ROOT_ID and ("name" in sent or "aliases" in sent):
        changed["aliases"] = check_aliases(changed["name"], changed["aliases"], text, row["aliases"])
        changed |= _make_keys(changed["name"], changed["aliases"], text)
    check_description(changed["description"])
    return None if changed == row else next_of(changed, row, now)


def set_parent(row: Row, parent_id: str, now: float) -> dict[str, Any]:
    """Return a new row with its parent and times."""
    return add_version({**row, "parent_id": parent_id}, None, now)


def add_alias(row: Row, alias: str, text: KeywordText, now: float) -> Row | None:
    """Return `row` with one more alias, or None if its name or an alias is spelt the same.

    Another spelling of the same normal form is added. Raises InvalidInput, and Conflict if there are 200 already.
    """
    alias = fields.parse_text("alias", alias)
    check_name("alias", alias, text)
    if alias == row["name"] or alias in row["aliases"]:
        return None
    changed = {**row, "aliases": [*row["aliases"], alias]}
    _check_alias_count(changed)
    return next_of(_update_keys(changed, row, text), row, now)


def remove_alias(row: Row, alias: str, text: KeywordText, now: float) -> Row:
    """Return `row` without the alias that is spelt the same, else without those of the same normal form.

    Raises NotFound if there is none.
    """
    name_keys = set(text.name_keys(fields.parse_text("alias", alias)))
    deleted = (
        {alias}
        if alias in row["aliases"]
        else {item for item in row["aliases"] if name_keys & set(text.name_keys(item))}
    )
    if not deleted:
        raise NotFound.of("alias", alias)
    changed = {**row, "aliases": [item for item in row["aliases"] if item not in deleted]}
    return next_of(_update_keys(changed, row, text), row, now)


def merge_rows(row: Row, other: Mapping[str, Any], text: KeywordText, now: float) -> Row | None:
    """Return `row` with what it lacks of `other`, or None if nothing changes.

    Names become aliases, a description fills an empty one, only missing metadata keys are added. Raises Conflict if
    the aliases or the metadata exceed their limit.
    """
    spellings = [*row["aliases"], other["name"], *other["aliases"]]
    changed = {
        **row,
        "aliases": _drop_duplicates(row["name"], spellings, text, row["aliases"]),
        "description": row["description"] or other["description"],
        "metadata": {**other["metadata"], **row["metadata"]},
    }
    if changed == row:
        return None
    _check_alias_count(changed)
    if changed["metadata"] != row["metadata"]:
        try:
            fields.parse_metadata("metadata", changed["metadata"])
        except InvalidInput as problem:
            detail = f"the metadata of keyword {row['id']!r}, with what would be added, {problem.errors[0].message}"
            raise Conflict(f"{detail}; remove some first", {"id": row["id"]}) from problem
    return next_of(_update_keys(changed, row, text), row, now)


def write_keyword(row: Row) -> Write:
    """Return the write of a keyword's row."""
    return Write(KEYWORDS, row["id"], row)


def check_aliases(name: str, aliases: Sequence[str], text: KeywordText, current: Sequence[str] = ()) -> list[str]:
    """Return the aliases without those of a normal form that the name or an earlier alias has.

    Aliases that the row has already are kept. Raises InvalidInput for an invalid alias, and for too many.
    """
    _check_alias_limit(aliases)
    for index, alias in enumerate(aliases):
        check_name(f"aliases.{index}", alias, text)
    return _drop_duplicates(name, aliases, text, current)


def check_name(field: str, name: str, text: KeywordText) -> None:
    """Raise InvalidInput for a name or an alias that is blank, too long, or has no normal form."""
    check_length(field, name)
    if not text.name_keys(name):
        raise InvalidInput.of(field, _NO_LETTERS)


def check_length(field: str, name: str) -> None:
    """Raise InvalidInput for a name or an alias that is no text, blank or too long."""
    if not fields.parse_text(field, name).strip():
        raise InvalidInput.of(field, "must not be blank")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidInput.of(field, f"must have at most {MAX_NAME_CHARS} characters")


def check_description(description: str) -> None:
    """Raise InvalidInput for a description that is no text or too long."""
    if len(fields.parse_text("description", description)) > MAX_DESCRIPTION_CHARS:
        raise InvalidInput.of("description", f"must have at most {MAX_DESCRIPTION_CHARS} characters")


def validate(_lookup: Lookup, rows: Sequence[Row]) -> None:
    """Raise InvalidInput for a row that no write makes; an undo is checked by this."""
    for row in rows:
        if row["id"] != ROOT_ID and not row["normalized"]:
            raise InvalidInput.of("name", _NO_LETTERS)
        _check_alias_limit(row["aliases"])


def _check_alias_limit(aliases: Sequence[str]) -> None:
    if len(aliases) > MAX_ALIASES:
        raise InvalidInput.of("aliases", f"must be at most {MAX_ALIASES}; these are {len(aliases)}")


def _check_alias_count(row: Mapping[str, Any]) -> None:
    if len(row["aliases"]) > MAX_ALIASES:
        detail = f"keyword {row['id']!r} would have {len(row['aliases'])} aliases, and {MAX_ALIASES} is the most"
        raise Conflict(f"{detail}; remove some first", {"id": row["id"]})


def _drop_duplicates(name: str, aliases: Iterable[str], text: KeywordText, current: Sequence[str]) -> list[str]:
    known = set(text.name_keys(name))
    kept: dict[str, None] = {}
    for alias in aliases:
        name_keys = text.name_keys(alias)
        if alias != name and (alias in current or not known.issuperset(name_keys)):
            kept[alias] = None
        known.update(name_keys)
    return list(kept)


def _update_keys(changed: dict[str, Any], row: Row, text: KeywordText) -> dict[str, Any]:
    if row["id"] == ROOT_ID or (changed["name"] == row["name"] and changed["aliases"] == row["aliases"]):
        return changed
    return changed | _make_keys(changed["name"], changed["aliases"], text)


def _make_keys(name: str, aliases: Sequence[str], text: KeywordText) -> dict[str, list[str]]:
    """Return the keys of look-up: each form of the name and the aliases once."""
    spellings = (name, *aliases)
    return {
        "normalized": list(dict.fromkeys(form for spelling in spellings for form in text.name_keys(spelling))),
        "pinyin": list(dict.fromkeys(form for spelling in spellings for form in text.pinyin(spelling))),
        "terms": list(dict.fromkeys(term for spelling in spellings for term in text.terms(spelling))),
    }


ERASE_RULES = EraseRules(
    noun="keyword",
    kept=OWNED_FIELDS | {"parent_id"},
    blanks={"name": "", "aliases": [], "normalized": [], "pinyin": [], "terms": [], "description": "", "metadata": {}},
    texts=("name",),
    optional=("metadata", "aliases"),
    # The reason that a model gave for its place.
    reply_fields=frozenset({"reason"}),
    must_be_deleted=True,
)
