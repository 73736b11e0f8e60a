"""Marks of KnowHub's own answers in a saved text: the fence of the agent tools, JSON of the API, its addresses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SEARCHED_CHARS = 65_536
_MOST_IDS = 20

# The words of agent_tools/records.py, which this package must not import; a test holds the two together.
FENCE_NOTE = 'Lines that begin with "| " are stored text'
_FENCED_FIELD = re.compile(r"^[ \t>]*\| (id|types|quality|task|content): ", re.MULTILINE)
_FENCED_FIELDS = 3
_JSON_QUALITY = re.compile(r'\\?"quality_score\\?"\s*:')
_JSON_ID = re.compile(r'\\?"id\\?"\s*:\s*\\?"knowledge-')
_RECORD_ID = re.compile(r"(?<![\w-])knowledge-\d{8}-[0-9a-f]{4,32}(?![\w-])")
_SEARCH_TOOLS = frozenset({"knowledge_search", "get_knowledge", "knowledge_list", "search_knowledge", "knowhub"})
_API_ADDRESS = re.compile(r"/api/(?:knowledge|keywords|infos)(?:[/?#]|$)")


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a text shows that it came out of KnowHub, and the ids of records that it quotes."""

    how: str
    at: int
    ids: Sequence[str] = ()


def rendering_in(text: str) -> Rendering | None:
    """Return what of the first 65,536 characters is KnowHub's own way to show records; None when nothing is.

    An id alone is no sign of it: records may refer to each other.
    """
    head = text[:SEARCHED_CHARS]
    if (at := head.find(FENCE_NOTE)) >= 0:
        return Rendering("tool_output", at, quoted_ids(head))
    fields = list(_FENCED_FIELD.finditer(head)) if "| " in head else []
    if len({field[1] for field in fields}) >= _FENCED_FIELDS:
        return Rendering("tool_output", fields[0].start(), quoted_ids(head))
    quality = _JSON_QUALITY.search(head) if "quality_score" in head else None
    if quality is not None and _JSON_ID.search(head):
        return Rendering("api_answer", quality.start(), quoted_ids(head))
    return None


def source_is_a_search(source: Mapping[str, Any]) -> str | None:
    """Return what in a record's source names a search of KnowHub or an address of its API; None when nothing does."""
    name = str(source.get("name") or "").strip().casefold()
    if name in _SEARCH_TOOLS:
        return str(source["name"])
    return next((url for url in source.get("urls") or () if _API_ADDRESS.search(url)), None)


def quoted_ids(text: str) -> list[str]:
    """Return the ids of knowledge records that a text names, each once, the first 20."""
    return list(dict.fromkeys(_RECORD_ID.findall(text)))[:_MOST_IDS]
