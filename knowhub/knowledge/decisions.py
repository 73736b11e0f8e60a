"""Rows in, rows out: what saving, editing and feedback do to a record, with no store and no clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core import clock, permissions, scopes
from knowhub.core.erasing import EraseRules
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Row, Write, next_of, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import RowRules
from knowhub.knowledge import heads, ranking
from knowhub.knowledge.model import (
    COLLECTION,
    DEFAULT_SCORE,
    HISTORY_SHOWN,
    Feedback,
    ImportedKnowledge,
    NewKnowledge,
)

_FRESH_EVALUATION = {"helpful": 1, "harmful": 0, "confidence": 0.5, "helpful_history": [], "harmful_history": []}
_SOURCE_FIELDS = ("name", "category", "urls", "agent_id", "submitted_by", "timestamp", "message_id", "trace_id")
_CONFIDENCE_DIGITS = 6


def new_row(new: NewKnowledge, row_id: str, now: float, ctx: RequestContext) -> dict[str, Any]:
    """Make the row of a fresh record (seed 003 字段说明; evaluation of seed 004, C-03)."""
    moment = clock.iso(now)
    return _row(new, row_id, moment, ctx) | {
        "eval": {"score": new.score, **_FRESH_EVALUATION},
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def imported_row(line: ImportedKnowledge, row_id: str, before: Row | None, now: float, ctx: RequestContext) -> Row:
    """Make the row of an imported line: it keeps evidence and time of creation, its version goes on rising."""
    moment = clock.iso(now)
    evaluation = {"score": line.record.score or DEFAULT_SCORE, **_FRESH_EVALUATION, **line.evaluation}
    return _row(line.record, row_id, moment, ctx) | {
        "eval": evaluation,
        "version": next_version(before),
        "created_at": line.created_at or moment,
        "updated_at": moment,
    }


def patched(row: Row, patch: Mapping[str, Any], now: float) -> Row | None:
    """Return `row` with the fields of `patch`, or None when that changes nothing.

    A source is patched field by field. Raises InvalidInput when what would stand there says nothing, or ends
    before it begins.
    """
    changed = {**row, **patch}
    if "source" in patch:
        changed["source"] = _with_defaults({**row["source"], **patch["source"]}, row["created_at"])
        changed["message_id"] = changed["source"]["message_id"]
    if "types" in patch:
        changed["type"] = patch["types"][0]
    if "scopes" in patch and list(patch["scopes"]) != list(row["scopes"]):
        changed["visibility"] = scopes.derived_visibility(patch["scopes"])
    if changed == row:
        return None
    check_says_something(changed["task"], changed["content"])
    check_validity(changed["valid_from"], changed["valid_to"])
    return next_of(changed, row, now)


def with_feedback(row: Row, feedback: Feedback, now: float) -> Row:
    """Return `row` with evidence added (KM-070…072); histories show the last 50 cases, the log has all."""
    evaluation = dict(row["eval"])
    for kind, case in (("helpful", feedback.helpful_case), ("harmful", feedback.harmful_case)):
        if case is not None:
            evaluation[kind] += 1
            if "effective" in evaluation:
                evaluation["effective"] = {**evaluation["effective"], kind: evaluation["effective"][kind] + 1}
            history = [*evaluation[f"{kind}_history"], _dated(case, now)]
            evaluation[f"{kind}_history"] = history[-HISTORY_SHOWN:]
    if feedback.score is not None:
        evaluation["score"] = feedback.score
    evaluation["confidence"] = shifted_confidence(row["eval"], evaluation)
    if evaluation == row["eval"]:
        return row
    return next_of({**row, "eval": evaluation}, row, now)


def with_content(row: Row, content: str, before: Row, now: float) -> Row:
    """Return `row` with another content, as the version after `before`. Raises InvalidInput as `patched` does."""
    check_says_something(row["task"], content)
    return next_of({**row, "content": content}, before, now)


def deleted(row: Row, now: float) -> Row:
    """Return the tombstone of a row: its content stays, so that a delete can be undone."""
    return next_of({**row, "deleted": True}, row, now)


def write(row: Row) -> Write:
    """Say that a record shall stand as `row`."""
    return Write(COLLECTION, row["id"], row)


def check_says_something(task: str, content: str) -> None:
    """Raise InvalidInput when both task and content are blank."""
    if not task.strip() and not content.strip():
        raise InvalidInput.of("content", "task and content are both blank; one of them must say something")


def check_validity(valid_from: str | None, valid_to: str | None) -> None:
    """Raise InvalidInput when a record would stop being valid before it begins to be."""
    if valid_from and valid_to and clock.parse_iso(valid_to) <= clock.parse_iso(valid_from):
        raise InvalidInput.of("valid_to", "must be later than valid_from")


def shifted_confidence(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Move the confidence as the evidence moved; an imported figure keeps its lead and stays within 0 and 1."""
    was = ranking.confidence(before["helpful"], before["harmful"])
    now_is = ranking.confidence(after["helpful"], after["harmful"])
    current = float(before["confidence"])
    if now_is > was:
        current += (1 - current) * (now_is - was) / (1 - was)
    elif now_is < was:
        current *= now_is / was
    else:
        return current
    return round(current, _CONFIDENCE_DIGITS)


