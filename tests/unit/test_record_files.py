"""Names of record files."""

from knowhub.stores.files.projections.record_files import record_path


def test_an_account_of_any_name_has_a_folder_that_the_disk_takes() -> None:
    names = ["数" * 200, "数" * 199 + "据", "..", "a/b", "x" * 200]

    folders = [record_path(name, "knowledge").split("/")[1] for name in names]

    assert max(len(folder.encode()) for folder in folders) <= 255
    assert len(set(folders)) == len(names)
    assert not {".", ".."} & set(folders)
