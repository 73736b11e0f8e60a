"""Two hubs on one directory, as in two processes, for stateful tests."""

import asyncio
import gc
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from knowhub.bootstrap import Hub, check_directory, open_hub
from knowhub.settings import Settings
from knowhub.stores.files.doctor.findings import Severity
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, CountedIds, FakeClock
from tests.pure_decisions import run_twice

T = TypeVar("T")
WHO = st.integers(0, 1)


class TwoHubs(RuleBasedStateMachine):
    """Begins with `open_both`; at the end the directory is checked, and any problem fails the test."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix=f"knowhub-{type(self).__name__}-"))
        self.clock, self.ids = FakeClock(), CountedIds()

    def open_with(self, **given: Any) -> None:  # noqa: ANN401 -- any setting
        """Open both, with these settings."""
        self.settings = Settings(data_dir=self.folder, owner=OWNER, **given)
        self.opened = [self.open(), self.open()]

    def teardown(self) -> None:
        for _, stack in getattr(self, "opened", ()):
            self.run(stack.aclose())
        problems = self.problems()
        self.loop.close()
        shutil.rmtree(self.folder)
        # Each opening freezes what is there; thousands of examples would never be collected.
        gc.unfreeze()
        # Each index has a thread that watches its files, for as long as nobody has looked for what is garbage.
        gc.collect()
        assert problems == []

    def problems(self) -> Sequence[object]:
        """Return the problems of the directory after both hubs are closed."""
        return [item for item in check_directory(self.settings) if item.severity is Severity.PROBLEM]

    def world(self) -> Overrides:
        """Return what replaces the real adapters in both hubs."""
        return Overrides(clock=self.clock, ids=self.ids)

    def open(self) -> tuple[Hub, AsyncExitStack]:
        world = replace(self.world(), run_decision=run_twice)

        async def enter() -> tuple[Hub, AsyncExitStack]:
            stack = AsyncExitStack()
            return await stack.enter_async_context(open_hub(self.settings, world, maintain=False)), stack

        return self.run(enter())

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    def hub(self, who: int) -> Hub:
        return self.opened[who][0]

    async def run_beside_other(self, who: int, doing: Coroutine[Any, Any, T]) -> T:
        """Do something in one process while the other keeps up, as servers do."""
        task = asyncio.ensure_future(doing)
        while not task.done():
            await self.hub(1 - who).store.refresh()
            await self.hub(1 - who).maintenance.tick()
            await asyncio.wait([task], timeout=0.001)
        return await task

    @rule(who=WHO, upkeep=st.booleans())
    def reopen(self, who: int, upkeep: bool) -> None:
        if upkeep:
            self.run(self.hub(who).maintenance.tick())
            assert self.hub(who).maintenance.failures == {}
        self.run(self.opened[who][1].aclose())
        self.opened[who] = self.open()
