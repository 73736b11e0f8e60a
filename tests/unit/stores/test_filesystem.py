"""The real file system: a missing folder has no names, and an unreadable one is an error."""

import errno
from pathlib import Path

import pytest

from knowhub.stores.files.filesystem import FileSystem


def test_a_missing_folder_has_no_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")

    found = [FileSystem().names(tmp_path / name) for name in ("none", "file", "loop")]

    assert found == [[], [], []]


def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long") as refused:
        FileSystem().names(tmp_path / ("x" * 300))

    assert refused.value.errno == errno.ENAMETOOLONG
