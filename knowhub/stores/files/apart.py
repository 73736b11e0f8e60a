"""Work on many bytes in a process of its own, so that no request waits for it."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem, RealFileSystem

Work: TypeAlias = Callable[[FileSystem, Path, Mapping[str, Any]], dict[str, Any]]
"""From a file system, a data directory and JSON arguments to a JSON result; it raises OSError."""

Apart: TypeAlias = Callable[[str, Path, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Runs the work of a name on a data directory. Raises OSError as the work does, and Unavailable when it was ended."""

_WORK: Final = {
    "write_maps": "knowhub.stores.files.map_files:write_maps",
    "write_base": "knowhub.stores.files.base_writer:write_base",
    "write_snapshot": "knowhub.stores.files.snapshots:write_snapshot",
    "prepare_restore": "knowhub.stores.files.restore_work:prepare_restore",
}
_NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1

_log = structlog.get_logger("knowhub.apart")


async def run_apart(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run the work in a child process, which ends with the task that waits for it."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "knowhub.stores.files.apart", name, str(root), str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await child.communicate(json.dumps(arguments).encode())
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode:
        _log.error("work_failed", work=name, code=child.returncode, error=err.decode(errors="replace")[-4000:])
        raise Unavailable(f"{name} ended with {child.returncode}; the server's log says more")
    answer: dict[str, Any] = json.loads(out)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["error"])
    return answer


def run_here(files: FileSystem) -> Apart:
    """Return what runs the work in this process, on another file system than the real one."""

    async def run(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return work_of(name)(files, root, arguments)

    return run


def work_of(name: str) -> Work:
    """Return the function that does the work of a name."""
    module, _, function = _WORK[name].partition(":")
    work: Work = getattr(import_module(module), function)
    return work


def main() -> None:
    """Do the work that the command line names, with the arguments of standard input."""
    name, root, parent = sys.argv[1:]
    _end_with(int(parent))
    os.nice(_NICENESS)
    # It makes millions of objects, and ends before any of them could be collected.
    gc.disable()
    try:
        answer = work_of(name)(RealFileSystem(), Path(root), json.loads(sys.stdin.buffer.read()))
    except OSError as problem:
        answer = {"errno": problem.errno or 0, "error": str(problem)}
    sys.stdout.write(json.dumps(answer))


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also when both are stopped.

    What goes on behind a dead parent would write down again what is erased meanwhile.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel knew.
        sys.exit("the process that asked for this has ended")


if __name__ == "__main__":
    main()
