"""Work in a process of its own: what it answers, what it fails with, and that it ends with who waits for it."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import Unavailable
from knowhub.stores.files.apart import run_apart

pytestmark = pytest.mark.anyio

SEGMENT = "change_log/segment-00000002.jsonl"


def order(root: Path) -> dict[str, Any]:
    """Return what a base is written from: its writing begins with the header of segment 2."""
    header = {"log_id": "log", "segment": 2, "generation": 2, "last_seq": 1, "checksum": "", "last_time": 0.0}
    return {"header": {**header, "erases": 0}, "path": str(root / "base.tmp")}


async def test_a_system_call_that_failed_there_is_raised_here_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="segment-00000002") as failed:
        await run_apart("write_base", tmp_path, order(tmp_path))

    assert failed.value.errno == errno.ENOENT


async def test_any_other_end_is_unavailable_with_the_last_words_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "change_log").mkdir()
    (tmp_path / SEGMENT).write_bytes(b"no header\n")

    with pytest.raises(Unavailable, match=r"(?s)write_base ended with 1: .*header is damaged"):
        await run_apart("write_base", tmp_path, order(tmp_path))


async def test_the_process_ends_with_the_task_that_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "change_log").mkdir()
    os.mkfifo(tmp_path / SEGMENT)
    waiting = asyncio.create_task(run_apart("write_base", tmp_path, order(tmp_path)))
    # Its work is to open this, which waits for somebody who writes: now it is at it.
    pipe = await opened_by_a_reader(tmp_path / SEGMENT)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    with pytest.raises(BrokenPipeError):
        os.write(pipe, b"is anybody there?")
    os.close(pipe)


async def opened_by_a_reader(pipe: Path) -> int:
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno != errno.ENXIO:
                raise
            await asyncio.sleep(0.01)
