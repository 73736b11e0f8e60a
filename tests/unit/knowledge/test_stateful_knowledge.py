"""Every verb on records in every order, against a plain dict; undo restores the state exactly."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from knowhub.core.errors import Conflict
from knowhub.knowledge.evidence import is_downvoted, sum_votes, weigh_votes
from knowhub.knowledge.model import KNOWLEDGE, Feedback, ListQuery, OnConflict, Vote
from knowhub.operations.model import UndoResult
from tests.builders import CountedIds, Domain, FakeClock, domain_on, import_line, local, new_knowledge, open_files

T = TypeVar("T")
Rows = dict[str, dict[str, Any]]

CONTENTS = st.sampled_from(["wait", "Wait ", "click", "点击", "type", "scroll"])
TAGS = st.dictionaries(st.sampled_from(["site", "tool"]), st.sampled_from(["a", "b"]), max_size=2)
PICK = st.integers(0, 10_000)


class KnowledgeMachine(RuleBasedStateMachine):
    """`said` is the model: what each live record says; `taken_back` how it was before each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="knowhub-model-"))
        self.clock, self.ids = FakeClock(), CountedIds()
        self.hub = self.open_domain()
        self.said: Rows = {}
        self.versions: dict[str, int] = {}
        self.done: list[tuple[str, Rows, Rows]] = []

    def teardown(self) -> None:
        self.run(self.hub.store.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    def open_domain(self) -> Domain:
        async def open_inside_the_loop() -> Domain:
            return domain_on(open_files(self.folder, clock=self.clock, ids=self.ids), self.ids)

        return self.run(open_inside_the_loop())

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    def rows(self) -> Rows:
        """Return every live row without the fields that each write changes."""
        raw = dict(self.hub.store.account("default").memory_table(KNOWLEDGE).texts())
        rows = {row_id: orjson.loads(text) for row_id, text in raw.items()}
        kept = {row_id: row for row_id, row in rows.items() if not row.get("deleted")}
        return {
            row_id: {name: value for name, value in row.items() if name not in {"version", "updated_at"}}
            for row_id, row in kept.items()
        }

    def pick(self, number: int) -> str:
        return sorted(self.said)[number % len(self.said)]

    def duplicate(self, content: str) -> str | None:
        same = [row_id for row_id, row in self.said.items() if fold(row["content"]) == fold(content)]
        return same[0] if same else None

    def is_downvoted(self, row: dict[str, Any]) -> bool:
        """Return whether the evidence speaks against a record: a save of the same text restores it."""
        return is_downvoted(row["eval"]["score"], sum_votes(weigh_votes(row["eval"]), self.clock.now()))

    def note(self, operation_id: str | None, before: Rows) -> None:
        if operation_id is not None:
            self.done.append((operation_id, before, self.rows()))

    @rule(content=CONTENTS, tags=TAGS, dedup=st.booleans())
    def save(self, content: str, tags: dict[str, str], dedup: bool) -> None:
        before, known = self.rows(), self.duplicate(content)
        saved = self.run(self.hub.knowledge.records.save(local(), new_knowledge(content, tags=tags, dedup=dedup)))

        if dedup and known is not None:
            stored = str(saved.duplicate_of)
            assert fold(self.said[stored]["content"]) == fold(content)
            assert (saved.operation_id is not None) is self.is_downvoted(before[stored])
        else:
            assert saved.record["id"] not in self.said
            self.said[saved.record["id"]] = new_brief(content, tags)
        self.note(saved.operation_id, before)

    @rule(contents=st.lists(CONTENTS, min_size=1, max_size=4))
    def save_batch(self, contents: list[str]) -> None:
        before = self.rows()
        batch = self.run(
            self.hub.knowledge.records.save_batch(local(), [new_knowledge(content) for content in contents])
        )

        for content, saved in zip(contents, batch.records, strict=True):
            known = self.duplicate(content)
            assert (saved.duplicate_of is None) == (known is None)
            if known is None:
                self.said[saved.record["id"]] = new_brief(content, {})
        self.note(batch.operation_id, before)

    @precondition(lambda self: self.said)
    @rule(pick=PICK, content=CONTENTS, tags=TAGS)
    def patch(self, pick: int, content: str, tags: dict[str, str]) -> None:
        before, row_id = self.rows(), self.pick(pick)
        changed = {**self.said[row_id], "content": content, "tags": tags} != self.said[row_id]
        saved = self.run(self.hub.knowledge.records.patch(local(), row_id, {"content": content, "tags": tags}))

        assert (saved.operation_id is not None) == changed
        self.said[row_id] |= {"content": content, "tags": tags}
        self.note(saved.operation_id, before)

    @precondition(lambda self: self.said)
    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        before, row_id = self.rows(), self.pick(pick)
        operation_id = self.run(self.hub.knowledge.records.delete(local(), row_id))

        del self.said[row_id]
        self.note(operation_id, before)

    @precondition(lambda self: self.said)
    @rule(pick=PICK, helpful=st.booleans(), score=st.none() | st.integers(1, 5))
    def feedback(self, pick: int, helpful: bool, score: int | None) -> None:
        before, row_id = self.rows(), self.pick(pick)
        case = {"task": "t"}
        given = Feedback(case if helpful else None, None if helpful else case, score)
        saved = self.run(self.hub.knowledge.records.give_feedback(local(), row_id, given))

        self.said[row_id]["helpful" if helpful else "harmful"] += 1
        if score is not None:
            self.said[row_id]["score"] = score
        self.note(saved.operation_id, before)

    @precondition(lambda self: self.said)
    @rule(picks=st.lists(PICK, min_size=1, max_size=5), helpful=st.booleans())
    def feedback_batch(self, picks: list[int], helpful: bool) -> None:
        before = self.rows()
        ids = [self.pick(pick) for pick in picks]
        votes = [Vote(row_id, helpful, {"task": "t"}) for row_id in [*ids, "knowledge-unknown"]]
        statuses, operation_id = self.run(self.hub.knowledge.records.give_feedback_batch(local(), votes))

        assert statuses == [*["applied"] * len(ids), "unknown"]
        for row_id in ids:
            self.said[row_id]["helpful" if helpful else "harmful"] += 1
        self.note(operation_id, before)

    @rule(
        lines=st.dictionaries(st.sampled_from([f"import-{n}" for n in range(5)]), CONTENTS, min_size=1),
        on_conflict=st.sampled_from(OnConflict),
    )
    def import_lines(self, lines: dict[str, str], on_conflict: OnConflict) -> None:
        before, taken = self.rows(), lines.keys() & self.said.keys()
        given = [import_line(row_id, content, helpful=4) for row_id, content in lines.items()]
        if taken and on_conflict is OnConflict.FAIL:
            with pytest.raises(Conflict):
                self.run(self.hub.knowledge.exchange.import_lines(local(), given, on_conflict))
            return
        answer = self.run(self.hub.knowledge.exchange.import_lines(local(), given, on_conflict))

        skipped = taken if on_conflict is OnConflict.SKIP else set()
        assert (answer.imported, answer.skipped) == (len(lines) - len(taken), len(skipped))
        for row_id in lines.keys() - skipped:
            self.said[row_id] = new_brief(lines[row_id], {}) | {"helpful": 4}
        self.note(answer.import_id, before)

    @precondition(lambda self: self.done)
    @rule()
    def undo_the_newest(self) -> None:
        operation_id, before, after = self.done[-1]
        assert self.rows() == after
        undone = self.run(self.hub.operations.log.undo(local(), operation_id))

        assert self.rows() == before
        self.said = brief_rows(before)
        self.note(undone.operation_ids[0], after)

    @precondition(lambda self: self.done)
    @rule(pick=PICK)
    def undo_any(self, pick: int) -> None:
        operation_id, _, _ = self.done[pick % len(self.done)]
        before = self.rows()
        planned = self.outcome(operation_id, dry_run=True)
        assert self.rows() == before
        real = self.outcome(operation_id, dry_run=False)

        assert type(planned) is type(real)
        after = self.rows()
        if isinstance(real, Conflict):
            assert after == before
            assert real.extra
        else:
            changed = {change.id for change in real.changes}
            untouched = before.keys() - changed
            assert {row_id: after[row_id] for row_id in untouched} == {row_id: before[row_id] for row_id in untouched}
            assert after.keys() - before.keys() <= changed
            again = self.outcome(operation_id, dry_run=True)
            assert isinstance(again, Conflict)
            assert again.extra["undone_by"] == real.operation_ids[0]
            self.said = brief_rows(after)
            self.note(real.operation_ids[0], before)

    def outcome(self, operation_id: str, *, dry_run: bool) -> UndoResult | Conflict:
        try:
            return self.run(self.hub.operations.log.undo(local(), operation_id, dry_run=dry_run))
        except Conflict as problem:
            return problem

    @rule()
    def reopen(self) -> None:
        before = self.rows()
        self.run(self.hub.store.close())
        self.hub = self.open_domain()

        assert self.rows() == before

    @rule(seconds=st.integers(1, 100_000))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_stored_rows(self) -> None:
        assert brief_rows(self.rows()) == self.said

    @invariant()
    def check_listing(self) -> None:
        page = self.run(self.hub.knowledge.records.page(local(), ListQuery(limit=1000)))

        listed = [orjson.loads(record)["id"] for record in page.records]
        assert len(listed) == len(set(listed))
        assert set(listed) == self.said.keys()

    @invariant()
    def check_versions(self) -> None:
        raw = dict(self.hub.store.account("default").memory_table(KNOWLEDGE).texts())
        versions = {row_id: orjson.loads(text)["version"] for row_id, text in raw.items()}

        assert all(versions[row_id] >= version for row_id, version in self.versions.items())
        self.versions = versions


def fold(content: str) -> str:
    return content.strip().lower()


def new_brief(content: str, tags: dict[str, str]) -> dict[str, Any]:
    return {"content": content, "tags": tags, "score": 3, "helpful": 1, "harmful": 0}


def brief_rows(rows: Rows) -> Rows:
    return {
        row_id: {"content": row["content"], "tags": row["tags"]}
        | {name: row["eval"][name] for name in ("score", "helpful", "harmful")}
        for row_id, row in rows.items()
    }


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def test_any_order_of_verbs_agrees_with_a_plain_dict() -> None:
    fast = settings(
        max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=QUIET, derandomize=True
    )

    run_state_machine_as_test(KnowledgeMachine, settings=fast)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_ten_thousand_verbs_agree_with_a_plain_dict() -> None:
    long = settings(max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=QUIET)

    run_state_machine_as_test(KnowledgeMachine, settings=long)
