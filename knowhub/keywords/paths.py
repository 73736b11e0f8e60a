"""Keywords named by paths: `目的地/Java` is the keyword Java below 目的地."""

from collections.abc import Iterator, Sequence

from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.ports import KeywordText

SEPARATOR = "/"
_MAX_PARTS = 60
# A name may have separators of its own, such as TCP/IP.
_MAX_PARTS_A_NAME = 5


def join_names(names: Sequence[str]) -> str:
    """Return the path of a keyword from the names that lead to it."""
    return SEPARATOR.join(names)


def find_by_path(view: View, ctx: RequestContext, text: KeywordText, path: str) -> list[Node]:
    """Return the visible keywords at a path of names or aliases, oldest first.

    A path from the top of the tree wins over the end of a longer one. A name alone is a path too.
    """
    parts = [part.strip() for part in path.split(SEPARATOR)]
    parts = [part for part in parts if part]
    if parts[:1] == [ROOT_ID] and len(parts) > 1:
        parts = parts[1:]
    if not 0 < len(parts) <= _MAX_PARTS:
        return []
    whole: dict[str, Node] = {}
    ends: dict[str, Node] = {}
    for tokens, above in _split_last(text, parts):
        for node in rendering.find_by_names(view, ctx, tokens):
            is_top = _reach_top(view, ctx, text, node, above)
            if is_top is not None:
                (whole if is_top else ends)[node.id] = node
    return sorted((whole or ends).values(), key=lambda node: node.ordinal)


def _split_last(text: KeywordText, parts: Sequence[str]) -> Iterator[tuple[list[str], Sequence[str]]]:
    """Yield each possible last name of a path as normal forms, with the parts above it."""
    for count in range(1, min(len(parts), _MAX_PARTS_A_NAME) + 1):
        tokens = text.tokens(SEPARATOR.join(parts[-count:]))
        if tokens:
            yield tokens, parts[:-count]


def _reach_top(view: View, ctx: RequestContext, text: KeywordText, node: Node, above: Sequence[str]) -> bool | None:
    """Return whether a path that leads to `node` begins at the top of the tree; None if it does not lead there."""
    parents = [item for item in rendering.list_visible_path(view, ctx, node.id)[:-1] if item.id != ROOT_ID]
    if not above:
        return not parents
    if not parents:
        return None
    parent = parents[-1]
    for tokens, rest in _split_last(text, above):
        if not set(tokens).isdisjoint(parent.tokens):
            is_top = _reach_top(view, ctx, text, parent, rest)
            if is_top is not None:
                return is_top
    return None
