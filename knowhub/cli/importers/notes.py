"""Notes and memories of other programs: Markdown, the memory server of MCP, and mem0."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from knowhub.cli.importers.model import Note, get_object, read_time
from knowhub.cli.importers.source import ImportSource
from knowhub.web.hooks.hosts import get_text

MAX_NOTE_BYTES: Final = 2 * 1024 * 1024
_MARK: Final = "---\n"
_MAX_HEADER_CHARS: Final = 16 * 1024
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(\S[^\n]*)", re.MULTILINE)
_MAX_TAGS: Final = 50
_MAX_TAG_CHARS: Final = 200
_CREATED: Final = ("created", "created_at", "date created", "date")


class _AliasError(Exception):
    """A header has an anchor or an alias."""


class _HeaderLoader(yaml.BaseLoader):
    """Makes texts, lists and mappings only. Raises _AliasError: a few aliases of aliases are a text of gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 -- as in the library
        """Return the next node."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs lack it
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise _AliasError
        return super().compose_node(parent, index)


def read_markdown(source: ImportSource) -> Iterator[Note]:
    """Yield the notes of a folder, such as a vault of Obsidian or a project of basic-memory."""
    for file in source.list_files(".md", ".markdown"):
        if file.size > MAX_NOTE_BYTES:
            source.left_out["notes of over 2 MiB"] += 1
            continue
        text = _decode(file.read())
        if text is None:
            source.left_out["files that are no UTF-8 text"] += 1
            continue
        parts = split_header(text, source.left_out)
        if parts is None:
            why = "whose header has YAML anchors or aliases: write out what they stand for, and quote a leading & or *"
            source.left_out[f"note {file.name}, {why}"] += 1
            continue
        header, body = parts
        title = str(header.get("title") or find_title(body) or file.path.stem)
        times = (read_time(header.get(name)) for name in _CREATED)
        created = next((time for time in times if time), file.modified_at)
        tags: dict[str, str | list[str]] = {"path": file.name[:_MAX_TAG_CHARS]}
        if words := _list_tags(header.get("tags")):
            tags["tag"] = words
        key = header.get("permalink") or header.get("id") or file.name
        yield Note(str(key), title, body.strip(), "definition", tags, created)


def _decode(content: bytes) -> str | None:
    """Return the text of a note, with plain line ends; None for other bytes than UTF-8 text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.replace("\r\n", "\n")


def find_title(text: str) -> str:
    """Return the first heading of a Markdown text; empty if there is none."""
    found = _HEADING.search(text)
    return found[1].strip() if found else ""


def split_header(text: str, left_out: Counter[str]) -> tuple[dict[str, Any], str] | None:
    """Return the YAML header of a note, and the rest; None for a header with anchors or aliases.

    A header that cannot be read stays in the text.
    """
    end = text.find(f"\n{_MARK}", len(_MARK) - 1, _MAX_HEADER_CHARS) if text.startswith(_MARK) else -1
    if end < 0:
        return {}, text
    try:
        header = yaml.load(text[len(_MARK) : end + 1], Loader=_HeaderLoader)  # noqa: S506 -- it makes texts, lists and mappings only
    except _AliasError:
        return None
    except (yaml.YAMLError, ValueError, RecursionError):
        left_out["headers that are no YAML, kept as text"] += 1
        return {}, text
    return get_object(header), text[end + 1 + len(_MARK) :]


def _list_tags(value: object) -> list[str]:
    words = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    named = [str(word).lstrip("#")[:_MAX_TAG_CHARS] for word in words if isinstance(word, str) and word.strip("# ")]
    return list(dict.fromkeys(named))[:_MAX_TAGS]


def read_memory_server(source: ImportSource) -> Iterator[Note]:
    """Yield a note for each entity of the MCP memory server: its observations, and its relations to others.

    Raises InvalidInput for a file that is cut off.
    """
    entities: dict[str, str] = {}
    lines: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for file in source.list_files(".json", ".jsonl"):
        for entry in file.iterate_objects():
            match entry:
                case {"type": "entity", "name": str(name), "observations": list(observations)}:
                    entities[name] = str(entry.get("entityType") or "")
                    lines[name].update(dict.fromkeys(text for text in observations if isinstance(text, str)))
                case {"type": "relation", "from": str(name), "to": str(to)}:
                    lines[name][f"{entry.get('relationType') or 'relates to'} {to}"] = None
                case _:
                    source.left_out[f"entries {str(entry.get('type'))[:40]} of an unknown shape"] += 1
    for name in lines:
        kind = entities.get(name)
        tags: dict[str, str | list[str]] = {"entity_type": kind[:_MAX_TAG_CHARS]} if kind else {}
        yield Note(name, name, "\n".join(lines[name]), "definition", tags)


def read_mem0(source: ImportSource) -> Iterator[Note]:
    """Yield the memories that `get_all` of mem0 returns: a list, an object with `results`, or one a line."""
    for file in source.list_files(".json", ".jsonl"):
        if file.path.suffix.lower() == ".jsonl":
            items: Iterator[Any] = file.iterate_objects()
        else:
            items = file.iterate_items("results", "memories")
        for item in items:
            entry = get_object(item)
            text = next((found for name in ("memory", "data", "text") if (found := get_text(entry, name))), None)
            if text is None:
                source.left_out["memories of an unknown shape"] += 1
                continue
            yield _make_memory(entry, text)


def _make_memory(entry: Mapping[str, Any], text: str) -> Note:
    names = ("user_id", "agent_id", "app_id", "run_id")
    found = {name: entry.get(name) for name in names} | get_object(entry.get("metadata"))
    tags: dict[str, str | list[str]] = {
        f"mem0.{name}"[:_MAX_TAG_CHARS]: str(value)[:_MAX_TAG_CHARS]
        for name, value in list(found.items())[: _MAX_TAGS - 1]
        if isinstance(value, str | int | float)
    }
    if categories := _list_tags(entry.get("categories")):
        tags["mem0.categories"] = categories
    kind = "user_profile" if entry.get("user_id") else "strategy"
    return Note(str(entry.get("id") or text), "", text, kind, tags, read_time(entry.get("created_at")))