def _row(new: NewKnowledge, row_id: str, moment: str, ctx: RequestContext) -> dict[str, Any]:
    check_says_something(new.task, new.content)
    check_validity(new.valid_from, new.valid_to)
    own_scopes = list(dict.fromkeys(new.scopes or ctx.default_scopes))
    permissions.check_scopes(ctx, own_scopes)
    message_id = new.message_id or new.source.get("message_id") or None
    source = {name: new.source.get(name) for name in _SOURCE_FIELDS} | {"message_id": message_id}
    return {
        "id": row_id,
        "message_id": message_id,
        "types": list(dict.fromkeys(new.types)),
        "type": new.types[0],
        "task": new.task,
        "content": new.content,
        "tags": dict(new.tags),
        "scopes": own_scopes,
        "owner": permissions.owner_for(ctx, new.owner, "a record"),
        "visibility": new.visibility or scopes.derived_visibility(own_scopes),
        "resource_ids": list(dict.fromkeys(new.resource_ids)),
        "source": _with_defaults(source, moment),
        "valid_from": new.valid_from,
        "valid_to": new.valid_to,
        "supersedes": new.supersedes,
    }


def _with_defaults(source: Mapping[str, Any], moment: str) -> dict[str, Any]:
    return {
        **source,
        "category": source["category"] or "exp",
        "urls": list(source["urls"] or ()),
        "timestamp": source["timestamp"] or moment,
    }


def _dated(case: Mapping[str, Any], now: float) -> dict[str, Any]:
    return {**case, "timestamp": case.get("timestamp") or clock.iso(now)}


def _settle(before: Mapping[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    evaluation = dict(after["eval"])
    evaluation["confidence"] = shifted_confidence(before["eval"], evaluation)
    return {**after, "eval": evaluation}


def _check_row(row: Mapping[str, Any]) -> None:
    check_says_something(row["task"], row["content"])
    check_validity(row["valid_from"], row["valid_to"])


def _references(row: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    return [(COLLECTION, row["supersedes"])] if row.get("supersedes") else []


UNDO_RULES = RowRules(
    counters=frozenset(
        {(*above, kind) for above in (("eval",), ("eval", "effective")) for kind in ("helpful", "harmful")}
    ),
    logs=frozenset({("eval", "helpful_history"), ("eval", "harmful_history")}),
    settled=frozenset({("eval", "confidence")}),
    settle=_settle,
    check=_check_row,
    references=lambda row: list(_references(row)),
    joined="merged_into",
    names=("supersedes", "merged_into"),
)

ERASE_RULES = EraseRules(
    noun="knowledge",
    kept=frozenset(
        {
            *("id", "types", "type", "scopes", "owner", "visibility", "merged_into"),
            *("version", "created_at", "updated_at", "deleted"),
        }
    ),
    blanks={
        "message_id": None,
        "task": "",
        "content": "",
        "tags": {},
        "resource_ids": [],
        "source": {name: None for name in _SOURCE_FIELDS if name not in ("category", "urls", "timestamp")}
        | {"category": "", "urls": [], "timestamp": ""},
        "valid_from": None,
        "valid_to": None,
        "supersedes": None,
        "eval": {
            "score": 0,
            "helpful": 0,
            "harmful": 0,
            "confidence": 0.0,
            "helpful_history": [],
            "harmful_history": [],
        },
    },
    spare=("source", "resource_ids", "message_id"),
    # A diff holds the content line by line; what is said of a change, of a failure, or of why records stay apart may
    # quote it.
    told=frozenset({"diff", "detail", "reason"}),
    joined="merged_into",
    says=lambda row: row["content"] if row["content"].strip() else row["task"],
    twins=lambda view, row: [head.id for head in view.duplicates(heads.duplicate_key(row))],
)
