"""Search a data directory for a text that must be gone from it."""

import gzip
from pathlib import Path

import orjson
import tantivy

from knowhub.search.analysis import index_terms

_LONG_TERM = 8


def find_files_with(folder: Path, text: str) -> list[str]:
    """Return the files that contain a text, plain or escaped; gzip files are unpacked."""
    needles = [text.encode(), orjson.dumps(text)[1:-1], text.encode("unicode_escape"), text.encode("utf-16-le")]
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [path for path in paths if any(needle in data for data in [_bytes(path)] for needle in needles)]
    return [path.relative_to(folder).as_posix() for path in found]


def find_indexes_with(folder: Path, text: str) -> list[str]:
    """Return the full-text indexes that hold a term of a text, even of a deleted document.

    Terms are compressed in the files, so the index is queried. Short terms are skipped: other texts may have them.
    """
    terms = [term for term in index_terms(text) if len(term) >= _LONG_TERM]
    builds = sorted((folder / "indexes" / "lexical").glob("*/build-*"))
    searchers = [(build, tantivy.Index.open(str(build)).searcher()) for build in builds]
    return [build.name for build, item in searchers if any(item.doc_freq("terms", term) for term in terms)]


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
