"""The files of an account's index: numbered builds, and metadata of the build in use."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import orjson

from knowhub.core.operation import Change
from knowhub.core.projection import LogMark, LogPosition
from knowhub.engine.account import Account, SearchableRows
from knowhub.search.texts import SearchableT, Texts

METADATA_FILE: Final = "built.json"


@dataclass(frozen=True, slots=True)
class BuildMetadata(LogPosition):
    """What a build contains: so many `documents`, up to a position of the log."""

    documents: int
    build: int


MetadataT = TypeVar("MetadataT", bound=BuildMetadata)


class IndexFiles(ABC, Generic[MetadataT]):
    """The folder of an index. Any process may read it; only the leader writes to it.

    Metadata of another `layout` is ignored.
    """

    metadata_type: type[MetadataT]
    layout: ClassVar[int]

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_metadata(self) -> MetadataT | None:
        """Return the metadata on disk; None if there is none that is valid."""
        try:
            record = orjson.loads((self._folder / METADATA_FILE).read_bytes())
            return self.metadata_type.from_stored(record) if record["layout"] == self.layout else None
        except (OSError, orjson.JSONDecodeError, TypeError, KeyError):
            return None

    @abstractmethod
    def is_intact(self, metadata: MetadataT) -> bool:
        """Return whether the files of a build are what was written, by their checksums. Raises OSError."""

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that the index on disk contains; None if there is no index."""
        metadata = self.read_metadata()
        if metadata is not None:
            return metadata.last_erase_seq
        # Without metadata the content is unknown.
        return -1 if next(self._folder.glob("build-*"), None) is not None else None

    def new_build(self) -> int:
        """Return an unused build number."""
        metadata = self.read_metadata()
        return max([0, metadata.build if metadata is not None else 0, *(number for number, _ in self._builds())]) + 1

    def _build_folder(self, build: int) -> Path:
        return self._folder / f"build-{build}"

    def _builds(self) -> Iterator[tuple[int, Path]]:
        for folder in self._folder.glob("build-*"):
            number = folder.name.removeprefix("build-")
            yield (int(number) if number.isdecimal() else 0), folder

    def _remove_builds_before(self, build: int) -> None:
        for number, folder in self._builds():
            if number < build:
                shutil.rmtree(folder, ignore_errors=True)

    def _write_metadata(self, metadata: MetadataT) -> MetadataT:
        self._publish(METADATA_FILE, orjson.dumps(metadata.to_stored()))
        return metadata

    def _publish(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.rename(self._folder / name)


FilesT = TypeVar("FilesT", bound=IndexFiles[Any])


class AccountIndexBase(ABC, Generic[SearchableT, FilesT]):
    """What the lexical index and the vectors of one account have in common: they follow the log.

    `files` are what is on disk of them.
    """

    def __init__(self, files: FilesT, records: SearchableRows[SearchableT], texts: Texts, log: LogMark) -> None:
        self._files = files
        self._records = records
        self._texts = texts
        self._log = log

    @property
    @abstractmethod
    def lag(self) -> int:
        """The number of rows that are not indexed yet."""

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that the index on disk contains; None if there is none."""
        return self._files.erased_through_seq

    @property
    def is_empty(self) -> bool:
        """Whether the account has nothing to be searched."""
        return not self.lag and self.erased_through_seq is None

    def follow(self, row_id: str, seq: int) -> None:
        """Note that an operation may have changed the text of a row."""
        summary = self._records.find_changed(row_id, seq)
        if summary is not None:
            self._note_change(summary)

    @abstractmethod
    def _note_change(self, summary: SearchableT) -> None:
        """Note the new text of a row, or that the row is gone."""


AccountT = TypeVar("AccountT", bound=AccountIndexBase[Any, Any])


class AccountIndexRegistry(ABC, Generic[AccountT]):
    """The indexes of all accounts in a folder. Each is opened on first use; an empty one is not remembered."""

    def __init__(self, folder: Path, log: LogMark, get_account: Callable[[str], Account], texts: Texts) -> None:
        self._folder = folder
        self._log = log
        self._get_account = get_account
        self._texts = texts
        self._accounts: dict[str, AccountT] = {}

    @property
    def lag(self) -> int:
        """The number of rows that are not indexed yet."""
        return sum(index.lag for index in self._accounts.values())

    @property
    def erased_through_seq(self) -> int | None:
        """The number of the newest erase that every index on disk contains; None if there are none."""
        seqs = [index.erased_through_seq for index in self._accounts.values()]
        return min((seq for seq in seqs if seq is not None), default=None)

    def account(self, account: str) -> AccountT:
        """Return the index of an account."""
        index = self._accounts.get(account)
        if index is None:
            # A name may hold any character: its hash names the folder.
            index = self._open(account, self._folder / blake2b(account.encode(), digest_size=12).hexdigest())
            if not index.is_empty:
                self._accounts[account] = index
        return index

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None:
        """Note the rows that an operation touched. Called by the store, in order."""
        index = self._accounts.get(account)
        if index is None:
            # Opening an index finds all that it lacks, this operation too.
            self.account(account)
            return
        for change in changes:
            index.follow(change.id, seq)

    def _list(self, account: str | None = None) -> list[AccountT]:
        """Return the index of an account, or of all."""
        return list(self._accounts.values()) if account is None else [self.account(account)]

    @abstractmethod
    def _open(self, account: str, folder: Path) -> AccountT:
        """Open the index of an account."""
