"""The child process of `subprocess_runner.py`: it does named work on a data directory.

A child starts for every piece of work, so this module imports as little as possible: no asyncio, no logging.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias

from knowhub.stores.files.filesystem import FileSystem

Work: TypeAlias = Callable[[FileSystem, Path, Mapping[str, Any]], dict[str, Any]]
"""From a file system, a data directory and JSON arguments to a JSON result; it raises OSError."""

_WORK: Final = {
    "write_maps": "knowhub.stores.files.projections.map_files:write_maps",
    "write_base": "knowhub.stores.files.compacting.base_writer:write_base",
    "write_snapshot": "knowhub.stores.files.snapshots.archive_writer:write_snapshot",
    "prepare_restore": "knowhub.stores.files.snapshots.restore:prepare_restore",
}
_NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def find_work(name: str) -> Work:
    """Return the function that does the work of a name."""
    work: Work = resolve_name(_WORK[name])
    return work


def main() -> None:
    """Do the work that the command line names, with the arguments of standard input."""
    name, root, parent = sys.argv[1:]
    _end_with(int(parent))
    os.nice(_NICENESS)
    # It makes millions of objects, and ends before any of them could be collected.
    gc.disable()
    try:
        answer = find_work(name)(FileSystem(), Path(root), json.loads(sys.stdin.buffer.read()))
    except OSError as problem:
        answer = {"errno": problem.errno or 0, "error": str(problem)}
    sys.stdout.write(json.dumps(answer))


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also when both are stopped.

    A child that outlives its parent could write again what is erased meanwhile.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel knew.
        sys.exit("the process that asked for this has ended")


if __name__ == "__main__":
    main()
