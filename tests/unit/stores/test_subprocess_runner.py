"""Work in a subprocess: its answer, its errors, and that it ends with its caller."""

import asyncio
import errno
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import Unavailable
from knowhub.stores.files.subprocess_runner import run_in_subprocess

pytestmark = pytest.mark.anyio

SEGMENT = "change_log/segment-00000002.jsonl"


def base_order(root: Path) -> dict[str, Any]:
    """Return the arguments of a base; writing starts with the header of segment 2."""
    header = {"log_id": "log", "segment": 2, "generation": 2, "last_seq": 1, "checksum": "", "last_time": 0.0}
    return {"header": {**header, "erases": 0}, "path": str(root / "base.tmp")}


async def test_an_os_error_of_the_subprocess_is_raised_with_its_errno(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="segment-00000002") as failed:
        await run_in_subprocess("write_base", tmp_path, base_order(tmp_path))

    assert failed.value.errno == errno.ENOENT


async def test_other_failures_are_unavailable_and_only_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "change_log").mkdir()
    (tmp_path / SEGMENT).write_bytes(b"no header\n")

    with pytest.raises(Unavailable, match=r"^write_base ended with 1; the server's log says more$"):
        await run_in_subprocess("write_base", tmp_path, base_order(tmp_path))

    written = capsys.readouterr()
    assert "header is damaged" in written.out + written.err


async def test_the_process_ends_with_the_task_that_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "change_log").mkdir()
    os.mkfifo(tmp_path / SEGMENT)
    waiting = asyncio.create_task(run_in_subprocess("write_base", tmp_path, base_order(tmp_path)))
    # The subprocess is opening this pipe, which blocks until a writer opens it.
    pipe = await wait_for_reader(tmp_path / SEGMENT)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    with pytest.raises(BrokenPipeError):
        os.write(pipe, b"is anybody there?")
    os.close(pipe)


async def test_a_subprocess_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "change_log").mkdir()
    os.mkfifo(tmp_path / SEGMENT)
    asking = "import asyncio, sys\nfrom pathlib import Path\n"
    asking += "from knowhub.stores.files.subprocess_runner import run_in_subprocess\n"
    asking += f"asyncio.run(run_in_subprocess('write_base', Path({str(tmp_path)!r}), {base_order(tmp_path)!r}))"
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", asking)
    pipe = await wait_for_reader(tmp_path / SEGMENT)
    os.kill(child_of(parent.pid), signal.SIGSTOP)

    parent.kill()
    await parent.wait()

    await asyncio.to_thread(wait_until_nobody_reads, pipe)
    os.close(pipe)


async def test_a_subprocess_without_its_parent_does_nothing(tmp_path: Path) -> None:
    nobody = str(os.getppid())
    command = (sys.executable, "-m", "knowhub.stores.files.subprocess_runner", "write_base", str(tmp_path), nobody)

    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, told = await child.communicate(b"{}")

    assert child.returncode == 1
    assert b"has ended" in told


async def wait_for_reader(pipe: Path) -> int:
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno != errno.ENXIO:
                raise
            await asyncio.sleep(0.01)


def wait_until_nobody_reads(pipe: int) -> None:
    waiting = select.poll()
    waiting.register(pipe, 0)
    # A pipe without a reader is in error; nothing else is waited for.
    assert waiting.poll(30_000) == [(pipe, select.POLLERR)]


def child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])
