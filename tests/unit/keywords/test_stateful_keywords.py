"""Every verb of the tree in every order, by two processes, against plain dicts; an undo restores the rows exactly."""

import asyncio
import copy
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from knowhub.bootstrap import Hub
from knowhub.core.clock import iso
from knowhub.core.errors import Conflict, KnowHubError
from knowhub.core.owned_rows import SavedRow
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import KEYWORDS, ROOT_ID, InfoPolicy, InfoQuery, InfoSort, TreeOptions
from knowhub.keywords.search.lookup import KeywordSearch
from knowhub.keywords.search.text_search import NearKeywords, TreeTextSearch
from knowhub.operations.model import UndoResult
from knowhub.wiring.adapters import Overrides
from tests.builders import caller, local, open_files
from tests.fakes.plain_text import PlainText
from tests.keyword_deeds import DEEDS, GROWN, NAMES, PICK, SPELLINGS, TREE, TreeChanges, steps_of
from tests.keyword_model import ModelRefusal, TreeModel, refuse
from tests.tree_answers import LogReader, Rows, check_view, expect_undo, strip_bookkeeping
from tests.two_hubs import WHO, TwoHubs

Row = dict[str, Any]
Expect = Callable[[TreeModel, Any], None]
READERS = (local(), caller(user_id="ann"))
QUERIES = (*SPELLINGS, "zw", "suanfa", "没有")


