"""context/: a directory for each node, derived from the log: written when a commit answers, kept up by the keeper."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import orjson
import structlog

from knowhub.context.model import NODES
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_lock import WAIT_S, held_meanwhile
from knowhub.stores.files.directories.context_paths import place_of
from knowhub.stores.files.directories.context_projection import Projector, touched_by, wanted_of
from knowhub.stores.files.directories.context_walk import (
    CHECKPOINT,
    empty_folders,
    half_written,
    is_stranger,
    node_folders,
    strangers,
)
from knowhub.stores.files.directories.node_files import NodeFiles, put_file
from knowhub.stores.files.directories.node_way import remove, stranger_on
from knowhub.stores.files.filesystem import FileSystem, failure_of
from knowhub.stores.files.lock import boot_words
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import RawChange, parsed, seal
from knowhub.stores.files.rows.state import AccountState

_SLICE = 128
_PATROLLED, _HELD_AGAINST_THE_LOG = 200, 100
"""How many nodes a round of the keeper looks at, and how many of those it reads and holds against the log."""
_OPERATIONS_PER_TURN = 500
_BYTES_PER_TURN = 512 * 1024
_RECENT_OPERATIONS = 10_000
# Longer than others wait between two looks at the lock: a long rebuild lets commits in.
_BREATH_S = 0.002

_Touched = tuple[int, str, list[str]]
"""The number of an operation, its account, and the nodes whose directories it touched."""

_log = structlog.get_logger("knowhub.context")


class ContextLog(Protocol):
    """What directories are derived from: a store, with its log and the rows of its accounts."""

    @property
    def log_id(self) -> str: ...
    @property
    def history(self) -> History: ...
    @property
    def erases(self) -> int: ...
    @property
    def accounts(self) -> Sequence[str]: ...
    def state(self, account: str) -> AccountState: ...
    async def refresh(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DirectoriesNote:
    """Up to which line of which log the directories stand, of which erasings they know, and since which boot.

    Nothing of them is synced: behind another boot every byte of them is looked at again.
    """

    log_id: str = ""
    seq: int = 0
    checksum: str = ""
    erases: int = 0
    boot: str = ""


class NodeDirectories:
    """Implements `context.ports.ContextDirectories`, and the keeper's job that repairs what is missing or torn.

    One process at a time writes, which looks at the newest rows when it is its turn: no older state comes to stand over
    a newer one, and what is left of one that died is seen by the next.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: DataDirectory,
        log: ContextLog,
        wait_s: float = WAIT_S,
        remembered: int = _RECENT_OPERATIONS,
    ) -> None:
        self._files = files
        self._root = directory.context
        self._log = log
        self._wait_s = wait_s
        self._projector = Projector(files, self._root)
        self._boot = "{:016x}{:016x}".format(*boot_words(files))
        self._turn = asyncio.Lock()
        self._projecting: set[asyncio.Task[bool]] = set()
        # What operations have touched lately, so that the log need not be read again.
        self._recent: deque[_Touched] = deque()
        self._remembered = remembered
        self._recent_from = log.history.last_seq
        self._noted: DirectoriesNote | None = None
        # What the patrol is to look at next, and then on its way round.
        self._ahead: deque[tuple[str, str]] = deque()
        self._round: Iterator[tuple[str, str]] = iter(())

    def follow(self, account: str, seq: int, changes: Sequence[RawChange]) -> None:
        """Remember what an operation touched. Called by the store, in order."""
        touched = touched_by([(change.collection, change.id) for change in changes])
        if touched:
            self._recent.append((seq, account, touched))
        while len(self._recent) > self._remembered:
            self._recent_from = self._recent.popleft()[0]

    async def project(self, account: str, operation: Operation) -> bool:
        """Bring the directories of the nodes that an operation touched up to the log; False where that has to wait."""
        touched = touched_by([(change.collection, change.id) for change in operation.changes])
        # Not to be cancelled with the request: a thread would go on writing when somebody else's turn has come.
        new = {change.id for change in operation.changes if change.collection == NODES and change.before is None}
        task = asyncio.get_running_loop().create_task(self._projected(account, touched, new))
        self._projecting.add(task)
        task.add_done_callback(self._projecting.discard)
        return await asyncio.shield(task)

    async def bring_up(self) -> None:
        """Bring every directory up to the log. Only the keeper of the data directory does. Raises OSError, Unavailable.

        What was touched since the last time is looked at; everything where the note on the directories is none of this
        log, or of another boot.
        """
        erases, seq = self._log.erases, self._log.history.last_seq
        note = self.note()
        fits = self._fits(note)
        if (note == self._noted and note.seq == seq and note.erases == erases) or not self._is_used():
            return
        if not fits or not await self._bring_touched(note.seq, seq):
            await self._sweep()
        elif self._noted is None or note.erases != erases:
            await self._remove(half_written)
        checksum = self._log.history.checksum(seq)
        self._write_note(DirectoriesNote(self._log.log_id, seq, checksum, erases, self._boot))
        while self._recent and self._recent[0][0] <= seq:
            self._recent_from = self._recent.popleft()[0]

    async def patrol(self) -> None:
        """Look at the next few directories, and mend those that somebody has damaged. Raises OSError, Unavailable.

        Round by round all are looked at: in a moment those that look as they did, the others byte by byte.
        """
        self._ahead.extend(islice(self._round, _PATROLLED - len(self._ahead)))
        if not self._ahead:
            self._round = self._all_live()
            self._ahead.extend(islice(self._round, _PATROLLED))
        some = list(self._ahead)
        if not some:
            return
        changed = frozenset(await asyncio.to_thread(self._projector.changed, [uri for _, uri in some]))
        mended: dict[str, list[str]] = {}
        taken = 0
        for account, uri in some:
            if uri in changed:
                if taken == _HELD_AGAINST_THE_LOG:
                    break
                mended.setdefault(account, []).append(uri)
                taken += 1
            self._ahead.popleft()
        for account, uris in mended.items():
            await self._bring(account, uris, thorough=True)

    async def rebuild(self, account: str | None = None) -> None:
        """Hold every byte of an account's directories against the log, or of all, where strangers go too.

        Raises Unavailable where the disk refuses it, or another process keeps writing.
        """
        try:
            if account is None:
                await self._sweep()
            else:
                await self._bring(account, self._live(account), thorough=True)
        except OSError as problem:
            raise failure_of(problem, "not every directory of a memory was looked at") from problem

    @property
    def noted_erases(self) -> int | None:
        """The number of the newest erasing that the directories know of; None where there are none."""
        return self.note().erases if any(name != CHECKPOINT for name in self._files.names(self._root)) else None

    @property
    def lag(self) -> int:
        """How many operations the directories may be behind the log, whichever process is keeper."""
        return max(0, self._log.history.last_seq - self.note().seq) if self._is_used() else 0

    def note(self) -> DirectoriesNote:
        """Return the note on the directories; an empty one where there is none that reads back."""
        try:
            sealed = parsed(self._files.read(self._root / CHECKPOINT))
        except FileNotFoundError:
            sealed = None
        match sealed:
            case {
                "log_id": str() as log_id,
                "seq": int() as seq,
                "checksum": str() as checksum,
                "erases": int() as erases,
                "boot": str() as boot,
            }:
                return DirectoriesNote(log_id, seq, checksum, erases, boot)
        return DirectoriesNote()

    async def close(self) -> None:
        """Wait until what is being written has been."""
        while self._projecting:
            await asyncio.wait(self._projecting)

    async def _projected(self, account: str, touched: Sequence[str], new: Collection[str]) -> bool:
        try:
            await self._bring(account, touched, new=new)
        except (OSError, KnowHubError) as problem:
            _log.warning("directories_wait", account=account, error=str(problem))
            return False
        return True

    async def _bring(
        self, account: str, uris: Iterable[str], *, thorough: bool = False, new: Collection[str] = ()
    ) -> None:
        ahead = iter(uris)
        some = list(islice(ahead, _SLICE))
        while some:
            async with self._alone():
                state = self._log.state(account)
                old = [] if thorough else [uri for uri in some if uri not in new]
                sessions = [uri for uri in old if state.context.versions_of_parts(uri)]
                notes = await asyncio.to_thread(self._projector.notes, sessions) if sessions else {}
                wanted = [wanted_of(state, uri, notes.get(uri)) for uri in some]
                await asyncio.to_thread(self._projector.write, wanted, thorough=thorough, new=new)
            some = list(islice(ahead, _SLICE))
            if some:
                await asyncio.sleep(_BREATH_S)

    async def _sweep(self) -> None:
        """Look at every byte of every directory; remove those of nodes that are not there."""
        await self._remove(strangers)
        for account in self._log.accounts:
            await self._bring(account, self._live(account), thorough=True)
        dead = await asyncio.to_thread(self._unknown, await self._places())
        async with self._alone():
            # Somebody may have written new ones since.
            known = await self._places() if dead else set[str]()
            await asyncio.to_thread(self._remove_dead, [folder for folder in dead if self._place(folder) not in known])

    def _all_live(self) -> Iterator[tuple[str, str]]:
        return ((account, uri) for account in list(self._log.accounts) for uri in self._live(account))

    def _live(self, account: str) -> Iterator[str]:
        """Yield the nodes that there are now, less those that are deleted before it is their turn."""
        for uri in list(self._log.state(account).rows.get(NODES, ())):
            head = self._log.state(account).context.head(uri)
            if head is not None and head.live:
                yield uri

    async def _places(self) -> set[str]:
        """Return where live nodes lie, others having their turns between."""
        places, ahead = set[str](), self._all_live()
        while some := [place_of(uri) for _, uri in islice(ahead, _SLICE)]:
            places.update(some)
            await asyncio.sleep(0)
        return places

    def _place(self, folder: Path) -> str:
        return str(folder).removeprefix(f"{self._root}/")

    async def _remove(self, found: Callable[[FileSystem, Path], Iterator[Path]]) -> None:
        # Looking takes long where there is much, removing does not: commits need not wait for the former.
        seen = await asyncio.to_thread(lambda: list(found(self._files, self._root)))
        if seen:
            async with self._alone():
                await asyncio.to_thread(self._remove_strangers, seen)

    def _remove_strangers(self, seen: Sequence[Path]) -> None:
        for path in seen:
            # What somebody was writing has its own name by now, and what stood in the way may have gone.
            if is_stranger(self._files, self._root, path):
                remove(self._files, path)

    def _unknown(self, places: Collection[str]) -> list[Path]:
        return [path for path in node_folders(self._files, self._root) if self._place(path) not in places]

    def _remove_dead(self, dead: Sequence[Path]) -> None:
        nodes = NodeFiles(self._files)
        for folder in dead:
            if stranger_on(self._files, self._root, folder) is None:
                nodes.remove(folder)
        for folder in empty_folders(self._files, self._root):
            self._files.remove_folder(folder)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._turn, held_meanwhile(self._files, self._root, self._wait_s):
            # Who has written before may have known more.
            await self._log.refresh()
            yield

    async def _bring_touched(self, seq: int, last: int) -> bool:
        """Bring up the nodes that operations behind `seq` have touched, each once in a turn.

        False where a compaction has meanwhile forgotten some of them: nobody can tell any more which those were.
        """
        history = self._log.history
        while seq < min(self._recent_from, last):
            if seq < history.base_seq:
                return False
            read = [_touched_in(line) for line in history.lines_up(seq, _OPERATIONS_PER_TURN, _BYTES_PER_TURN)]
            for account, touched in _by_account(read):
                await self._bring(account, touched)
            # Where so many lines are damaged that none is left, there are others behind them.
            seq = read[-1][0] if read else seq + _OPERATIONS_PER_TURN
        for account, touched in _by_account([one for one in self._recent if one[0] > seq]):
            await self._bring(account, touched)
        return True

    def _fits(self, note: DirectoriesNote) -> bool:
        history = self._log.history
        if note.log_id != self._log.log_id or note.boot != self._boot or note.seq > history.last_seq:
            return False
        # What was touched since and then forgotten in a compaction, nobody can tell.
        if note.seq < min(history.base_seq, self._recent_from):
            return False
        # An erasing may have overwritten the line that this process has noted.
        return note == self._noted or history.checksum(note.seq) == note.checksum

    def _is_used(self) -> bool:
        return self._files.inode_at(self._root) is not None or any(
            self._log.state(account).rows.get(NODES) for account in self._log.accounts
        )

    def _write_note(self, note: DirectoriesNote) -> None:
        self._files.make_folder(self._root)
        put_file(self._files, self._root / CHECKPOINT, seal(orjson.dumps(asdict(note))[:-1]))
        self._noted = note


def _touched_in(line: bytes) -> _Touched:
    record = orjson.loads(line)
    changes = [(change["collection"], change["id"]) for change in record["changes"]]
    return record["seq"], record["account"], touched_by(changes)


def _by_account(touched: Sequence[_Touched]) -> Iterator[tuple[str, list[str]]]:
    uris: dict[str, dict[str, None]] = {}
    for _, account, some in touched:
        uris.setdefault(account, {}).update(dict.fromkeys(some))
    return ((account, list(some)) for account, some in uris.items())
