"""What of a node is told to whom: an agent's memory comes from sessions of many users, who see none but their own."""

from collections.abc import Callable, Iterable

from knowhub.context import uri
from knowhub.context.model import GROWTH, Category
from knowhub.core.operation import Row

Sees = Callable[[str], bool]
"""Whether the caller sees what stands at the URI of a node or a message."""


def told(address: str, row: Row, sees: Sees) -> Row:
    """Return the row of a node, or what is to be written of one, without what tells of sessions that are not seen.

    What stands in the space of a user came from sessions of that user alone.
    """
    metadata = row.get("metadata")
    if metadata is None or uri.parse(address).space.startswith("users/"):
        return row
    edges = [edge for edge in row.get("relations", ()) if sees(str(edge["to_uri"]))]
    refs = [ref for ref in metadata.get("source_refs", ()) if sees(str(ref))]
    places = [uri.parse(str(place)) for place in (*refs, *(edge["to_uri"] for edge in edges))]
    seen = {
        "source_refs": refs,
        "message_ids": _among(metadata.get("message_ids", ()), (place.part for place in places)),
        "sessions": _among(
            metadata.get("sessions", ()), (place.name for place in places if place.category is Category.SESSIONS)
        ),
    }
    kept = {"metadata": {name: seen.get(name, value) for name, value in metadata.items() if name != GROWTH}}
    return {**row, **kept, **({"relations": edges} if "relations" in row else {})}


def _among(names: Iterable[str], known: Iterable[str]) -> list[str]:
    among = frozenset(known)
    return [name for name in names if name in among]
