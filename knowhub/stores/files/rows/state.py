"""The acknowledged rows of an account in memory, and what is decided over them and not yet written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from knowhub.context.model import NODES, PARTS, ContextHead
from knowhub.core.operation import Operation, Row
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, Node
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.model import Head
from knowhub.resources.model import RESOURCES
from knowhub.stores.files.log.log_line import RawChange
from knowhub.stores.files.log.sliced_line import SlicedChange, info_row, link_row
from knowhub.stores.files.rows.context_catalog import ContextCatalog, PendingContext
from knowhub.stores.files.rows.disk_rows import PlacedRows, ReadText
from knowhub.stores.files.rows.info_catalog import InfoCatalog, PendingInfos
from knowhub.stores.files.rows.keyword_catalog import KeywordCatalog, PendingKeywords
from knowhub.stores.files.rows.knowledge_catalog import KnowledgeCatalog
from knowhub.stores.files.rows.resource_catalog import ResourceCatalog

_ROWS_PER_OPERATION_BITS = 20
_PLACED = frozenset({INFOS, LINKS})
_CONTEXT = frozenset({NODES, PARTS})
_AFTER = b'"after":'


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of the log where it stands."""

    segment: int
    offset: int
    data: bytes

    def offsets_of(self, texts: Sequence[bytes]) -> list[int]:
        """Find where rows stand, given as their texts, each as it stands in the line, in their order."""
        starts_with, find, base = self.data.startswith, self.data.find, self.offset
        offsets, end, gap = [], 0, 0
        for text in texts:
            # In a batch of new rows all that stands between two of them has the same length.
            at = end + gap
            if not starts_with(text, at):
                # Another row may quote this one; where a line has blanks of its own, the same bytes will do.
                found = find(_AFTER + text, end)
                at = found + len(_AFTER) if found >= 0 else find(text, end)
            offsets.append(base + at)
            gap = at - end
            end = at + len(text)
        return offsets


class AccountState:
    """Every row of one account, tombstones too, with the maps that its queries need.

    Rows are JSON text: those of infos and links, of which there are many, stay in the log and are read through `read`.
    """

    def __init__(self, read: ReadText) -> None:
        self.rows: dict[str, dict[str, bytes]] = {}
        self.undos: dict[str, str] = {}
        self.knowledge: KnowledgeCatalog = KnowledgeCatalog()
        self.keywords = KeywordCatalog()
        self.infos = InfoCatalog(read)
        self.resources = ResourceCatalog()
        self.context = ContextCatalog()

    def load(self, seq: int, changes: Sequence[SlicedChange], line: PlacedLine) -> None:
        """Take in an operation that was read back, as its line was sliced."""
        texts = [bytes(change.after) for change in changes]
        for index, change in enumerate(changes):
            if change.collection not in _PLACED:
                # A base names the number that the text of a record had.
                number = text_number(seq, index) if change.number is None else change.number
                row = orjson.loads(texts[index])
                self._take_kept(change.collection, change.id, row, texts[index], number)
        self._take_placed(changes, texts, line)

    def move(self, changes: Sequence[SlicedChange], line: PlacedLine) -> None:
        """Read rows that stay on disk from another line from now on, where they are still the same."""
        placed = [change for change in changes if change.collection in _PLACED]
        texts = [bytes(change.after) for change in placed]
        for change, text, offset in zip(placed, texts, line.offsets_of(texts), strict=True):
            self.infos.move(change.collection, change.id, (line.segment, offset), text)

    def apply(self, seq: int, changes: Sequence[RawChange], line: PlacedLine, decided: "Pending") -> None:
        """Take in an operation that was written here; `decided` has done part of the work already."""
        for index, change in enumerate(changes):
            if change.collection in _PLACED:
                continue
            if change.collection == knowledge.COLLECTION and (head := decided.knowledge.head(change.id)):
                self._keep(change.collection, change.id, change.after)
                self.knowledge.put(head)
            elif change.collection == KEYWORDS and (node := decided.keywords.node(change.id)):
                self._keep(change.collection, change.id, change.after)
                self.keywords.put(node)
            elif change.collection in _CONTEXT and (memory := decided.context.head(change.id)):
                self._keep(change.collection, change.id, change.after)
                self.context.put(memory)
            else:
                row, number = change.after_row, text_number(seq, index)
                self._take_kept(change.collection, change.id, row, change.after, number)
        self._take_placed(changes, [change.after for change in changes], line)

    def note_undo(self, undo_of: str | None, operation_id: str) -> None:
        """Remember which operation undid which."""
        if undo_of is not None:
            self.undos[undo_of] = operation_id

    def raw(self, collection: str, row_id: str) -> bytes | None:
        """Return a row's text. Raises Unavailable when it stays in the log and does not read back."""
        if collection == INFOS:
            return self.infos.info_text(row_id)
        if collection == LINKS:
            info_id, _, keyword_id = row_id.partition(":")
            return self.infos.link_text(info_id, keyword_id)
        return self.rows.get(collection, {}).get(row_id)

    def _take_placed(
        self, changes: Sequence[SlicedChange | RawChange], texts: Sequence[bytes], line: PlacedLine
    ) -> None:
        # Infos before links, which need their numbers.
        if infos := [text for change, text in zip(changes, texts, strict=True) if change.collection == INFOS]:
            rows = list(map(info_row, infos))
            self.infos.put_infos(PlacedRows(line.segment, rows, infos, line.offsets_of(infos)))
        if links := [text for change, text in zip(changes, texts, strict=True) if change.collection == LINKS]:
            self.infos.put_links(PlacedRows(line.segment, list(map(link_row, links)), links, line.offsets_of(links)))

    def _take_kept(self, collection: str, row_id: str, row: Mapping[str, Any], text: bytes, number: int) -> None:
        if collection == knowledge.COLLECTION:
            self.knowledge.put(self.knowledge.head_for(row, number))
        elif collection == KEYWORDS:
            self.keywords.put(self.keywords.node_for(row))
        elif collection == RESOURCES:
            self.resources.put(row)
        elif collection in _CONTEXT:
            self.context.put(self.context.head_for(collection, row, number))
        # Last: over a row that stood nothing comes to stand that has not the shape of one.
        self._keep(collection, row_id, text)

    def _keep(self, collection: str, row_id: str, text: bytes) -> None:
        self.rows.setdefault(collection, {})[row_id] = text


