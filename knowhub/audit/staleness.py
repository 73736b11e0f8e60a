"""Records whose time is over, and records that nothing speaks for."""

from collections.abc import Mapping
from typing import Any

from knowhub.core.clock import parse_iso
from knowhub.knowledge.model import DEFAULT_SCORE
from knowhub.knowledge.ranking import quality

_DAY_S = 86_400.0
_FRESH_HELPFUL = 1


def stale_reasons(row: Mapping[str, Any], superseder: str | None, now: float, stale_days: float) -> dict[str, Any]:
    """Return why a record is stale, by name, with what shows it; empty when it is not.

    `expired`: its `valid_to` is over. `superseded`: a live record replaces it. `bad_evidence`: its quality is below
    0, or its score below 3 with a harmful case. `untouched`: nothing changed it for `stale_days`.
    """
    evaluation = row["eval"]
    score, helpful, harmful = evaluation["score"], evaluation["helpful"], evaluation["harmful"]
    reasons: dict[str, Any] = {}
    if row["valid_to"] is not None and parse_iso(row["valid_to"]) <= now:
        reasons["expired"] = {"valid_to": row["valid_to"]}
    if superseder is not None:
        reasons["superseded"] = {"by": superseder}
    if quality(score, helpful, harmful) < 0 or (score < DEFAULT_SCORE and harmful > 0):
        reasons["bad_evidence"] = {"score": score, "helpful": helpful, "harmful": harmful}
    days = (now - parse_iso(row["updated_at"])) / _DAY_S
    if days >= stale_days:
        reasons["untouched"] = {"updated_at": row["updated_at"], "days": int(days)}
    return reasons


def never_found(row: Mapping[str, Any], last_shown: float | None, now: float, stale_days: float) -> dict[str, Any]:
    """Return what shows that a record was never of use; empty when it was, or is younger than `stale_days`.

    Never of use is: evidence as on the day when it was saved, and shown by no search that is remembered.
    """
    evaluation = row["eval"]
    days = (now - parse_iso(row["created_at"])) / _DAY_S
    is_fresh = evaluation["helpful"] <= _FRESH_HELPFUL and evaluation["harmful"] == 0
    has_cases = evaluation["helpful_history"] or evaluation["harmful_history"]
    if days < stale_days or not is_fresh or has_cases or last_shown is not None:
        return {}
    return {"created_at": row["created_at"], "days": int(days), "votes": 0}
