"""What goes along when a keyword is deleted or merged, or comes back: rows to which who does that needs no right.

What hangs below a keyword, and what is linked to it, may be somebody's whom its owner does not even see. It is not lost
with the keyword: it goes on at another one.
"""

from collections.abc import Sequence

from knowhub.core.operation import Change, is_live
from knowhub.core.row_paths import changed_paths, flatten
from knowhub.core.undo import Lookup
from knowhub.keywords.model import KEYWORDS, LINKS, ROOT_ID


def riding_keywords(changes: Sequence[Change]) -> frozenset[str]:
    """Return the ids of keywords that were only moved, away from one that died or to one that came back."""
    died, revived = _turned(changes)
    return frozenset(change.id for change in changes if change.collection == KEYWORDS and _rode(change, died, revived))


def riding_links(changes: Sequence[Change]) -> frozenset[str]:
    """Return the ids of links of infos that were linked to a keyword which died or came back, new ones too."""
    died, revived = _turned(changes)
    links = [change for change in changes if change.collection == LINKS]
    infos = {one.after["info_id"] for one in links if one.after["keyword_id"] in died | revived}
    return frozenset(one.id for one in links if one.after["info_id"] in infos)


def surviving(keyword_id: str | None, lookup: Lookup) -> str:
    """Return the nearest keyword that stands, from this one upwards; the root always does."""
    passed: set[str] = set()
    while keyword_id is not None and keyword_id not in passed:
        row = lookup(KEYWORDS, keyword_id)
        if row is None or is_live(row):
            break
        passed.add(keyword_id)
        keyword_id = row["parent_id"]
    return ROOT_ID if keyword_id is None or keyword_id in passed else keyword_id


def _turned(changes: Sequence[Change]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the keywords that died, and those that came back; one that was made before is none of either."""
    kept = [one for one in changes if one.collection == KEYWORDS and one.before is not None]
    died = frozenset(one.id for one in kept if is_live(one.before) and not is_live(one.after))
    return died, frozenset(one.id for one in kept if not is_live(one.before) and is_live(one.after))


def _rode(change: Change, died: frozenset[str], revived: frozenset[str]) -> bool:
    # One that was deleted before rides as well: where it hung when it comes back is put right with the rest.
    if change.before is None or is_live(change.before) != is_live(change.after):
        return False
    moved = changed_paths(flatten(change.before), flatten(change.after)) == [("parent_id",)]
    return moved and (change.before["parent_id"] in died or change.after["parent_id"] in revived)
