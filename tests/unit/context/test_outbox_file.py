"""The note of what failed to be indexed, on a disk that refuses it: who writes is told, and nothing is half done."""

import errno
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.context.index.index_ports import DeadLetter, parse_dead_letter
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.core.errors import StorageFull, Unavailable
from knowhub.stores.files.log.log_line import seal
from knowhub.stores.files.projections.outbox_file import OutboxFile
from tests.context_rows import ACCOUNT, session_at
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

WISHED = "0123456789abcdef" * 2
PLANS = [(Plan(fail_at=1, error=errno.EIO, lasting=True), Unavailable)]
PLANS += [(Plan(fail_at=1, error=errno.ENOSPC, lasting=True), StorageFull)]


class ErasedUpTo:
    """A log whose newest erasing is the one that a test says."""

    def __init__(self, erases: int = 0) -> None:
        self.erases = erases


def letter(number: int = 1) -> DeadLetter:
    event = OutboxEvent(
        f"{number:032}",
        EventType.UPSERT_CONTEXT,
        f"{session_at()}/m{number}",
        {"account": ACCOUNT, "owner": "user:li"},
        EventStatus.DEAD,
        retry_count=5,
        created_at=12.5,
        error="refused",
    )
    return DeadLetter(event, number, 99.0)


def outbox_in(folder: Path, files: FaultyFileSystem, log: ErasedUpTo | None = None) -> OutboxFile[DeadLetter]:
    return OutboxFile(files, folder, "the log", log or ErasedUpTo(), parse_dead_letter)


@pytest.mark.parametrize(("plan", "problem"), PLANS)
async def test_letters_that_cannot_be_kept_are_kept_the_next_time_and_the_old_ones_stand(
    tmp_path: Path, plan: Plan, problem: type[Exception]
) -> None:
    files = FaultyFileSystem()
    outbox = outbox_in(tmp_path, files)
    await outbox.save([letter(1)])
    files.begin(plan)

    with pytest.raises(problem, match=r"outbox\.json could not be written"):
        await outbox.save([letter(1), letter(2)])
    refused = outbox.load()
    files.begin(Plan())
    await outbox.save([letter(1), letter(2)])

    assert refused == [letter(1)]
    assert outbox.load() == [letter(1), letter(2)]


@pytest.mark.parametrize(("plan", "problem"), PLANS)
def test_a_wish_that_is_not_kept_is_refused_and_can_be_said_again(
    tmp_path: Path, plan: Plan, problem: type[Exception]
) -> None:
    files = FaultyFileSystem(plan)
    outbox = outbox_in(tmp_path, files)

    with pytest.raises(problem, match="the wish to try again is not kept"):
        outbox.request_retry(WISHED)
    refused = outbox.list_retries()
    files.begin(Plan())
    outbox.request_retry(WISHED)

    assert refused == []
    assert outbox.list_retries() == [WISHED]


@pytest.mark.parametrize("account", [None, 7, ["default"]])
async def test_letters_that_name_no_account_count_as_none(tmp_path: Path, account: object) -> None:
    outbox = outbox_in(tmp_path, FaultyFileSystem())
    await outbox.save([letter(1), letter(2)])
    note = tmp_path / "outbox.json"
    kept: dict[str, Any] = orjson.loads(note.read_bytes())
    kept["letters"][1]["event"]["payload"]["account"] = account
    note.write_bytes(seal(orjson.dumps(kept)[:-1]))

    assert outbox.load() == []


async def test_letters_are_not_kept_where_nobody_can_tell_whether_there_is_a_file(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    outbox = outbox_in(tmp_path, files)
    await outbox.save([letter()])
    files.begin(Plan(fail_at=1, lasting=True, kinds=["inode_at"]))

    for letters in ([letter()], [letter(2)], []):
        with pytest.raises(Unavailable, match=r"outbox\.json could not be written"):
            await outbox.save(letters)


def test_wishes_that_cannot_be_listed_are_named(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    outbox = outbox_in(tmp_path, files)
    outbox.request_retry(WISHED)
    files.begin(Plan(fail_at=1, lasting=True, kinds=["names"]))

    with pytest.raises(Unavailable, match="wishes to try again"):
        outbox.list_retries()
