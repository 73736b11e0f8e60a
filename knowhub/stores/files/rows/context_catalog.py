"""The layered memories of one account in memory: heads by URI, who stands below whom, and the parts of sessions."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from knowhub.context import uri
from knowhub.context.heads import head_of
from knowhub.context.model import ContextHead
from knowhub.core.operation import Row

_Place = tuple[int, str]


class ContextCatalog:
    """Fed by the log, and by nothing else. Deleted nodes and parts keep their places; what is listed leaves them out.

    What stands below a URI is put in order when it is next read: a log hands in parts in their order, and nodes in any.
    """

    def __init__(self) -> None:
        self._heads: dict[str, ContextHead] = {}
        self._by_text_num: dict[int, str] = {}
        self._below: dict[str, list[_Place]] = {}
        self._unsorted: set[str] = set()
        self._folders: dict[str, Counter[str]] = {}
        self._versions: Counter[str] = Counter()

    def head_for(self, collection: str, row: Row, text_num: int, earlier: ContextHead | None = None) -> ContextHead:
        """Make the head of a row's new content. `earlier` is its head below, for a catalog that overlays another."""
        return head_of(collection, row, text_num, self._heads.get(row["id"]) or earlier)

    def put(self, head: ContextHead) -> None:
        """Take in the new head of a node or a part."""
        known = self._heads.get(head.uri)
        self._heads[head.uri] = head
        if known is None or known.text_num != head.text_num:
            if known is not None:
                self._by_text_num.pop(known.text_num, None)
            self._by_text_num[head.text_num] = head.uri
        if known is None or known.number != head.number:
            self._place(head, known)
        if head.is_part:
            self._versions[head.parent_uri] += head.version - (known.version if known else 0)
        was_live = known is not None and known.live
        if was_live != head.live and not head.is_part:
            self._count_folders(head.parent_uri, 1 if head.live else -1)

    def head(self, address: str) -> ContextHead | None:
        return self._heads.get(address)

    def by_text_num(self, text_num: int) -> ContextHead | None:
        """Return whose searched text is still the one of `text_num`; None when that is outdated."""
        address = self._by_text_num.get(text_num)
        return None if address is None else self._heads[address]

    def live_heads(self) -> Iterator[ContextHead]:
        return (head for head in self._heads.values() if head.live)

    def children(self, parent_uri: str) -> Iterator[ContextHead]:
        """Yield the live ones directly below, parts as they were said, nodes by their URIs."""
        return self._live(place for place in self._places(parent_uri))

    def neighbours(self, address: str, reach: int) -> list[ContextHead]:
        """Return the live ones that stand at most `reach` before or behind one, without it."""
        head = self._heads.get(address)
        if head is None:
            return []
        places = self._places(head.parent_uri)
        at = bisect_left(places, _place(head))
        before = list(islice(self._live(places[index] for index in range(at - 1, -1, -1)), reach))
        behind = islice(self._live(places[index] for index in range(at + 1, len(places))), reach)
        return [*reversed(before), *behind]

    def behind(self, parent_uri: str, place: tuple[int, str]) -> list[ContextHead]:
        """Return the live ones directly below that stand behind a place: a number, and a URI among those with it."""
        places = self._places(parent_uri)
        return list(self._live(places[bisect_right(places, place) :]))

    def versions_of_parts(self, session_uri: str) -> int:
        """Return the sum of the versions of a session's parts, deleted ones too: it grows with each change of one."""
        return self._versions[session_uri]

    def folders(self, parent_uri: str) -> list[str]:
        """Return the URIs directly below that are no nodes and have live nodes below them, in order."""
        return sorted(self._folders.get(parent_uri, ()))

    def _places(self, parent_uri: str) -> Sequence[_Place]:
        places = self._below.get(parent_uri, [])
        if parent_uri in self._unsorted:
            places.sort()
            self._unsorted.discard(parent_uri)
        return places

    def _live(self, places: Iterable[_Place]) -> Iterator[ContextHead]:
        return (head for head in (self._heads[address] for _, address in places) if head.live)

    def _place(self, head: ContextHead, known: ContextHead | None) -> None:
        places = self._below.setdefault(head.parent_uri, [])
        if known is not None:
            # A part that comes back after an undo may be another's successor now.
            places.remove(_place(known))
        place = _place(head)
        if places and places[-1] > place:
            self._unsorted.add(head.parent_uri)
        places.append(place)

    def _count_folders(self, parent_uri: str, difference: int) -> None:
        path = [*uri.ancestors(parent_uri), parent_uri]
        for above, folder in pairwise(path):
            counts = self._folders.setdefault(above, Counter())
            counts[folder] += difference
            if not counts[folder]:
                del counts[folder]


class PendingContext(ContextCatalog):
    """What is decided and not yet written over a catalog."""

    def __init__(self, below: ContextCatalog) -> None:
        super().__init__()
        self._acknowledged = below

    def children(self, parent_uri: str) -> Iterator[ContextHead]:
        kept = (head for head in self._acknowledged.children(parent_uri) if head.uri not in self._heads)
        decided = super().children(parent_uri) if parent_uri in self._below else ()
        return iter(sorted([*kept, *decided], key=_place))

    def neighbours(self, address: str, reach: int) -> list[ContextHead]:
        head = self._heads.get(address) or self._acknowledged.head(address)
        if head is None:
            return []
        siblings = [other for other in self.children(head.parent_uri) if other.uri != address]
        at = bisect_left(siblings, _place(head), key=_place)
        return siblings[max(0, at - reach) : at + reach]


def _place(head: ContextHead) -> _Place:
    return head.number, head.uri
