"""What each commit brought into a memory that grows, and such a memory without what one of them brought (G-17).

A statement that two commits told stands once: it goes with the last of them, and until then has one's source that
stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from knowhub.context import uri
from knowhub.context.commit import blocks, layers, relation_writer, tool_texts
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.wording import plain
from knowhub.context.model import GROWTH, Category, MemoryContext
from knowhub.context.spaces import session_uri
from knowhub.core.operation import Change, Row, is_live
from knowhub.core.row_paths import changed_paths, flatten

MAX_ENTRIES: Final = 200
_COUNTED: Final = frozenset({Category.SKILLS, Category.TOOLS})
_GATHERED: Final = frozenset({Category.PROFILE, Category.PREFERENCES, Category.ENTITIES, Category.PATTERNS})
_TOLD: Final = frozenset({Category.EVENTS, Category.CASES})
_SUMMED: Final = ("abstract", "overview")
_LISTS: Final = ("source_refs", "message_ids")
_STATS: Final = ("calls", "success", "failure", "total_seconds")
_HASH_DIGITS: Final = 12

Entry: TypeAlias = Mapping[str, Any]


def noted(before: Sequence[Entry], candidate: CandidateMemory, whose: MemoryContext, named: str) -> dict[str, Any]:
    """Return the field of the metadata that says what a candidate brings; nothing for what does not grow so."""
    if candidate.category in _COUNTED:
        lines = [_hashed(line) for line in tool_texts.notes_of(candidate)]
    elif candidate.category in _GATHERED or candidate.category in _TOLD:
        lines = [_hashed(plain(candidate.content))]
    else:
        return {}
    moment = candidate.facts.get("noted_at")
    used = [at for at in (use.get("at") or moment for use in candidate.facts.get("uses", ())) if at]
    entry = {
        "session": session_uri(whose),
        "named": uri.segment(named) if named else "",
        "said_at": candidate.facts.get("said_at"),
        "confidence": candidate.confidence,
        "by": candidate.by,
        "lines": list(dict.fromkeys(lines)),
    }
    return {GROWTH: [*before, entry | ({"used_at": max(used)} if used else {})][-MAX_ENTRIES:]}


def parted(change: Change, current: Row) -> Row | None:
    """Return a row as it stands without what a change brought, where others only brought more since; None elsewhere."""
    before = change.before if change.before is not None and is_live(change.before) else None
    after: Row | None = change.after if is_live(change.after) else None
    if not is_live(current) or not changed_paths(flatten(change.after), flatten(current)):
        return None
    old, new = _entries(before), _entries(after)
    gone, back = _less(new, old), _less(old, new)
    if not (gone or back) or not _entries(current):
        return None
    remaining = [*_less(_entries(current), gone), *back]
    told = {line for entry in remaining for line in entry["lines"]}
    dropped = [line for entry in gone for line in entry["lines"] if line not in told]
    if current.get("category") in _COUNTED:
        fields = _recounted(before, after, current, remaining, dropped)
    elif current.get("category") in _TOLD:
        fields = _retold(before, after, current, dropped)
    else:
        fields = _regathered(before, after, current, remaining, dropped)
    if fields is None:
        return None
    row = {**current, **fields}
    row["metadata"] = {**row["metadata"], **_derived(before, after, current, remaining)}
    row["relations"] = _relations(before, after, row, remaining)
    return row


def last_used(entries: Iterable[Entry]) -> str | None:
    """Return when a tool was last used, as these say."""
    return max((entry["used_at"] for entry in entries if entry.get("used_at")), default=None)


def _recounted(
    before: Row | None, after: Row | None, current: Row, remaining: Sequence[Entry], dropped: Sequence[str]
) -> dict[str, Any] | None:
    """Return layers and metadata of a skill or tool of which calls are not counted any more."""
    now = dict(_stats(current))
    is_skill = current["category"] == Category.SKILLS
    read = _read(current)
    if read is None or _layers_of(current) != tool_texts.rendered(*read, now, is_skill=is_skill):
        # Somebody has written into it since.
        return None
    name, notes = read
    for field in _STATS:
        now[field] = round(now[field] - _stats(after).get(field, 0) + _stats(before).get(field, 0), 6)
    now["last_used"] = last_used(remaining)
    kept = [note for note in notes if _hashed(note) not in dropped]
    earlier, later = (set((_read(one) or ("", []))[1]) for one in (before, after))
    kept += sorted(earlier - later - set(kept))
    metadata = {**current["metadata"], "stats": now}
    if now["calls"] <= 0:
        return {"metadata": metadata, "deleted": True}
    return {**tool_texts.rendered(name, kept, now, is_skill=is_skill), "metadata": metadata}


def _regathered(
    before: Row | None, after: Row | None, current: Row, remaining: Sequence[Entry], dropped: Sequence[str]
) -> dict[str, Any] | None:
    """Return layers and metadata of a topic from which statements are taken, or into which they come back."""
    if _layers_of(current) != layers.gathered(current["content"]):
        return None
    content = str(current["content"])
    for line in dropped:
        standing = _standing(content, line)
        if standing is None:
            # It was replaced, or somebody has taken it out.
            return None
        content = blocks.without(content, standing)
    earlier = _content(before)
    for one in blocks.blocks(earlier):
        line = _hashed(plain(one.text))
        if _standing(_content(after), line) is None and _standing(content, line) is None:
            content = blocks.added(content, blocks.written(earlier, one), blocks.topic_of(earlier, one))
    content = _resourced(content, remaining)
    metadata = {**current["metadata"], **_values(before, after, {**current, "content": content}, remaining)}
    if blocks.is_bare(content):
        return {"metadata": metadata, "deleted": True}
    return {**layers.gathered(content), "metadata": metadata}


def _retold(before: Row | None, after: Row | None, current: Row, dropped: Sequence[str]) -> dict[str, Any] | None:
    """Return the layers of an event or a case without sections of it, or with those that come back in their places."""
    sections = _sections(current)
    told = [_hashed(plain(one)) for one in sections]
    earlier, later = _sections(before), _sections(after)
    if not set(dropped) <= set(told):
        # Somebody has written into it since.
        return None
    kept = [one for one, line in zip(sections, told, strict=True) if line not in dropped]
    back = [one for one in earlier if one not in later and one not in kept]
    if not kept and not back:
        return {"deleted": True, "metadata": current["metadata"]}
    stand = [*(one for one in earlier if one in kept or one in back), *(one for one in kept if one not in earlier)]
    if stand[0] == sections[0]:
        # What it is about is what the first section says.
        return {"content": layers.SECTION.join(stand), "metadata": current["metadata"]}
    by_rules = layers.layers_of(Category(current["category"]), current["content"])
    if _layers_of(current) != by_rules and any(current[name] != (after or {}).get(name) for name in _SUMMED):
        return None
    content = layers.SECTION.join(stand)
    made = layers.layers_of(Category(current["category"]), content)
    if before is not None and stand[0] == earlier[0]:
        made = {**made, **{name: before[name] for name in _SUMMED}}
    return {**made, "metadata": current["metadata"]}


def _sections(row: Row | None) -> list[str]:
    content = _content(row)
    return content.split(layers.SECTION) if content else []


def _resourced(content: str, remaining: Sequence[Entry]) -> str:
    """Give each statement the source of a commit that stays."""
    sources: dict[str, list[tuple[str, str]]] = {}
    for entry in remaining:
        for line in entry["lines"]:
            sources.setdefault(line, []).append(((entry["said_at"] or "")[:10], entry["named"]))
    for line, known in sources.items():
        one = _standing(content, line)
        if one is not None and (one.date, one.session) not in known:
            content = blocks.resourced(content, one, *known[0])
    return content


def _values(before: Row | None, after: Row | None, current: Row, remaining: Sequence[Entry]) -> dict[str, Any]:
    """Return what a person has but one of, as far as the statement that says so stands."""
    if "values" not in current["metadata"]:
        return {}
    old, new = _metadata(before).get("values", {}), _metadata(after).get("values", {})
    values, content = dict(current["metadata"]["values"]), str(current["content"])
    for name in {**old, **new}:
        if old.get(name) != new.get(name) and values.get(name) == new.get(name):
            # What was there before comes back where its statement stands.
            told = (one for one in (new.get(name), old.get(name)) if one)
            stands = next((one for one in told if _standing(content, _hashed(plain(one["text"])))), None)
            values.pop(name, None)
            if stands is not None:
                values[name] = {**stands, "said_at": _said_at(stands, remaining)}
    return {"values": values}


def _said_at(value: Mapping[str, str], remaining: Sequence[Entry]) -> str:
    line = _hashed(plain(value["text"]))
    known = [entry["said_at"] or "" for entry in remaining if line in entry["lines"]]
    return value["said_at"] if not known or value["said_at"] in known else known[0]


def _derived(before: Row | None, after: Row | None, current: Row, remaining: Sequence[Entry]) -> dict[str, Any]:
    old, new, now = _metadata(before), _metadata(after), current["metadata"]
    lists = {
        name: [*_less(now.get(name, ()), gone), *_less(_less(old.get(name, ()), new.get(name, ())), now.get(name, ()))]
        for name in _LISTS
        for gone in [_less(new.get(name, ()), old.get(name, ()))]
    }
    sessions = {_name(entry["session"]) for entry in remaining}
    known = dict.fromkeys([*now.get("sessions", ()), *old.get("sessions", ())])
    gone = set(_less(new.get("sessions", ()), old.get("sessions", ())))
    said = [entry["said_at"] for entry in remaining if entry["said_at"]]
    return {
        **lists,
        "sessions": [one for one in known if one not in gone or uri.segment(one) in sessions],
        "said_at": max(said, default=None),
        "confidence": max((entry["confidence"] for entry in remaining), default=now.get("confidence", 0.0)),
        "by": remaining[-1]["by"] if remaining else now.get("by"),
        GROWTH: list(remaining),
    }


def _relations(before: Row | None, after: Row | None, row: Row, remaining: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return the edges less those of the change that nothing else bears, and those that it took away."""
    old, new = (_by_target(one) for one in (before, after))
    sessions = {entry["session"] for entry in remaining}
    text = str(row["content"])
    kept: dict[tuple[str, str], Mapping[str, Any]] = {}
    for key, edge in _by_target(row).items():
        target, kind = key
        is_own = key in new and key not in old and new[key] == edge
        named = relation_writer.named([(target, unquote(_name(target)))]) if kind == relation_writer.MENTIONS else []
        if not is_own or target in sessions or relation_writer.mentions(row["id"], text, named):
            kept[key] = edge
    back = {key: edge for key, edge in old.items() if key not in new and key not in kept}
    return list({**kept, **back}.values())