class Pending:
    """What a batch has decided for one account and not yet written, over that account's state."""

    def __init__(self, below: AccountState) -> None:
        self._below = below
        self.rows: dict[tuple[str, str], bytes] = {}
        self.undos: dict[str, str] = {}
        self.knowledge = KnowledgeCatalog(below.knowledge)
        self.keywords = PendingKeywords(below.keywords)
        self.infos = PendingInfos(below.infos)
        self.context = PendingContext(below.context)

    def take(self, operation: Operation, changes: Sequence[RawChange]) -> None:
        """Take in a decided operation."""
        for index, change in enumerate(changes):
            self.rows[change.collection, change.id] = change.after
            self._note(change, text_number(operation.seq, index))
        if operation.undo_of is not None:
            self.undos[operation.undo_of] = operation.operation_id

    def _note(self, change: RawChange, number: int) -> None:
        if change.collection == knowledge.COLLECTION:
            earlier: Head | None = self._below.knowledge.head(change.id)
            self.knowledge.put(self.knowledge.head_for(change.after_row, number, earlier))
        elif change.collection == KEYWORDS:
            below: Node | None = self._below.keywords.node(change.id)
            self.keywords.put(self.keywords.node_for(change.after_row, below))
        elif change.collection == INFOS:
            self.infos.put_info(change.after_row)
        elif change.collection == LINKS:
            self.infos.put_link(change.after_row)
        elif change.collection in _CONTEXT:
            memory = self._below.context.head(change.id)
            self.context.put(self.context.head_for(change.collection, change.after_row, number, memory))


def text_number(seq: int, index: int) -> int:
    """Name one change of one operation by a number that is the same in every process."""
    return (seq << _ROWS_PER_OPERATION_BITS) | index


@dataclass(frozen=True, slots=True)
class SearchableRecords:
    """What a search index reads of one account's records."""

    state: AccountState

    def head(self, knowledge_id: str) -> Head | None:
        return self.state.knowledge.head(knowledge_id)

    def by_text_num(self, text_num: int) -> Head | None:
        return self.state.knowledge.by_text_num(text_num)

    def row(self, knowledge_id: str) -> Row:
        row: Row = orjson.loads(self.state.rows[knowledge.COLLECTION][knowledge_id])
        return row

    def heads(self) -> Iterator[Head]:
        return self.state.knowledge.live_heads()

    def seq_of(self, text_num: int) -> int:
        return text_num >> _ROWS_PER_OPERATION_BITS


@dataclass(frozen=True, slots=True)
class SearchableContext:
    """What a search index reads of one account's memories: nodes, and the parts of sessions."""

    state: AccountState

    def head(self, address: str) -> ContextHead | None:
        return self.state.context.head(address)

    def by_text_num(self, text_num: int) -> ContextHead | None:
        return self.state.context.by_text_num(text_num)

    def row(self, address: str) -> Row:
        rows = self.state.rows
        row: Row = orjson.loads(rows.get(NODES, {}).get(address) or rows[PARTS][address])
        return row

    def heads(self) -> Iterator[ContextHead]:
        return self.state.context.live_heads()

    def seq_of(self, text_num: int) -> int:
        return text_num >> _ROWS_PER_OPERATION_BITS