class KeywordMachine(TwoHubs):
    """`model` is the expected state; `log` is the state by the log; both hubs work on one directory."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TreeModel()
        self.log = LogReader(self.folder)
        self.plans: list[Row] = []
        self.looked = 0

    @initialize(segment_bytes=st.sampled_from([4096, 64 * 1024 * 1024]), grown=GROWN)
    def open_both(self, segment_bytes: int, grown: list[tuple[Any, ...]]) -> None:
        self.open_with(segment_bytes=segment_bytes)
        for deed in grown:
            self.perform(0, [deed])

    def world(self) -> Overrides:
        return Overrides(clock=self.clock, ids=self.ids, text=PlainText())

    def recover(self, expect: Expect, answer: object) -> None:
        """Hold an answer against the model: refused as it should be, or done; then the model has moved on."""
        model = copy.deepcopy(self.model)
        refused = refusal_of(expect, model, answer)
        if refused is not None:
            assert isinstance(answer, refused), f"{refused.__name__} was to be raised, not {answer!r}"
            return
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, SavedRow):
            assert (answer.operation_id is None) == (model == self.model)
        self.model = model

    def perform(self, who: int, given: Sequence[tuple[Any, ...]]) -> None:
        deeds = TreeChanges(self.model)
        made = [getattr(deeds, verb)(*arguments) for verb, *arguments in given]

        async def together() -> list[Any]:
            # Decided in one batch: each one sees those before it while nothing of them is written yet.
            return await asyncio.gather(*(call(self.hub(who)) for call, _ in made), return_exceptions=True)

        for (_, expect), answer in zip(made, self.run(together()), strict=True):
            self.recover(expect, answer)

    @rule(who=WHO, deed=DEEDS["grow"])
    def grow(self, who: int, deed: tuple[Any, ...]) -> None:
        self.perform(who, [deed])

    @rule(who=WHO, deed=DEEDS["change"])
    def change(self, who: int, deed: tuple[Any, ...]) -> None:
        self.perform(who, [deed])

    @rule(who=WHO, deed=DEEDS["link"])
    def link(self, who: int, deed: tuple[Any, ...]) -> None:
        self.perform(who, [deed])

    @rule(who=WHO, deed=DEEDS["shrink"])
    def shrink(self, who: int, deed: tuple[Any, ...]) -> None:
        self.perform(who, [deed])

    @precondition(lambda self: (KEYWORDS, ROOT_ID) in self.log.rows)
    @rule(who=WHO, deeds=st.lists(st.one_of(*DEEDS.values()), min_size=2, max_size=4))
    def perform_batch(self, who: int, deeds: list[tuple[Any, ...]]) -> None:
        self.perform(who, deeds)

    @rule(who=WHO)
    def reorganize(self, who: int) -> None:
        before = len(self.log.operations)
        self.plans.append(self.run(self.hub(who).keywords.curator.reorganize(local())))
        self.log.read_on()
        assert len(self.log.operations) == before

    @precondition(lambda self: self.plans)
    @rule(who=WHO, pick=PICK)
    def apply_a_plan(self, who: int, pick: int) -> None:
        self.apply(who, self.plans[-1 - pick % len(self.plans)])

    @rule(who=WHO, drawn=st.lists(st.tuples(PICK, PICK, PICK, NAMES), min_size=1, max_size=4))
    def apply_drawn_plan(self, who: int, drawn: list[tuple[int, int, int, str]]) -> None:
        self.apply(who, {"steps": steps_of(self.model, self.versions(), drawn)})

    def apply(self, who: int, plan: Row) -> None:
        versions = self.versions()

        def expect(model: TreeModel, answer: object) -> None:
            stale = any(
                versions.get(item["id"]) != item["version"]
                for step in plan["steps"]
                for item in list_step_keywords(step)
            )
            refuse(Conflict, when=stale)
            model.apply(plan["steps"], answer.record["created"] if isinstance(answer, SavedRow) else ())

        async def applied() -> object:
            try:
                return await self.hub(who).keywords.curator.apply(local(), plan)
            except Exception as problem:  # noqa: BLE001 -- the model says which one it may be
                return problem

        self.recover(expect, self.run(applied()))

    def versions(self) -> dict[str, int]:
        stored = {row_id: row["version"] for (held, row_id), row in self.log.rows.items() if held == KEYWORDS}
        return {keyword_id: stored.get(keyword_id, 1) for keyword_id in self.model.keywords}

    @precondition(lambda self: self.log.operations)
    @rule(who=WHO)
    def undo_the_newest(self, who: int) -> None:
        self.undo(who, self.log.operations[-1])

    @precondition(lambda self: self.log.operations)
    @rule(who=WHO, pick=PICK)
    def undo_any(self, who: int, pick: int) -> None:
        self.undo(who, self.log.operations[pick % len(self.log.operations)])

    def undo(self, who: int, operation: Row) -> None:
        before = dict(self.log.rows)
        expected = self.undo_in_model(operation)
        planned = self.outcome(who, operation, dry_run=True)
        self.log.read_on()
        assert self.log.rows == before
        real = self.outcome(who, operation, dry_run=False)

        self.log.read_on()
        assert type(planned) is type(real)
        if isinstance(real, Conflict) or isinstance(planned, Conflict):
            assert isinstance(real, Conflict)
            assert expected is None, real.extra
            assert self.log.rows == before
            assert real.extra["blocked_by"] or "undoable" in real.extra or "undone_by" in real.extra
            assert real.extra["blocked_by_hidden"] == 0
        else:
            assert expected == strip_bookkeeping(self.log.rows)
            assert {change.id for change in planned.changes} == {change.id for change in real.changes}
            self.model = TreeModel.of(self.log.rows)

    def undo_in_model(self, operation: Row) -> Rows | None:
        is_root_made = any(change["before"] is None and change["id"] == ROOT_ID for change in operation["changes"])
        if is_root_made or self.is_undone(operation["operation_id"]):
            return None
        return expect_undo(self.log.rows, operation, iso(self.clock.now()))

    def is_undone(self, operation_id: str) -> bool:
        undos = [operation["operation_id"] for operation in self.log.operations if operation["undo_of"] == operation_id]
        return bool(undos) and not self.is_undone(undos[-1])

    def outcome(self, who: int, operation: Row, *, dry_run: bool) -> UndoResult | Conflict:
        try:
            return self.run(self.hub(who).operations.log.undo(local(), operation["operation_id"], dry_run=dry_run))
        except Conflict as problem:
            return problem

    @rule()
    def replay(self) -> None:
        """From the log alone: without LOCK, record files, caches and indexes."""
        copied = self.folder / "copied"
        shutil.copytree(self.folder / "change_log", copied / "change_log")

        async def check() -> None:
            store = open_files(copied)
            assert store.status().damage == []
            check_view(store.view("default"), self.log.rows)
            await store.close()

        self.run(check())
        shutil.rmtree(copied)

    @rule(seconds=st.integers(1, 5_000))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def check_all_agree(self) -> None:
        self.check_rows()
        for who in range(len(getattr(self, "opened", ()))):
            self.run(self.hub(who).store.refresh())
            check_view(self.hub(who).store.view("default"), self.log.rows)
            self.check_subtree(self.hub(who))
            self.run(self.check_caches(self.hub(who)))

    def check_rows(self) -> None:
        self.log.read_on()
        found = TreeModel.of(self.log.rows)
        assert found == self.model
        assert found.fault() is None
        # In the order of the rows, which an undo may have changed.
        self.model = found

    def check_subtree(self, hub: Hub) -> None:
        top = self.run(hub.keywords.tree.get_subtree(local(), ROOT_ID))
        shown = {}
        waiting = [(top, 0)]
        for node, level in waiting:
            assert node["level"] == level
            assert (
                node["children"] == self.model.children(node["id"]) == [item["id"] for item in node["children_nodes"]]
            )
            waiting += [(child, level + 1) for child in node["children_nodes"]]
            shown[node["id"]] = {name: node[name] for name in self.model.keywords[ROOT_ID]}
        assert shown == self.model.keywords

    async def check_caches(self, hub: Hub) -> None:
        self.looked += 1
        options, text = TreeOptions(), PlainText()
        # Without the cache of the hub, whose answers must be the same.
        near = NearKeywords(text, TreeTextSearch(hub.indexes.tree.index, hub.settings.relevance_floor))
        search = KeywordSearch(hub.store, near, hub.keywords.agent, options)
        infos = InfoService(hub.store, text, self.ids, hub.keywords.agent, options)
        linked = sorted({keyword_id for _, keyword_id in self.model.links})
        for ctx in READERS:
            for query in QUERIES:
                assert await hub.keywords.search.search(ctx, query) == await search.search(ctx, query)
            for keyword_id in linked[self.looked % 3 :: 3]:
                if self.model.keywords[keyword_id]["scopes"] == ["user:li"] and ctx is not READERS[0]:
                    continue
                for page, sort in ((0, InfoSort.TIME), (1, InfoSort.TIME), (0, InfoSort.RELEVANCE)):
                    query_ = InfoQuery(page=page, size=2, sort=sort)
                    kept = await hub.keywords.infos.list_for_keyword(ctx, keyword_id, query_)
                    assert list(kept) == list(await infos.list_for_keyword(ctx, keyword_id, query_))


def refusal_of(expect: Expect, model: TreeModel, answer: object) -> type[KnowHubError] | None:
    """Apply the request to the model; return the expected error class, or None."""
    try:
        expect(model, answer)
    except ModelRefusal as refused:
        return refused.kind
    return None


def list_step_keywords(step: Row) -> list[Row]:
    """Return every keyword that a step rests on."""
    ends = [step[name] for name in ("node", "to", "source", "into") if name in step]
    return ends + [child for group in step.get("groups", ()) for child in group["children"]]


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.mark.timeout(900)
def test_any_order_of_verbs_agrees_with_plain_dicts() -> None:
    fast = settings(
        max_examples=6, stateful_step_count=50, deadline=None, suppress_health_check=QUIET, derandomize=True
    )

    run_state_machine_as_test(KeywordMachine, settings=fast)


def delete_branch_with_info_twice(machine: KeywordMachine) -> None:
    machine.shrink(0, ("delete", -1, InfoPolicy.REATTACH, True))
    machine.check_all_agree()
    machine.undo_the_newest(1)


def merge_keyword_moved_under_in_same_plan(machine: KeywordMachine) -> None:
    ids, versions = sorted(machine.model.keywords), machine.versions()
    go, web, child = ({"id": ids[number], "version": versions[ids[number]]} for number in (1, 2, 7))
    steps = [{"kind": "move", "node": child, "to": web}, {"kind": "merge", "source": web, "into": go}]
    machine.apply(0, {"steps": steps})
    machine.check_all_agree()
    machine.undo_the_newest(0)


def undo_rename_after_added_alias(machine: KeywordMachine) -> None:
    machine.change(0, ("update", -1, {"name": "python"}))
    machine.change(1, ("add_alias", -1, "rust"))
    machine.check_all_agree()
    machine.undo(0, machine.log.operations[-2])
    assert machine.log.rows[KEYWORDS, min(machine.model.keywords)]["aliases"] == ["rust"]


@pytest.mark.parametrize(
    "order",
    [
        delete_branch_with_info_twice,
        merge_keyword_moved_under_in_same_plan,
        undo_rename_after_added_alias,
    ],
    ids=lambda order: order.__name__,
)
def test_orders_that_chance_seldom_finds_agree_with_plain_dicts(order: Callable[[KeywordMachine], None]) -> None:
    machine = KeywordMachine()
    machine.open_both(segment_bytes=4096, grown=TREE)
    machine.check_all_agree()

    order(machine)

    machine.check_all_agree()
    machine.teardown()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("turn", range(13))
def test_a_hundred_thousand_verbs_agree_with_plain_dicts(turn: int) -> None:
    """Thirteen turns of a hundred trees are over 100,000 steps; between turns hypothesis forgets what it has tried."""
    long = settings(
        max_examples=100, stateful_step_count=100, deadline=None, suppress_health_check=QUIET, database=None
    )

    run_state_machine_as_test(KeywordMachine, settings=long)
