"""Every domain through compaction, snapshot, restore, erasure and reopening, by two processes."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from knowhub.bootstrap import Hub
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.operation import Change
from knowhub.keywords.model import INFOS, KEYWORDS, ROOT_ID, InfoPolicy, NewInfo, NewKeyword
from knowhub.keywords.service import DeleteOptions
from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.stores.files.filesystem import FileSystem
from knowhub.wiring.adapters import Overrides
from tests.builders import local, new_knowledge
from tests.fakes.plain_text import PlainText
from tests.two_hubs import WHO, TwoHubs

Key = tuple[str, str]
Said = dict[Key, dict[str, Any]]

PICK = st.integers(0, 10_000)
MOVED = {"version", "updated_at", "created_at"}
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


class WrittenKeys:
    """Every key that was ever written, collected by a listener of the store."""

    def __init__(self) -> None:
        self.all: dict[Key, None] = {}

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None:
        self.all |= {(change.collection, change.id): None for change in changes}


class StorageMachine(TwoHubs):
    """`said` is what every live row says, less versions and times; `undoable` what undoing the newest brings back."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = WrittenKeys()
        self.said: Said = {}
        self.versions: dict[Key, int] = {}
        self.undoable: list[tuple[str, Said]] = []
        self.snapshots: dict[str, Said] = {}
        self.erased: dict[Key, str] = {}
        self.count = 0

    @initialize(segment_bytes=st.sampled_from([4096, 20_000, 64 * 1024 * 1024]))
    def open_both(self, segment_bytes: int) -> None:
        self.open_with(segment_bytes=segment_bytes)

    def world(self) -> Overrides:
        # Named, the file system has all work done in this process.
        return Overrides(clock=self.clock, ids=self.ids, text=PlainText(), files=FileSystem())

    def open(self) -> tuple[Hub, AsyncExitStack]:
        opened = super().open()
        opened[0].store.subscribe(self.keys)
        return opened

    def rows(self, who: int) -> Said:
        """Return every live row, as this process reads it."""
        self.run(self.hub(who).store.refresh())
        state = self.hub(who).store.account("default")
        found = {}
        for key in self.keys.all:
            text = state.table(key[0]).text(key[1])
            assert text is not None, key
            row = orjson.loads(text)
            assert row["version"] >= self.versions.get(key, 1)
            self.versions[key] = row["version"]
            if not row.get("deleted"):
                found[key] = {name: value for name, value in row.items() if name not in MOVED}
        return found

    def ids_of(self, collection: str) -> list[str]:
        return [row_id for held, row_id in self.said if held == collection and row_id != ROOT_ID]

    def pick(self, collection: str, number: int) -> str:
        ids = self.ids_of(collection)
        return ids[number % len(ids)]

    def text(self) -> str:
        self.count += 1
        return f"内容 number {self.count} stands in one row alone"

    def note_write(self, who: int, operation_id: str | None) -> None:
        """Note the rows after an operation, and the rows before it that an undo must restore."""
        before, self.said = self.said, self.rows(who)
        if operation_id is None:
            assert self.said == before
        else:
            self.undoable.append((operation_id, before))

    @rule(who=WHO)
    def save(self, who: int) -> None:
        saved = self.run(self.hub(who).knowledge.records.save(local(), new_knowledge(self.text())))
        self.note_write(who, saved.operation_id)

    @rule(who=WHO, many=st.integers(1, 12))
    def save_several(self, who: int, many: int) -> None:
        items = [new_knowledge(self.text()) for _ in range(many)]
        self.note_write(who, self.run(self.hub(who).knowledge.records.save_batch(local(), items)).operation_id)

    @precondition(lambda self: self.ids_of(KNOWLEDGE))
    @rule(who=WHO, pick=PICK)
    def patch(self, who: int, pick: int) -> None:
        patched = self.hub(who).knowledge.records.patch(local(), self.pick(KNOWLEDGE, pick), {"content": self.text()})
        self.note_write(who, self.run(patched).operation_id)

    @precondition(lambda self: self.ids_of(KNOWLEDGE))
    @rule(who=WHO, pick=PICK)
    def vote(self, who: int, pick: int) -> None:
        case = Feedback(helpful_case={"task": self.text()})
        voted = self.run(self.hub(who).knowledge.records.give_feedback(local(), self.pick(KNOWLEDGE, pick), case))
        self.note_write(who, voted.operation_id)

    @precondition(lambda self: self.ids_of(KNOWLEDGE))
    @rule(who=WHO, pick=PICK)
    def delete(self, who: int, pick: int) -> None:
        self.note_write(who, self.run(self.hub(who).knowledge.records.delete(local(), self.pick(KNOWLEDGE, pick))))

    @rule(who=WHO, pick=PICK, many=st.integers(1, 4))
    def grow(self, who: int, pick: int, many: int) -> None:
        self.run(self.hub(who).keywords.tree.make_root(local()))
        self.said = self.rows(who)
        parent = self.pick(KEYWORDS, pick) if pick % 3 and self.ids_of(KEYWORDS) else None
        items = [NewKeyword(self.text(), parent) for _ in range(many)]
        self.note_write(who, self.run(self.hub(who).keywords.tree.create_batch(local(), items)).operation_id)

    @precondition(lambda self: self.ids_of(KEYWORDS))
    @rule(who=WHO, pick=PICK)
    def rename(self, who: int, pick: int) -> None:
        renamed = self.hub(who).keywords.tree.update(local(), self.pick(KEYWORDS, pick), {"name": self.text()})
        self.note_write(who, self.run(renamed).operation_id)

    @precondition(lambda self: self.ids_of(KEYWORDS))
    @rule(who=WHO, pick=PICK)
    def prune(self, who: int, pick: int) -> None:
        how = DeleteOptions(cascade=True, policy=InfoPolicy.DETACH)
        self.note_write(who, self.run(self.hub(who).keywords.tree.delete(local(), self.pick(KEYWORDS, pick), how)))

    @precondition(lambda self: self.ids_of(KEYWORDS))
    @rule(who=WHO, picks=st.lists(PICK, min_size=1, max_size=3))
    def create_info(self, who: int, picks: list[int]) -> None:
        ids = list(dict.fromkeys(self.pick(KEYWORDS, pick) for pick in picks))
        created = self.run(self.hub(who).keywords.infos.create(local(), NewInfo(self.text(), keyword_ids=ids)))
        self.note_write(who, created.operation_id)

    @precondition(lambda self: self.ids_of(INFOS))
    @rule(who=WHO, pick=PICK)
    def change_info(self, who: int, pick: int) -> None:
        updated = self.hub(who).keywords.infos.patch(local(), self.pick(INFOS, pick), {"content": self.text()})
        self.note_write(who, self.run(updated).operation_id)

    @precondition(lambda self: self.ids_of(INFOS))
    @rule(who=WHO, pick=PICK)
    def delete_info(self, who: int, pick: int) -> None:
        self.note_write(who, self.run(self.hub(who).keywords.infos.delete(local(), self.pick(INFOS, pick))))

    @precondition(lambda self: self.undoable)
    @rule(who=WHO)
    def undo(self, who: int) -> None:
        operation_id, before = self.undoable.pop()

        undone = self.run(self.hub(who).operations.log.undo(local(), operation_id))

        stood, self.said = self.said, self.rows(who)
        assert self.said == before
        again = undone.operation_ids if len(undone.operation_ids) == 1 else []
        self.undoable += [(item, stood) for item in again]

    @rule(who=WHO, days=st.sampled_from([0.0, 0.0, 1.0]))
    def compact(self, who: int, days: float) -> None:
        for hub, _ in self.opened:
            self.run(hub.store.refresh())

        done = self.run(self.run_beside_other(who, self.hub(who).compact(days)))

        if done.operations:
            # Operations in the dropped segments can no longer be undone.
            base_seq = self.hub(who).store.history.base_seq
            self.undoable = [item for item in self.undoable if self.is_known(who, item[0])]
            assert base_seq > 0

    def is_known(self, who: int, operation_id: str) -> bool:
        store = self.hub(who).store
        try:
            self.run(self.hub(who).operations.log.undo(local(), operation_id, dry_run=True))
        except NotFound:
            assert self.run(store.operation("default", operation_id)) is None
            return False
        except Conflict:
            return True
        return True

    @rule(who=WHO)
    def snapshot(self, who: int) -> None:
        entry = self.run(self.hub(who).operations.snapshots.create())
        self.snapshots[entry.ts] = dict(self.said)

    @precondition(lambda self: self.snapshots)
    @rule(who=WHO, pick=PICK)
    def restore(self, who: int, pick: int) -> None:
        ts = sorted(self.snapshots)[pick % len(self.snapshots)]

        done = self.run(self.hub(who).operations.snapshots.restore(local(), ts))

        gone = {row_id for _, row_id in self.erased}
        expected = {key: row for key, row in self.snapshots[ts].items() if not gone & {key[1], *map(str, row.values())}}
        before, self.said = self.said, self.rows(who)
        # The root is made once for all; it does not go.
        expected |= {key: row for key, row in self.said.items() if key[1] == ROOT_ID}
        assert self.said == expected
        if done.restore_id is not None:
            self.undoable.append((done.restore_id, before))

    @precondition(lambda self: self.undoable)
    @rule(who=WHO)
    def write_after_a_restore(self, who: int) -> None:
        operation_id, _ = self.undoable[-1]
        if operation_id.startswith("restore-"):
            self.save(who)
            with pytest.raises(Conflict):
                self.run(self.hub(who).operations.log.undo(local(), operation_id))

    @precondition(lambda self: self.ids_of(KNOWLEDGE) or self.ids_of(INFOS))
    @rule(who=WHO, pick=PICK)
    def erase(self, who: int, pick: int) -> None:
        collection = KNOWLEDGE if self.ids_of(KNOWLEDGE) and (pick % 2 or not self.ids_of(INFOS)) else INFOS
        row_id = self.pick(collection, pick // 2)
        text = str(self.said[collection, row_id]["content"])

        erasing = self.hub(who).operations.erasure.erase(local(), collection, row_id)
        erased = self.run(self.run_beside_other(who, erasing))

        self.said = self.rows(who)
        self.erased[collection, row_id] = text
        assert (collection, row_id) not in self.said
        with pytest.raises(Conflict):
            self.run(self.hub(who).operations.log.undo(local(), erased.operation_id))
        # The remaining undos would restore it, or come before an operation that cannot be undone.
        self.undoable.clear()
        assert erased.pending == []
        self.check_gone()

    def check_gone(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file() and "snapshots" not in path.parts:
                data = path.read_bytes()
                assert [text for text in self.erased.values() if text.encode() in data] == [], path

    @rule(seconds=st.integers(1, 200_000))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_both_hubs(self) -> None:
        for who in range(len(getattr(self, "opened", ()))):
            assert self.rows(who) == self.said
            assert self.hub(who).store.status().damage == []


@pytest.mark.timeout(900)
def test_any_order_of_operations_and_upkeep_keeps_all_rows() -> None:
    fast = settings(
        max_examples=8, stateful_step_count=40, deadline=None, suppress_health_check=QUIET, derandomize=True
    )

    run_machine(StorageMachine, settings=fast)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("turn", range(13))
def test_a_hundred_thousand_operations_and_upkeep_keep_all_rows(turn: int) -> None:
    """Thirteen turns of a hundred directories are over 100,000 steps; between turns hypothesis forgets its tries."""
    long = settings(max_examples=100, stateful_step_count=80, deadline=None, suppress_health_check=QUIET, database=None)

    run_machine(StorageMachine, settings=long)
