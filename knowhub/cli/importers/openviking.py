"""Packs of OpenViking (`.ovpack`): an archive with a manifest, of the format version 2 in both of its layouts."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from knowhub.cli.importers.model import Conversation, Item, Note, get_object, list_objects, read_time
from knowhub.cli.importers.notes import MAX_NOTE_BYTES, find_title
from knowhub.cli.importers.source import ImportSource, SourceFile
from knowhub.conversations.messages import Message
from knowhub.core.errors import InvalidInput
from knowhub.web.hooks.hosts import get_text
from knowhub.web.hooks.transcripts import clean_message, parse_entry

_VERSION: Final = 2
_KIND: Final = "openviking.ovpack"
_MANIFESTS: Final = ("_ovpack/manifest.json", "_._ovpack_manifest.json")
_INTERNAL: Final = ("_ovpack/", "_._ovpack/", "_._ovpack_manifest.json")
_FIELDS: Final = "<!-- MEMORY_FIELDS"
_HISTORY: Final = "<!-- VERSION_HISTORY"
_TYPES: Final = {
    "preferences": "user_profile",
    "profile": "user_profile",
    "cases": "usecase",
    "patterns": "strategy",
    "skills": "tool",
    "tools": "tool",
}


def read_openviking(source: ImportSource) -> Iterator[Item]:
    """Yield the texts and sessions of a pack. Summaries that OpenViking derived from them are left out.

    Raises InvalidInput for a pack without a manifest, of another version, or whose files are not as its manifest says.
    """
    listed = source.list_files(".md", ".json", ".jsonl", hidden=True)
    # Usually all files of a pack are below one folder.
    is_flat = any(file.name in _MANIFESTS for file in listed)
    files = {file.name if is_flat else file.name.partition("/")[2]: file for file in listed}
    manifest = _read_manifest(files)
    root = str(get_object(manifest.get("root")).get("uri") or "").rstrip("/")
    entries = {str(entry.get("path")): entry for entry in list_objects(manifest.get("entries"))}
    contents = {_restore_path(path): file for path, file in files.items() if not path.startswith(_INTERNAL)}
    lost = [path for path, entry in entries.items() if entry.get("kind") == "file" and path.endswith(".md")]
    for path in lost:
        if path not in contents:
            raise InvalidInput(f"the pack lacks {path}, which its manifest names; nothing was imported")
    for path, file in contents.items():
        if path.rpartition("/")[2].startswith("."):
            source.left_out["summaries and other files that OpenViking derived"] += 1
        elif path.endswith("messages.jsonl"):
            yield from _read_session(file, f"{root}/{path}", source)
        elif not path.endswith(".md") or file.size > MAX_NOTE_BYTES:
            source.left_out["files that are no notes, or over 2 MiB"] += 1
        else:
            yield _read_note(path, f"{root}/{path}", file, get_object(entries.get(path)))


def _read_manifest(files: Mapping[str, SourceFile]) -> Mapping[str, Any]:
    found = next((files[name] for name in _MANIFESTS if name in files), None)
    if found is None:
        raise InvalidInput("the pack has no manifest; export it again with OpenViking 0.3 or newer")
    try:
        manifest = get_object(json.loads(found.read()))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{found.name} is no JSON: {error}") from error
    version = manifest.get("format_version", manifest.get("version"))
    if manifest.get("kind") != _KIND or version != _VERSION:
        raise InvalidInput(
            f"the pack is of the kind {str(manifest.get('kind'))[:40]!r}, version {str(version)[:40]}; "
            f"version {_VERSION} of {_KIND!r} can be read; nothing was imported"
        )
    return manifest


def _restore_path(path: str) -> str:
    """Return the path in OpenViking: below `files/`, or with `_._` in place of the dot of hidden names."""
    if path.startswith("files/"):
        return path.removeprefix("files/")
    return "/".join(f".{part[3:]}" if part.startswith("_._") else part for part in path.split("/"))


def _read_note(path: str, uri: str, file: SourceFile, entry: Mapping[str, Any]) -> Note:
    data = file.read()
    if entry.get("sha256") not in {None, hashlib.sha256(data).hexdigest()}:
        raise InvalidInput(f"{path} is not as the manifest of its pack says; nothing was imported")
    text, _, rest = data.decode("utf-8-sig", "replace").partition(_FIELDS)
    fields = _parse_fields(rest)
    kind = next((name for part in reversed(uri.split("/")) if (name := _TYPES.get(part))), "definition")
    created = read_time(fields.get("created_at")) or read_time(fields.get("updated_at"))
    title = find_title(text) or file.path.stem
    return Note(uri, title, text.partition(_HISTORY)[0].strip(), kind, {"path": uri[:200]}, created)


def _parse_fields(text: str) -> Mapping[str, Any]:
    try:
        return get_object(json.loads(text.partition("-->")[0]))
    except (ValueError, RecursionError):
        return {}


def _read_session(file: SourceFile, uri: str, source: ImportSource) -> Iterator[Conversation]:
    messages: list[Message] = []
    for _, line in file.iterate_lines():
        entry = parse_entry(line) or {}
        parts = list_objects(entry.get("parts"))
        text = "\n".join(str(part.get("text")) for part in parts if part.get("type") == "text")
        said_at = read_time(entry.get("created_at"))
        message = Message(
            str(entry.get("role")), text or str(entry.get("content") or ""), "", get_text(entry, "id"), said_at
        )
        cleaned = clean_message(message, source.left_out)
        if cleaned is not None and (cleaned.is_user or cleaned.is_agent):
            messages.append(cleaned)
        else:
            source.left_out["messages without text"] += 1
    if messages:
        yield Conversation(f"openviking-{uri.split('/')[-2]}", messages)
