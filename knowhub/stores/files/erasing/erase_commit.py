"""Erasing as a commit: the operation is made durable between its journal and the overwriting."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from knowhub.core.erasing import Erasing
from knowhub.core.operation import Outcome
from knowhub.stores.files.batch import Batch, Request
from knowhub.stores.files.claims import claimed
from knowhub.stores.files.erasing import erasing
from knowhub.stores.files.erasing.erased_lines import Target
from knowhub.stores.files.group_commit import GroupCommit
from knowhub.stores.files.log.loading import Opening
from knowhub.stores.files.replica import Replica


class Erasures:
    """Erases rows of one data directory, and ends what another process, or an earlier one, has begun."""

    def __init__(self, opening: Opening, replica: Replica, commits: GroupCommit) -> None:
        self._files = opening.files
        self._directory = opening.directory
        self._replica = replica
        self._commits = commits

    @property
    def is_going_on(self) -> bool:
        """Whether what is read from the log may still tell of a row whose erasing stands in it."""
        return erasing.is_noted(self._files, self._directory)

    async def commit(self, wanted: Erasing) -> Outcome:
        """Make an erasing durable and carry it out: when it returns, the log tells nothing of the row any more.

        Raises what its decision raises, with nothing written, Conflict while the log is compacted or a snapshot is made
        for longer than writes wait for their lock; ReadOnly, StorageFull and Unavailable. When it fails behind its
        operation, whoever opens the directory next carries it out.
        """
        async with self._unread(), self._commits.writing():
            await self._commits.in_thread(self.finish)
            target = Target.of(wanted.account, (wanted.collection, wanted.id), wanted.rules)
            survey = await self._commits.in_thread(
                lambda: erasing.survey(self._files, self._directory, target, wanted.rules)
            )

            async def note(batch: Batch) -> None:
                operation = batch.decided[0].operation
                await self._commits.in_thread(lambda: erasing.note(self._files, self._directory, survey, operation))

            future: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
            decides = [lambda view: wanted.decide(view, survey.found)]
            request = Request(wanted.account, wanted.actor, decides, wanted.idempotency, future)
            batch = await self._commits.write([request], note)
            await self._commits.in_thread(self._finish_alone)
        answer = batch.answers[0][1]
        if isinstance(answer, Exception):
            raise answer
        return answer[0]

    @asynccontextmanager
    async def _unread(self) -> AsyncIterator[None]:
        """Wait until nobody writes down anew what is read from the log, and keep it so."""
        directory, wait_s = self._directory, self._commits.patience_s
        async with (
            claimed(self._files, directory.change_log, wait_s, "the log is being compacted; erase when that has ended"),
            claimed(self._files, directory.snapshots, wait_s, "a snapshot is being made or restored; erase after that"),
        ):
            yield

    async def end(self) -> None:
        """Carry out, or throw away, what a process has left that died. Raises as `commit`."""
        if self.is_going_on:
            async with self._commits.writing():
                await self._commits.in_thread(self.finish)

    def finish(self) -> None:
        """Carry out what is noted, or throw it away. Under the writers' lock. Raises OSError and Unavailable."""
        erasing.carry_out(self._files, self._directory, self._has_operation)

    def _finish_alone(self) -> None:
        self.finish()
        erasing.remove_scratches(self._files, self._directory)

    def _has_operation(self, account: str, operation_id: str) -> bool:
        return self._replica.history.find(account, operation_id) is not None
