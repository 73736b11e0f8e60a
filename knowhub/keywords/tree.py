"""Walks of the keyword tree: paths, levels, subtrees; and the root, which every account has (seed 000 §3)."""

from collections.abc import Sequence
from typing import Any

from knowhub.core import clock, scopes
from knowhub.core.operation import Row, is_live
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.ports import KeywordView

ROOT_OWNER = "user:local"
"""Nobody's in particular: of the callers who name themselves, none becomes the owner by writing first."""

ROOT_NODE = Node(
    id=ROOT_ID,
    ordinal=-1,
    name=ROOT_ID,
    tokens=(),
    pinyin=(),
    terms=(),
    parent_id=None,
    is_described=False,
    owner=ROOT_OWNER,
    scopes=(scopes.PUBLIC,),
    audience=scopes.audience((scopes.PUBLIC,), ROOT_OWNER),
    version=1,
    live=True,
)


def node_of(row: Row, ordinal: int, reach: tuple[str, tuple[str, ...], frozenset[str]]) -> Node:
    """Make the node of a row; `reach` is its owner, its scopes and the audience that follows from them."""
    owner, own_scopes, audience = reach
    return Node(
        id=row["id"],
        ordinal=ordinal,
        name=row["name"],
        tokens=tuple(row["normalized"]),
        pinyin=tuple(row["pinyin"]),
        terms=tuple(row["terms"]),
        parent_id=row["parent_id"],
        is_described=bool(row["description"]),
        owner=owner,
        scopes=own_scopes,
        audience=audience,
        version=row["version"],
        live=is_live(row),
    )


def live_node(view: KeywordView, keyword_id: str) -> Node | None:
    """Return a keyword that was made and not deleted since; the root is always there."""
    node = view.node(keyword_id)
    if node is not None and node.live:
        return node
    return ROOT_NODE if keyword_id == ROOT_ID else None


def path_of(view: KeywordView, keyword_id: str) -> list[Node]:
    """Return the nodes from the root to a keyword, both included; empty when the keyword is not there.

    What hangs on nothing that is there, which no verb makes, begins its own path.
    """
    upwards: dict[str, Node] = {}
    node = live_node(view, keyword_id)
    while node is not None and node.id not in upwards:
        upwards[node.id] = node
        node = live_node(view, node.parent_id) if node.parent_id is not None else None
    return list(reversed(upwards.values()))


def level_of(view: KeywordView, keyword_id: str) -> int:
    """Return how far below the root a keyword stands (KT-042); 0 for the root."""
    level = 0
    seen = {keyword_id}
    node = view.node(keyword_id)
    while node is not None and node.parent_id is not None and node.parent_id not in seen:
        level += 1
        seen.add(node.parent_id)
        node = view.node(node.parent_id)
    return level


def subtree(view: KeywordView, keyword_id: str) -> list[Node]:
    """Return a keyword and all that hangs below it, level by level; empty when the keyword is not there."""
    top = live_node(view, keyword_id)
    if top is None:
        return []
    found = {top.id: top}
    waiting = [top.id]
    for above in waiting:
        fresh = [child for child in view.children(above) if child.id not in found]
        found.update((child.id, child) for child in fresh)
        waiting += [child.id for child in fresh]
    return list(found.values())


def is_within(view: KeywordView, keyword_id: str, above_id: str) -> bool:
    """Tell whether a keyword is `above_id` itself or hangs somewhere below it."""
    return any(node.id == above_id for node in path_of(view, keyword_id))


def lowest_common_ancestor(view: KeywordView, keyword_ids: Sequence[str]) -> str:
    """Return the deepest keyword on the paths of all of these (KT-126); the root when they share nothing else."""
    shared: list[str] | None = None
    for keyword_id in keyword_ids:
        path = [node.id for node in path_of(view, keyword_id)]
        shared = path if shared is None else _common_start(shared, path)
    return shared[-1] if shared else ROOT_ID


def root_row(now: float | None = None) -> dict[str, Any]:
    """Return the row of a root that nobody has changed, as a write makes it, or as a read without one shows it."""
    moment = clock.iso(0.0 if now is None else now)
    return {
        "id": ROOT_ID,
        "name": ROOT_ID,
        "aliases": [],
        "normalized": [],
        "pinyin": [],
        "terms": [],
        "parent_id": None,
        "description": "",
        "metadata": {},
        "scopes": [scopes.PUBLIC],
        "owner": ROOT_OWNER,
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def _common_start(left: Sequence[str], right: Sequence[str]) -> list[str]:
    common: list[str] = []
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        common.append(one)
    return common
