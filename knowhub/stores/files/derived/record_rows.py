"""How a row stands in its record file: the names and the times of the seeds (seed 000 §3, §4.1)."""

from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import orjson

from knowhub.core import clock
from knowhub.core.operation import Row
from knowhub.core.request_context import DEFAULT_ACCOUNT
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS

_MAX_NAME_BYTES = 200
_READABLE_CHARS, _DIGEST_DIGITS = 16, 32
_SEED_NAMES = {KEYWORDS: "nodes"}
_OF_THE_TREE = frozenset({KEYWORDS, INFOS, LINKS})


@lru_cache(maxsize=1024)
def record_file(account: str, collection: str) -> str:
    """Return the file, below records/, that holds the rows of a collection."""
    folder = "" if account == DEFAULT_ACCOUNT else f"accounts/{_folder_name(account)}/"
    return f"{folder}{_SEED_NAMES.get(collection, collection)}.jsonl"


def _folder_name(account: str) -> str:
    name = quote(account, safe="").replace(".", "%2E")
    if len(name) <= _MAX_NAME_BYTES:
        return name
    # No file system takes such a name whole: as much as one can read, and what tells it from all others.
    return f"{_folder_name(account[:_READABLE_CHARS])}~{sha256(account.encode()).hexdigest()[:_DIGEST_DIGITS]}"


def record_text(collection: str, text: bytes) -> bytes:
    """Return a row's line, without its newline, from its JSON text."""
    return orjson.dumps(_seed_form(orjson.loads(text))) if collection in _OF_THE_TREE else text


def record_of(collection: str, row: Row) -> bytes:
    """Return a row's line, without its newline."""
    return orjson.dumps(_seed_form(row) if collection in _OF_THE_TREE else row)


def _seed_form(row: Row) -> dict[str, Any]:
    """Give the rows of the tree float seconds and a `deleted` in each line (C-63, KT-040…047)."""
    times = {name: clock.parse_iso(row[name]) for name in ("created_at", "updated_at")}
    return {**row, **times, "deleted": row.get("deleted", False)}
