"""The collections of the keyword tree: keywords, infos and the links between them, and their record files."""

from collections.abc import Mapping
from typing import Any, Final

from knowhub.core import clock
from knowhub.core.collection import Collection, OnDelete, Path, Reference
from knowhub.core.operation import Row
from knowhub.core.projection import RecordFormat
from knowhub.keywords import info_rules, keyword_rules, missed, tree
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, MISSED, RELATION_RANKS, ROOT_ID, make_link_id

# The keys of look-up are computed from the name and the aliases.
_NAMES: Final[frozenset[Path]] = frozenset(
    {("name",), ("aliases",), ("normalized",), ("pinyin",), ("terms",), ("deleted",)}
)

INFO: Final = Collection(INFOS, validate=info_rules.validate, erase=info_rules.ERASE_RULES, table=tree.INFO_TABLE)
COLLECTIONS: Final = (
    Collection(
        KEYWORDS,
        fixed_ids=frozenset({ROOT_ID}),
        references=(
            Reference("parent_id", KEYWORDS, OnDelete.REATTACH, is_required=True, is_acyclic=True, via="parent_id"),
        ),
        field_groups=(_NAMES,),
        validate=keyword_rules.validate,
        erase=keyword_rules.ERASE_RULES,
        table=tree.KEYWORD_TABLE,
    ),
    INFO,
    Collection(
        LINKS,
        row_id=lambda row: make_link_id(row["info_id"], row["keyword_id"]),
        rank=lambda row: RELATION_RANKS[row["relation"]],
        references=(
            Reference("info_id", INFOS, OnDelete.CASCADE, is_required=True, limits_visibility=True),
            Reference(
                "keyword_id", KEYWORDS, OnDelete.REATTACH, is_required=True, limits_visibility=True, via="parent_id"
            ),
        ),
        table=tree.LINK_TABLE,
    ),
    Collection(MISSED, is_undoable=False, is_internal=True, table=missed.MISSED_TABLE),
)


def _encode(row: Row) -> Mapping[str, Any]:
    times = {name: clock.parse_iso(row[name]) for name in ("created_at", "updated_at")}
    return {**row, **times, "deleted": row.get("deleted", False)}


RECORD_FORMATS: Final = {
    KEYWORDS: RecordFormat("nodes", _encode),
    INFOS: RecordFormat("infos", _encode),
    LINKS: RecordFormat("links", _encode),
}
