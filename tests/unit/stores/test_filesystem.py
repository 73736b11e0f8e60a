"""The real file system: a missing folder is an empty one, and no other error is taken for that."""

from pathlib import Path

import pytest

from knowhub.stores.files.filesystem import FileSystem


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    assert FileSystem().names(tmp_path / "none") == []

    # An error that the root user gets too.
    with pytest.raises(OSError, match="too long"):
        FileSystem().names(tmp_path / ("x" * 300))
