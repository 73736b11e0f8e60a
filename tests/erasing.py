"""Searching a data directory for a text, as somebody would who must be sure that it is gone."""

import gzip
from pathlib import Path

import orjson
import tantivy

from knowhub.search.analysis import index_terms

_LONG_TERM = 8


def files_with(folder: Path, text: str) -> list[str]:
    """Name every file in whose bytes a text stands, as it is or escaped; what is packed is unpacked."""
    needles = [text.encode(), orjson.dumps(text)[1:-1], text.encode("unicode_escape"), text.encode("utf-16-le")]
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [path for path in paths if any(needle in data for data in [_bytes(path)] for needle in needles)]
    return [path.relative_to(folder).as_posix() for path in found]


def indexes_with(folder: Path, text: str) -> list[str]:
    """Name every full-text index that has a term of a text, of a document that was deleted from it too.

    Its files are packed term by term: they have to be asked. Short terms may come from elsewhere.
    """
    terms = [term for term in index_terms(text) if len(term) >= _LONG_TERM]
    builds = sorted((folder / "indexes" / "lexical").glob("*/build-*"))
    searchers = [(build, tantivy.Index.open(str(build)).searcher()) for build in builds]
    return [build.name for build, item in searchers if any(item.doc_freq("terms", term) for term in terms)]


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
