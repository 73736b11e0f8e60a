"""The real calls: a folder that is not there holds nothing, and one that cannot be looked into is named."""

import errno
from pathlib import Path

import pytest

from knowhub.stores.files.filesystem import RealFileSystem


def test_where_no_folder_is_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")

    found = [RealFileSystem().names(tmp_path / name) for name in ("none", "file", "loop")]

    assert found == [[], [], []]


def test_a_folder_that_cannot_be_looked_into_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long") as refused:
        RealFileSystem().names(tmp_path / ("x" * 300))

    assert refused.value.errno == errno.ENAMETOOLONG