def _read(row: Row | None) -> tuple[str, list[str]] | None:
    """Return name and notes of a skill or a tool; None where its content is not as they make it."""
    if row is None:
        return None
    return tool_texts.read(row["content"], _stats(row), is_skill=row["category"] == Category.SKILLS)


def _content(row: Row | None) -> str:
    return "" if row is None else str(row["content"])


def _standing(content: str, line: str) -> blocks.Block | None:
    return next((one for one in blocks.blocks(content) if _hashed(plain(one.text)) == line), None)


def _entries(row: Row | None) -> list[Entry]:
    return list(_metadata(row).get(GROWTH, ()))


def _metadata(row: Row | None) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = (row or {}).get("metadata") or {}
    return metadata


def _stats(row: Row | None) -> Mapping[str, Any]:
    stats: Mapping[str, Any] = _metadata(row).get("stats") or {}
    return stats


def _layers_of(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("abstract", "overview", "content")}


def _by_target(row: Row | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(edge["to_uri"], edge["relation_type"]): edge for edge in (row or {}).get("relations", ())}


def _less(some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return the first without the second, each as often as it is more there."""
    rest, left = list(others), []
    for one in some:
        if one in rest:
            rest.remove(one)
        else:
            left.append(one)
    return left


def _name(address: str) -> str:
    return address.rpartition("/")[2]


def _hashed(text: str) -> str:
    return uri.stable_hash(text)[:_HASH_DIGITS]
