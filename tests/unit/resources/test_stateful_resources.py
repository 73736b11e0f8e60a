"""Every verb on resources in every order, by three callers in two processes, against a model of one dataclass a row."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from knowhub.core.errors import Conflict, KnowHubError, NotFound, Unavailable
from knowhub.core.operation import IdempotencyKey
from knowhub.core.owned_rows import SavedRow
from knowhub.resources.model import RESOURCES, NewResource, ResourceQuery
from knowhub.stores.files.filesystem import FileSystem
from knowhub.wiring.adapters import Overrides
from tests.builders import local
from tests.resource_model import (
    CALLERS,
    OWNERS,
    ModelResource,
    Refusal,
    erasing_refusal,
    expect_patch,
    expect_save,
    refusal,
    reveal_refusal,
)
from tests.sealing import find_texts_in_files
from tests.two_hubs import WHO, T, TwoHubs

IDS = ["credentials/a", "密码/网站", "cookies/c", "code/d"]
A_DAY = 24 * 3600.0
# So long that segments end.
BODY = "使用方法：直接登录即可，每天限额 100 次。" * 12

ID, PICK = st.sampled_from(IDS), st.integers(0, 10_000)
# Most requests should be allowed: then more rows are written, and more can go wrong.
BY = st.sampled_from(["its owner", "its owner", "its owner", *CALLERS])
TOLD = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(["", "账号", "login"]),
        "scopes": st.sampled_from([["user:owner"], ["public"], ["user:wang"]]),
    },
)
SEALS = st.sampled_from(["leave", "anew", "take away"])
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@dataclass(frozen=True, slots=True)
class WrittenResource:
    """An operation on a row, with the row before and after; it can be undone while the row is still `after`."""

    operation_id: str
    before: ModelResource | None
    after: ModelResource


@dataclass(frozen=True, slots=True)
class SealedSave:
    """A sealed save with an idempotency key, and how it was answered."""

    by: str
    new: NewResource
    key: IdempotencyKey
    at: float
    answer: SavedRow


class ResourceMachine(TwoHubs):
    """`rows` is the model; `written` the undoable operations of each row, newest last; `keys` its live data keys."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, ModelResource] = {}
        self.written: dict[str, list[WrittenResource]] = {item: [] for item in IDS}
        self.keys: dict[str, int] = dict.fromkeys(IDS, 0)
        self.asked: list[SealedSave] = []
        self.secrets: list[str] = []

    @initialize(segment_bytes=st.sampled_from([4096, 4096, 64 * 1024 * 1024]))
    def open_both(self, segment_bytes: int) -> None:
        self.open_with(segment_bytes=segment_bytes, reveals_per_hour=0)

    def problems(self) -> Sequence[object]:
        return [*super().problems(), *find_texts_in_files(self.folder, self.secrets)]

    def world(self) -> Overrides:
        # Named, the file system has all work done in this process.
        return Overrides(clock=self.clock, ids=self.ids, files=FileSystem())

    def try_run(self, doing: Coroutine[Any, Any, T]) -> T | Refusal:
        try:
            return self.run(doing)
        except KnowHubError as problem:
            return type(problem)

    def pick_caller(self, by: str, resource_id: str) -> str:
        """Return the caller; for "its owner" of a row that does not exist yet, Li."""
        row = self.rows.get(resource_id)
        if by != "its owner":
            return by
        return "li" if row is None else next(name for name, owner in OWNERS.items() if owner == row.owner)

    def pick_id(self, pick: int) -> str:
        """Return an id that something is done with; most of the time of a live row, where there is one."""
        live = [item for item, row in self.rows.items() if row.is_live] if pick % 5 else []
        among = live or IDS
        return among[pick // 5 % len(among)]

    def secret(self) -> str:
        self.secrets.append(f"密码 number {len(self.secrets)} is known to nobody")
        return self.secrets[-1]

    def check_write(self, resource_id: str, expected: ModelResource | Refusal, answer: object) -> None:
        """Hold an answer against the row that was expected, and take that in."""
        if isinstance(expected, type):
            assert answer is expected
            return
        assert isinstance(answer, SavedRow), answer
        before = self.rows.get(resource_id)
        assert (answer.operation_id is None) == (expected == before)
        assert answer.record["has_secure_body"] is (expected.secret is not None)
        assert answer.is_new is (expected != before and (before is None or not before.is_live))
        if answer.operation_id is not None:
            self.written[resource_id].append(WrittenResource(answer.operation_id, before, expected))
            self.keys[resource_id] += expected.secret not in {None, before.secret if before else None}
            self.rows[resource_id] = expected

    @rule(who=WHO, by=BY, resource_id=ID, told=TOLD, is_sealed=st.booleans(), upsert=st.booleans())
    def save(self, who: int, by: str, resource_id: str, told: dict[str, Any], *, is_sealed: bool, upsert: bool) -> None:
        by = self.pick_caller(by, resource_id)
        new = NewResource(resource_id, body=BODY, secure_body=self.secret() if is_sealed else None, **told)
        expected = expect_save(self.rows.get(resource_id), by, new, upsert=upsert)

        answer = self.try_run(self.hub(who).resources.save(CALLERS[by], new, upsert=upsert))

        self.check_write(resource_id, expected, answer)

    @rule(who=WHO, by=BY, resource_id=ID)
    def save_with_a_retry_key(self, who: int, by: str, resource_id: str) -> None:
        by = self.pick_caller(by, resource_id)
        new = NewResource(resource_id, body=BODY, secure_body=self.secret())
        key = IdempotencyKey(OWNERS[by], "POST", "/api/resource", f"key {len(self.secrets)}", f"hash of {new.id}")
        expected = expect_save(self.rows.get(resource_id), by, new, upsert=True)

        answer = self.try_run(self.hub(who).resources.save(CALLERS[by], new, key, upsert=True))

        self.check_write(resource_id, expected, answer)
        if isinstance(answer, SavedRow):
            self.asked.append(SealedSave(by, new, key, self.clock.now(), answer))

    @precondition(lambda self: self.asked)
    @rule(who=WHO, pick=PICK)
    def ask_again(self, who: int, pick: int) -> None:
        asked = self.asked[pick % len(self.asked)]
        if self.clock.now() - asked.at > A_DAY:
            self.asked.remove(asked)
            return

        again = self.try_run(self.hub(who).resources.save(CALLERS[asked.by], asked.new, asked.key, upsert=True))

        assert again == (Conflict if self.rows[asked.new.id].is_erased else asked.answer)

    @precondition(lambda self: self.rows)
    @rule(who=WHO, by=BY, pick=PICK, told=TOLD, seal=SEALS, is_newest=st.sampled_from([None, None, True, False]))
    def patch(self, who: int, by: str, pick: int, told: dict[str, Any], *, seal: str, is_newest: bool | None) -> None:
        resource_id = self.pick_id(pick)
        by = self.pick_caller(by, resource_id)
        sealed = {} if seal == "leave" else {"secure_body": self.secret() if seal == "anew" else None}
        patch = {**told, **sealed}
        row = self.rows.get(resource_id)
        version = None if is_newest is None or row is None else row.version - (not is_newest)
        expected = expect_patch(row, by, patch, version)

        answer = self.try_run(self.hub(who).resources.patch(CALLERS[by], resource_id, patch, version))

        self.check_write(resource_id, expected, answer)

    @precondition(lambda self: self.rows)
    @rule(who=WHO, by=BY, pick=PICK)
    def delete(self, who: int, by: str, pick: int) -> None:
        resource_id = self.pick_id(pick)
        by = self.pick_caller(by, resource_id)
        row = self.rows.get(resource_id)
        refused = refusal(row, by)

        answer = self.try_run(self.hub(who).resources.delete(CALLERS[by], resource_id))

        if refused is not None or row is None:
            assert answer is refused
            return
        self.rows[resource_id] = row.next_version(is_deleted=True)
        self.written[resource_id].append(WrittenResource(str(answer), row, self.rows[resource_id]))

    @precondition(lambda self: self.rows)
    @rule(who=WHO, by=BY, pick=PICK)
    def reveal(self, who: int, by: str, pick: int) -> None:
        resource_id = self.pick_id(pick)
        by = self.pick_caller(by, resource_id)
        row = self.rows.get(resource_id)

        shown = self.try_run(self.hub(who).resources.reveal(CALLERS[by], resource_id))

        refused = reveal_refusal(row, by)
        if refused is not None or row is None:
            assert shown is refused
            return
        assert not isinstance(shown, type)
        assert (shown.secure_body, shown.record["version"]) == (row.secret, row.version)
        assert (shown.operation_id is None) == (row.secret is None)

    @precondition(lambda self: any(self.written.values()))
    @rule(who=WHO, pick=PICK, is_for_good=st.booleans())
    def undo(self, who: int, pick: int, *, is_for_good: bool) -> None:
        among = [item for item, written in self.written.items() if written]
        resource_id = among[pick % len(among)]
        undone, stood = self.written[resource_id].pop(), self.rows[resource_id]
        if replace(undone.after, version=stood.version) != stood:
            # An undo was undone: the operation before both is not the newest valid one.
            self.written[resource_id].clear()
            return

        answer = self.run(self.hub(who).operations.log.undo(local(), undone.operation_id))

        before = undone.before or replace(stood, is_deleted=True)
        self.rows[resource_id] = replace(before, version=stood.version + 1)
        if not is_for_good:
            self.written[resource_id].append(WrittenResource(answer.operation_ids[0], stood, self.rows[resource_id]))

    # An erased id is of no use for the rest of the run.
    @precondition(lambda self: len(self.rows) > 1 and sum(item.is_erased for item in self.rows.values()) < len(IDS) - 1)
    @rule(who=WHO, by=BY, pick=PICK)
    def erase(self, who: int, by: str, pick: int) -> None:
        resource_id = sorted(self.rows)[pick % len(self.rows)]
        row, by = self.rows[resource_id], self.pick_caller(by, resource_id)
        erasing = self.hub(who).operations.erasure.erase(CALLERS[by], RESOURCES, resource_id)

        answer = self.try_run(self.run_beside_other(who, erasing))

        refused = erasing_refusal(row, by)
        if refused is not None:
            assert answer is refused
            return
        assert not isinstance(answer, type), answer
        self.rows[resource_id] = row.next_version(is_deleted=True, is_erased=True, secret=None)
        self.keys[resource_id] = 0
        for item in (*(item.operation_id for item in self.written[resource_id]), answer.operation_id):
            assert self.try_run(self.hub(who).operations.log.undo(local(), item)) is Conflict
        self.written[resource_id].clear()

    @precondition(lambda self: self.rows)
    @rule(who=WHO)
    def rotate(self, who: int) -> None:
        has_key = (self.folder / "keys" / "master.key").exists()
        all_keys = sum(self.keys.values())

        done = self.try_run(self.hub(who).vault.rotate())

        if not has_key:
            assert done is Unavailable
        else:
            assert not isinstance(done, type)
            assert (done.keys, done.rewrapped) == (all_keys, all_keys)

    @precondition(lambda self: len([*(self.folder / "change_log").glob("segment-*")]) > 1)
    @rule(who=WHO, is_later=st.booleans())
    def compact(self, who: int, *, is_later: bool) -> None:
        # Until then what a retry may ask for is kept.
        self.clock.advance(A_DAY + 1 if is_later else 0)
        for hub, _ in self.opened:
            self.run(hub.store.refresh())

        self.run(self.run_beside_other(who, self.hub(who).compact(0.0)))

        for resource_id, written in self.written.items():
            known = [item for item in written if self.run(self.hub(who).store.operation("default", item.operation_id))]
            # Only the oldest operations are dropped.
            assert known == written[len(written) - len(known) :]
            self.written[resource_id] = known

    @rule(seconds=st.integers(1, 100_000))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_both_hubs(self) -> None:
        for who in range(len(getattr(self, "opened", ()))):
            for by, ctx in CALLERS.items():
                seen = {item: row for item, row in self.rows.items() if row.is_live and row.is_seen_by(by)}
                page = self.run(self.hub(who).resources.list_page(ctx, ResourceQuery(limit=100)))
                assert [record["id"] for record in page.records] == sorted(seen)
                for record in page.records:
                    row = seen[record["id"]]
                    said = (
                        record["owner"],
                        tuple(record["scopes"]),
                        record["title"],
                        record["has_secure_body"],
                        record["version"],
                    )
                    assert said == (row.owner, row.scopes, row.title, row.secret is not None, row.version)
                shown = {record["id"]: record for record in page.records}
                for resource_id in self.rows:
                    got = self.try_run(self.hub(who).resources.read(ctx, resource_id))
                    assert got == shown.get(resource_id, NotFound)

    @invariant()
    def check_sealed_bodies(self) -> None:
        for who in range(len(getattr(self, "opened", ()))):
            for resource_id, row in self.rows.items():
                stored = self.hub(who).store.view("default").get(RESOURCES, resource_id) or {}
                if row.secret is None:
                    assert stored.get("sealed") is None
                else:
                    opened = self.run(self.hub(who).vault.open("default", resource_id, stored["sealed"]))
                    assert opened == row.secret


def test_any_order_of_verbs_on_resources_agrees_with_the_model() -> None:
    fast = settings(
        max_examples=6, stateful_step_count=40, deadline=None, suppress_health_check=QUIET, derandomize=True
    )

    run_machine(ResourceMachine, settings=fast)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_ten_thousand_verbs_on_resources_agree_with_the_model() -> None:
    long = settings(max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=QUIET, database=None)

    run_machine(ResourceMachine, settings=long)
