"""Infos and links in memory, by number: the text of both stays in the log."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from knowhub.keywords.model import INFOS, InfoHead, InfoQuery, InfoSort, Link, RelationType
from knowhub.stores.files.log.sliced_line import InfoRow, LinkRow
from knowhub.stores.files.rows.disk_rows import DiskRows, PlacedRows, ReadText
from knowhub.stores.files.rows.keyword_catalog import reach

RELATIONS = tuple(RelationType)
_CODE = {relation.value: code for code, relation in enumerate(RELATIONS)}
_CODE_BITS = 2
_CODE_MASK = (1 << _CODE_BITS) - 1
_LIVE = 0x80


class InfoCatalog:
    """The infos and links of one account, deleted ones too.

    Infos are numbered in the order of their creation, so newest first is highest first. Each keyword has an ascending
    array of `info number << 2 | relation`. The links of an info are chained through `_next_link`, an entry a link: most
    infos have one or two, and a list for each would cost more than the link. Numbers of links count from 1; 0 is none.
    """

    def __init__(self, read: ReadText) -> None:
        self._info_rows = DiskRows(read)
        self._link_rows = DiskRows(read)
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._reaches: list[tuple[str, tuple[str, ...], frozenset[str]]] = []
        self._reach_numbers: dict[tuple[str, ...], int] = {}
        self._info_reach = array("I")
        self._info_live = bytearray()
        self._first_link = array("I")
        self._next_link = array("I")
        self._link_keyword = array("I")
        self._link_state = bytearray()
        self._keyword_numbers: dict[str, int] = {}
        self._keyword_ids: list[str] = []
        self._of_keyword: list[array[int]] = []

    def put_infos(self, placed: PlacedRows[InfoRow]) -> None:
        """Take in infos with their new content; a thousand new ones at once, as in a batch, cost little each."""
        first = len(self._ids)
        numbers = list(map(self._numbers.setdefault, [row.id for row in placed.rows], count(first)))
        if numbers == list(range(first, first + len(numbers))):
            self._add_infos(placed)
            return
        for row, text, offset in zip(placed.rows, placed.texts, placed.offsets, strict=True):
            number = self._numbers[row.id]
            if number >= len(self._ids):
                self._numbers[row.id] = len(self._ids)
                self._add_infos(PlacedRows(placed.segment, [row], [text], [offset]))
            else:
                self._info_reach[number] = self._reach_number(row)
                self._info_live[number] = not row.deleted
                self._info_rows.replace(number, placed.segment, offset, text)

    def put_links(self, placed: PlacedRows[LinkRow]) -> None:
        """Take in links with their new content; new ones, of which a batch mostly consists, cost least."""
        taken = self._take_new_links(placed)
        self._link_rows.extend(placed.part(0, taken))
        for index in range(taken, len(placed.rows)):
            one = placed.part(index, index + 1)
            if self._take_new_links(one):
                self._link_rows.extend(one)
            else:
                self._replace_link(one)

    def _take_new_links(self, placed: PlacedRows[LinkRow]) -> int:
        """Take in links, but not their texts, up to the first one that is known; return how many that were."""
        # A hub of a million links is opened by this loop.
        numbers, keyword_numbers, first_link = self._numbers, self._keyword_numbers, self._first_link
        for index, row in enumerate(placed.rows):
            info = numbers.get(row.info_id)
            if info is None:
                info = self._stand_in(row.info_id)
            keyword = keyword_numbers.get(row.keyword_id)
            if keyword is None:
                keyword = self._add_keyword(row.keyword_id)
            first = first_link[info]
            if first and self._link(info, keyword):
                return index
            state = _state_of(row)
            self._next_link.append(first)
            self._link_keyword.append(keyword)
            self._link_state.append(state)
            first_link[info] = len(self._next_link)
            entries, entry = self._of_keyword[keyword], info << _CODE_BITS | state & _CODE_MASK
            if state & _LIVE and (not entries or entries[-1] < entry):
                entries.append(entry)
            else:
                self._list(keyword, info, 0, state)
        return len(placed.rows)

    def _replace_link(self, placed: PlacedRows[LinkRow]) -> None:
        row, text, offset = placed.rows[0], placed.texts[0], placed.offsets[0]
        info, keyword = self._numbers[row.info_id], self._keyword_numbers[row.keyword_id]
        link, state = self._link(info, keyword), _state_of(row)
        self._list(keyword, info, self._link_state[link - 1], state)
        self._link_state[link - 1] = state
        self._link_rows.replace(link - 1, placed.segment, offset, text)

    def move(self, collection: str, row_id: str, place: tuple[int, int], text: bytes) -> None:
        """Read a row from another place, a segment and an offset, where it is still this text."""
        if collection == INFOS:
            self._info_rows.move(self._numbers[row_id], *place, text)
        else:
            info_id, _, keyword_id = row_id.partition(":")
            link = self._link(self._numbers[info_id], self._keyword_numbers[keyword_id])
            self._link_rows.move(link - 1, *place, text)

    def info_text(self, info_id: str) -> bytes | None:
        number = self._numbers.get(info_id)
        return None if number is None else self._info_rows.text(number) or None

    def link_text(self, info_id: str, keyword_id: str) -> bytes | None:
        info, keyword = self._numbers.get(info_id), self._keyword_numbers.get(keyword_id)
        link = 0 if info is None or keyword is None else self._link(info, keyword)
        return self._link_rows.text(link - 1) if link else None

    def info(self, info_id: str) -> InfoHead | None:
        number = self._numbers.get(info_id)
        return None if number is None else self._head(number)

    def infos_newest(self, before: int | None) -> Iterator[InfoHead]:
        """Yield the live infos below number `before`, newest first."""
        start = len(self._ids) if before is None else min(before, len(self._ids))
        return (self._head(number) for number in range(start - 1, -1, -1) if self._info_live[number])

    def links_of_info(self, info_id: str) -> Iterator[Link]:
        info = self._numbers.get(info_id)
        link = 0 if info is None else self._first_link[info]
        while link:
            state = self._link_state[link - 1]
            if state & _LIVE:
                keyword_id = self._keyword_ids[self._link_keyword[link - 1]]
                yield Link(info_id, keyword_id, RELATIONS[state & _CODE_MASK])
            link = self._next_link[link - 1]

    def links_of_keyword(self, keyword_id: str) -> Iterator[Link]:
        for entry in self._entries(keyword_id):
            yield Link(self._ids[entry >> _CODE_BITS], keyword_id, RELATIONS[entry & _CODE_MASK])

    def infos_of_keyword(self, keyword_id: str, query: InfoQuery) -> Iterator[InfoHead]:
        entries = self._entries(keyword_id)
        codes = range(len(RELATIONS)) if query.sort is InfoSort.RELEVANCE else (None,)
        wanted = None if query.relation is None else _CODE[query.relation.value]
        for code in codes:
            for entry in reversed(entries):
                found = entry & _CODE_MASK
                if wanted in (None, found) and code in (None, found):
                    yield self._head(entry >> _CODE_BITS)

    def __len__(self) -> int:
        return len(self._ids)

    def _add_infos(self, placed: PlacedRows[InfoRow]) -> None:
        """Take in new infos, which have their numbers."""
        self._ids.extend([row.id for row in placed.rows])
        self._info_reach.extend(self._reach_numbers_of(placed.rows))
        self._info_live.extend([not row.deleted for row in placed.rows])
        self._first_link.frombytes(bytes(self._first_link.itemsize * len(placed.rows)))
        self._info_rows.extend(placed)

    def _stand_in(self, info_id: str) -> int:
        """Give a number to an info whose own line is damaged, and named so: what is left is read all the same."""
        row = InfoRow(info_id, "", [], deleted=True)
        self.put_infos(PlacedRows(0, [row], [b""], [-1]))
        return len(self._ids) - 1

    def _reach_numbers_of(self, rows: Sequence[InfoRow]) -> Iterator[int]:
        # Those of a batch mostly have one owner and the same scopes.
        owner, own_scopes, number = None, None, 0
        for row in rows:
            if row.owner != owner or row.scopes != own_scopes:
                owner, own_scopes, number = row.owner, row.scopes, self._reach_number(row)
            yield number

    def _reach_number(self, row: InfoRow) -> int:
        key = (row.owner, *row.scopes)
        number = self._reach_numbers.get(key)
        if number is None:
            number = self._reach_numbers[key] = len(self._reaches)
            self._reaches.append(reach(row.owner, tuple(row.scopes)))
        return number

    def _add_keyword(self, keyword_id: str) -> int:
        number = self._keyword_numbers[keyword_id] = len(self._keyword_ids)
        self._keyword_ids.append(keyword_id)
        self._of_keyword.append(array("Q"))
        return number

    def _link(self, info: int, keyword: int) -> int:
        link = self._first_link[info]
        while link and self._link_keyword[link - 1] != keyword:
            link = self._next_link[link - 1]
        return link

    def _list(self, keyword: int, info: int, old: int, new: int) -> None:
        if old == new:
            return
        entries = self._of_keyword[keyword]
        if old & _LIVE:
            del entries[bisect_left(entries, info << _CODE_BITS | old & _CODE_MASK)]
        if new & _LIVE:
            entry = info << _CODE_BITS | new & _CODE_MASK
            if not entries or entries[-1] < entry:
                entries.append(entry)
            else:
                entries.insert(bisect_left(entries, entry), entry)

    def _entries(self, keyword_id: str) -> "Sequence[int]":
        number = self._keyword_numbers.get(keyword_id)
        return () if number is None else self._of_keyword[number]

    def _head(self, number: int) -> InfoHead:
        owner, _, audience = self._reaches[self._info_reach[number]]
        return InfoHead(self._ids[number], number, owner, audience, live=bool(self._info_live[number]))


def _state_of(row: LinkRow) -> int:
    return _CODE[row.relation] | (0 if row.deleted else _LIVE)


class PendingInfos:
    """Infos and links that are decided and not yet written over a catalog."""

    def __init__(self, below: InfoCatalog) -> None:
        self._below = below
        self._fresh = 0
        self.infos: dict[str, InfoHead] = {}
        self.links: dict[tuple[str, str], Link | None] = {}

    def put_info(self, row: Mapping[str, Any]) -> None:
        known = self.infos.get(row["id"]) or self._below.info(row["id"])
        ordinal = known.ordinal if known else len(self._below) + self._fresh
        self._fresh += known is None
        owner, _, audience = reach(row["owner"], tuple(row["scopes"]))
        self.infos[row["id"]] = InfoHead(row["id"], ordinal, owner, audience, live=not row.get("deleted", False))

    def put_link(self, row: Mapping[str, Any]) -> None:
        pair = (row["info_id"], row["keyword_id"])
        self.links[pair] = None if row.get("deleted", False) else Link(*pair, RelationType(row["relation"]))

    def over(self, links: Iterator[Link], *, info_id: str | None = None, keyword_id: str | None = None) -> list[Link]:
        """Return the links of the catalog with what is decided put over them, those of the oldest info first."""
        kept = [link for link in links if (link.info_id, link.keyword_id) not in self.links]
        decided = (
            link
            for pair, link in self.links.items()
            if link is not None and info_id in (None, pair[0]) and keyword_id in (None, pair[1])
        )
        return sorted([*kept, *decided], key=self._age)

    def _age(self, link: Link) -> int:
        head = self.infos.get(link.info_id) or self._below.info(link.info_id)
        return -1 if head is None else head.ordinal
