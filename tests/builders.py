"""Builders that most tests share: records, a fake clock, predictable ids, an open store."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowhub.core.ids import Ids, RandomIds
from knowhub.core.operation import Change, Draft, IdempotencyKey, Operation, Outcome, Write
from knowhub.core.request_context import RequestContext, caller_context, local_context
from knowhub.knowledge import record_rules
from knowhub.knowledge.exchange import KnowledgeExchange
from knowhub.knowledge.model import KNOWLEDGE, ImportedKnowledge, NewKnowledge
from knowhub.knowledge.service import KnowledgeService
from knowhub.operations.service import OperationsService
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import FileStore, StoreOptions, open_store
from knowhub.wiring.collections import COLLECTIONS
from tests.collections_of_tests import WITH_NOTES
from tests.pure_decisions import run_twice

OWNER = "user:local"
START = 1_772_712_000.0


class FakeClock:
    """A clock that moves only by `advance`."""

    def __init__(self, now: float = START) -> None:
        self.seconds = now

    def now(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class CountedIds:
    """Ids that count up, so that a failing test shows the same ids each time."""

    def __init__(self, start: int = 0) -> None:
        self._last = start

    def hex(self, digits: int) -> str:
        self._last += 1
        return f"{self._last:0{digits}x}"[-digits:]


def local() -> RequestContext:
    """Return the context of the local principal, who may do everything."""
    return local_context(OWNER)


def caller(**ids: str) -> RequestContext:
    """Return the context of a named caller: `caller(user_id="li", team_id="web")`."""
    return caller_context(ids, OWNER)


def new_knowledge(content: str = "Wait for the element before clicking it.", **fields: Any) -> NewKnowledge:  # noqa: ANN401 -- any field
    """Return a record to save; every field has a default."""
    return NewKnowledge(**{"task": "Log in with Selenium", "content": content, "types": ("tool",)} | fields)


def knowledge_row(row_id: str = "knowledge-1", now: float = START, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    """Return the row of a fresh record."""
    return record_rules.make_row(new_knowledge(**fields), row_id, now, local())


async def save_row(store: FileStore, row_id: str, content: str = "said", account: str = "default") -> Outcome:
    """Save a record of this id in a store."""
    row = knowledge_row(row_id, content=content)
    draft = Draft("save_knowledge", [Write(KNOWLEDGE, row_id, row)])
    return await store.commit(account, "user:li", lambda _view: draft)


def import_line(row_id: str | None, content: str = "imported", **evaluation: object) -> ImportedKnowledge:
    """Return one line of an import."""
    return ImportedKnowledge(row_id, new_knowledge(content), evaluation)


def retry_key(key: str = "k-1", body: str = "b-1") -> IdempotencyKey:
    """Return the idempotency key of a save."""
    return IdempotencyKey(principal=OWNER, method="POST", path="/api/knowledge", key=key, body=body)


def operation(after: Mapping[str, Any], *, seq: int = 1, idempotency: IdempotencyKey | None = None) -> Operation:
    """Return an operation on one record."""
    return Operation(
        seq=seq,
        operation_id=f"{seq:08x}-0000-8000-a000-000000000000",
        op="save_knowledge",
        account="default",
        actor=OWNER,
        timestamp=START,
        changes=[Change(KNOWLEDGE, str(after["id"]), None, after)],
        idempotency=idempotency,
    )


def open_files(
    folder: Path,
    files: FileSystem | None = None,
    options: StoreOptions | None = None,
    *,
    clock: FakeClock | None = None,
    ids: Ids | None = None,
) -> FileStore:
    """Open the file store of a folder; the caller closes it."""
    return open_store(
        folder,
        files or FileSystem(),
        clock or FakeClock(),
        ids or RandomIds(),
        WITH_NOTES,
        replace(options or StoreOptions(), run_decision=run_twice),
    )


@dataclass(frozen=True, slots=True)
class Domain:
    """The services on one open store, named as in a hub."""

    store: FileStore
    knowledge: "KnowledgeDomain"
    operations: "OperationsDomain"


@dataclass(frozen=True, slots=True)
class KnowledgeDomain:
    """The services on records."""

    records: KnowledgeService
    exchange: KnowledgeExchange


@dataclass(frozen=True, slots=True)
class OperationsDomain:
    """The services on operations."""

    log: OperationsService


def domain_on(store: FileStore, ids: Ids | None = None) -> Domain:
    """Build the services on a store."""
    ids = ids or RandomIds()
    knowledge = KnowledgeDomain(KnowledgeService(store, ids), KnowledgeExchange(store, ids))
    return Domain(store, knowledge, OperationsDomain(OperationsService(store, ids, COLLECTIONS)))


@asynccontextmanager
async def open_domain(
    folder: Path,
    files: FileSystem | None = None,
    options: StoreOptions | None = None,
    *,
    clock: FakeClock | None = None,
) -> AsyncIterator[Domain]:
    """Open the services on a folder, and close the store at the end."""
    store = open_files(folder, files, options, clock=clock)
    try:
        yield domain_on(store)
    finally:
        await store.close()


def rows_of(store: FileStore, account: str = "default") -> dict[str, bytes]:
    """Return every row of the store's records as the store holds it, tombstones too."""
    return dict(store.account(account).memory_table(KNOWLEDGE).texts())
