"""What a model answers to the question `memory_changes`, and what the question showed it."""

import re
from typing import Any

from knowhub.core.language_models import ChatRequest


def make_change(statement: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    """Return the addition of a preference that the first message supports."""
    change = {"action": "add", "category": "preferences", "evidence": ["m1"], "memory": None, "date": None}
    return {**change, "statement": statement, **fields}


def read_shown(question: ChatRequest, kind: str) -> list[str]:
    """Return the lines of messages (`m`) or memories (`k`) that a model was shown, without their tags."""
    return re.findall(rf"^\[{kind}\d+\] (?:\(\w+\) )?(.*)$", question.messages[1]["content"], re.MULTILINE)
