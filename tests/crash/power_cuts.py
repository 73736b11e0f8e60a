"""A program that cuts the power of a small disk under writers many times, and checks the disk after each cut.

`python -m tests.crash.power_cuts ext4|xfs FOLDER POINTS SEED` prints one line of JSON. It needs root, loop devices and
the `mkfs` of that file system. The shutdown ioctl drops, as a power cut does, all that was not made durable: dirty
pages, and the part of the journal that is still in memory.
"""

import asyncio
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.killed_writers import Tally, kill_once, reopen_and_compare, strike

# _IOR('X', 125, __u32), which ext4 and xfs share; what it is given says whether the journal in memory is written first.
SHUTDOWN = 0x8004587D
JOURNAL_WRITTEN, JOURNAL_LOST = 1, 2
# xfs makes no file system below 300 MB. The image is a file with holes: it takes what is written to it.
IMAGE_BYTES = 320 * 1024 * 1024
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
LOCK_BOOT_AT, LOCK_BOOT_BYTES = 64, 16


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system in a file, mounted while it has power."""

    image: Path
    folder: Path

    @classmethod
    def make(cls, kind: str, root: Path) -> "SmallDisk":
        disk = cls(root / f"{kind}.img", root / kind)
        disk.folder.mkdir(parents=True)
        with disk.image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run([*MAKE[kind], str(disk.image)], check=True)
        return disk

    def power_on(self) -> None:
        """Mount it, which replays its journal."""
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.folder)], check=True)

    def cut(self, how: int) -> None:
        """Take the power away under whoever writes: every call on the disk fails from now on."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", how))
        finally:
            os.close(descriptor)

    def power_off(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    @contextmanager
    def powered_on(self) -> Iterator[None]:
        self.power_on()
        try:
            yield
        finally:
            self.power_off()


def main(kind: str, root: Path, points: int, seed: int) -> None:
    """Cut the power `points` times, and print the results."""
    rng = random.Random(seed)
    disk = SmallDisk.make(kind, root)

    def cut_and_recover(_turn: int, tally: Tally) -> None:
        how = rng.choice((JOURNAL_LOST, JOURNAL_LOST, JOURNAL_LOST, JOURNAL_WRITTEN))
        with disk.powered_on():
            kill_once(disk.folder / "data", rng, tally, lambda: disk.cut(how))
        recover_and_compare(disk, tally)

    def clear() -> None:
        with disk.powered_on():
            shutil.rmtree(disk.folder / "data")

    strike(points, cut_and_recover, clear)


def recover_and_compare(disk: SmallDisk, tally: Tally) -> None:
    """Recover the disk, compare it with the acknowledged writes, write, and cut the power again."""
    with disk.powered_on():
        reboot(disk.folder / "data")
        asyncio.run(reopen_and_compare(disk.folder / "data", tally))
        disk.cut(JOURNAL_LOST)


def reboot(folder: Path) -> None:
    """Change the boot id in LOCK, as after a real power cut; this machine only simulates one."""
    if not (folder / "LOCK").exists():
        return
    with (folder / "LOCK").open("r+b") as lock:
        lock.seek(LOCK_BOOT_AT)
        boot = lock.read(LOCK_BOOT_BYTES)
        lock.seek(LOCK_BOOT_AT)
        lock.write(bytes(byte ^ 0xFF for byte in boot))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
