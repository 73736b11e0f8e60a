"""The note of what failed to be indexed, on a disk that refuses it: who writes is told, and nothing is half done."""

import errno
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.context.index.index_ports import Letter
from knowhub.context.index_model import EventStatus, EventType, OutboxEvent
from knowhub.core.errors import StorageFull, Unavailable
from knowhub.stores.files.derived.outbox_file import OutboxFile
from knowhub.stores.files.log.log_line import object_of, seal
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
        self.is_erasing = False


def letter(number: int = 1) -> Letter:
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
    return Letter(event, number, 99.0)


def outbox_in(folder: Path, files: FaultyFileSystem, log: ErasedUpTo | None = None) -> OutboxFile:
    return OutboxFile(files, folder, "the log", log or ErasedUpTo())


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
        outbox.ask(WISHED)
    refused = outbox.asked()
    files.begin(Plan())
    outbox.ask(WISHED)

    assert refused == []
    assert outbox.asked() == [WISHED]


async def test_letters_that_may_tell_of_what_was_erased_and_stay_are_named_until_they_go(tmp_path: Path) -> None:
    files, log = FaultyFileSystem(), ErasedUpTo()
    outbox = outbox_in(tmp_path, files, log)
    await outbox.save([letter()])
    log.erases = 7
    files.begin(Plan(fail_at=1, lasting=True, kinds=["remove"]))

    with pytest.raises(Unavailable, match=r"outbox\.json may tell of what was erased"):
        await outbox.drop_outdated()
    noted = outbox.noted_erases
    files.begin(Plan())
    await outbox.drop_outdated()

    assert noted == 0
    assert outbox.noted_erases is None


@pytest.mark.parametrize("account", [None, 7, ["default"]])
async def test_letters_that_name_no_account_count_as_none(tmp_path: Path, account: object) -> None:
    outbox = outbox_in(tmp_path, FaultyFileSystem())
    await outbox.save([letter(1), letter(2)])
    note = tmp_path / "outbox.json"
    kept: dict[str, Any] = orjson.loads(object_of(note.read_bytes()))
    kept["letters"][1]["event"]["payload"]["account"] = account
    note.write_bytes(seal(orjson.dumps(kept)[:-1]))

    assert outbox.load() == []


@pytest.mark.parametrize("kind", ["read", "remove"])
async def test_letters_that_a_disk_neither_reads_nor_removes_are_named_behind_an_erasing(
    tmp_path: Path, kind: str
) -> None:
    files, log = FaultyFileSystem(), ErasedUpTo()
    outbox = outbox_in(tmp_path, files, log)
    await outbox.save([letter()])
    log.erases = 7
    files.begin(Plan(fail_at=1, lasting=True, kinds=[kind]))

    with pytest.raises(Unavailable, match=r"outbox\.json may tell of what was erased"):
        await outbox.drop_outdated()


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
    outbox.ask(WISHED)
    files.begin(Plan(fail_at=1, lasting=True, kinds=["names"]))

    with pytest.raises(Unavailable, match="wishes to try again"):
        outbox.asked()
