"""The bytes and lines of a log, whatever they mean."""

from pathlib import Path

from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.log.change_log import ChangeLog, Header
from knowhub.stores.files.log.log_line import seal


def test_of_a_file_that_is_shorter_than_was_said_the_lines_that_are_there_are_read(tmp_path: Path) -> None:
    log = ChangeLog(RealFileSystem(), tmp_path)
    start = log.create(Header("log", 1, 1, 1, None))
    written = [seal(b'{"seq":%d' % seq) for seq in (1, 2)]
    log.append(1, b"".join(written), start)

    lines = list(log.lines(1, start, log.size(1) + 1000))
    log.close()

    assert [line.data for line in lines] == written


def test_a_line_that_is_longer_than_a_piece_is_read_whole_and_a_torn_end_as_it_is(tmp_path: Path) -> None:
    log = ChangeLog(RealFileSystem(), tmp_path)
    start = log.create(Header("log", 1, 1, 1, None))
    long, torn = seal(b'{"said":"%s"' % (b"x" * 5_000_000)), b'{"seq":2'
    log.append(1, long + torn, start)

    lines = list(log.lines(1, start, log.size(1)))
    log.close()

    assert [(line.offset, line.is_whole) for line in lines] == [(start, True), (start + len(long), False)]
    assert [line.data for line in lines] == [long, torn]
