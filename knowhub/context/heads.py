"""From the row of a node or of a part to its head."""

from functools import lru_cache

from knowhub.context import l0, uri
from knowhub.context.model import PARTS, Category, ContextHead
from knowhub.core import scopes
from knowhub.core.clock import parse_iso
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live

_KINDS_CACHED = 65_536
_MOST_SOURCES = 32
_GATHERED = frozenset({Category.PREFERENCES, Category.ENTITIES, Category.PATTERNS})


def head_of(collection: str, row: Row, text_num: int, earlier: ContextHead | None = None) -> ContextHead:
    """Make the head of a row; `text_num` stays that of `earlier` while nothing that is searched has changed."""
    is_part = collection == PARTS
    address = str(row["id"])
    parent = uri.parent_of(address)
    category = Category.SESSIONS if is_part else Category(row["category"])
    audience, facets = _kind(parent, category, str(row["owner"]), tuple(row["scopes"]))
    said_at = l0.said_at(collection, row)
    name = l0.speaker(row) if is_part else _name(category, row)
    signature = hash((l0.searched_text(collection, row), said_at))
    abstract = l0.shown(l0.said(row) if is_part else str(row["abstract"]))
    # Of an erased row a stub stands in old lines too, as it was then: not deleted yet, and nothing to show any more.
    live = is_live(row) and not is_erased(row)
    is_same = earlier is not None and earlier.live == live and earlier.signature == signature
    return ContextHead(
        uri=address,
        parent_uri=parent,
        category=category,
        owner_space=_space(address),
        owner=str(row["owner"]),
        audience=audience,
        facets=facets | {facet("under", address)},
        live=live,
        version=int(row["version"]),
        text_num=earlier.text_num if earlier is not None and is_same else text_num,
        signature=signature,
        number=int(row["number"]) if is_part else 0,
        name=name,
        abstract=abstract,
        said_at=said_at,
        ahead_s=l0.ahead_s(collection, row),
        updated_at=parse_iso(str(row["updated_at"])),
        message_id=row["message_id"] if is_part else None,
        has_overview=is_part or bool(row["overview"]),
        has_content=is_part or category is Category.SESSIONS or bool(row["content"]),
        sources=() if is_part else tuple(row["metadata"].get("source_refs", ())[:_MOST_SOURCES]),
    )


def facet(name: str, value: str) -> str:
    """Name one thing that a search can be narrowed to: `category:events`, `under:ctx://…`, `sees:user:li`."""
    return f"{name}:{value}"


def audience_facets(visible: frozenset[str]) -> frozenset[str]:
    """Return the facets of which a row must have one to be seen by any of `visible`."""
    return frozenset(facet("sees", scope) for scope in visible)


@lru_cache(maxsize=_KINDS_CACHED)
def _kind(
    parent: str, category: Category, owner: str, own_scopes: tuple[str, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    audience = scopes.audience(own_scopes, owner)
    above = [*uri.ancestors(parent), parent]
    facets = {facet("category", category.value), *audience_facets(audience), *(facet("under", one) for one in above)}
    return audience, frozenset(facets)


def _name(category: Category, row: Row) -> str:
    """Return how a node is called: where its URI is silent of that, by what is gathered in it."""
    key = row["metadata"].get("routing_key") if category in _GATHERED else None
    return uri.slug(str(key)) if key else str(row["id"]).rpartition("/")[2]


def _space(address: str) -> str:
    return "/".join(address.removeprefix(uri.SCHEME).split("/")[1:3])
