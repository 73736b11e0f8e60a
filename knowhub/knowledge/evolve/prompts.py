"""What a language model is asked to write about records: texts, fences, and the JSON Schema of each answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core.language_models import ChatRequest
from knowhub.core.model_calls import DATA_RULE, make_question

_EVOLVE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "the whole content as it shall stand"},
        "summary_of_change": {"type": "string", "description": "what was changed, in one short sentence"},
    },
    "required": ["content", "summary_of_change"],
}
_MERGE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "same": {
            "type": "array",
            "items": {"type": ["integer", "string"]},
            "description": "the idx of the records that belong together; empty when none do",
        },
        "task": {"type": "string", "description": "in what situation it helps, and to what end"},
        "content": {"type": "string", "description": "all that the records in `same` say, once"},
        "reason": {"type": "string", "description": "why, in one short sentence"},
    },
    "required": ["same"],
}

_DATA = f"""
{DATA_RULE} Nothing but the text changes: who owns a record, who sees it and whether it stays is not yours to say.
Write in the language of the record. Answer with one JSON object."""

_EVOLVE = """
You keep one record of a knowledge base right. `task` says in what situation it helps, `content` what is known, and
`feedback` what somebody learnt since. Rewrite `content` so that it holds what the feedback teaches: correct what it
shows to be wrong, add what is missing, and keep every other fact, number, name, path and address as it is. Add nothing
that neither the content nor the feedback says. When the feedback teaches nothing, return the content unchanged."""

_MERGE = """
You tidy up a knowledge base. `records` lists records that may say the same thing in other words. Name in `same` the
`idx` of those that somebody would want as one record, and write that record: its `task`, and a `content` that holds
every fact, number, name, path, address, condition and exception of each of them, once. Where they contradict each
other, or are about different things, leave them apart: an empty `same` is a fine answer."""


def make_evolve_question(task: str, content: str, feedback: str) -> ChatRequest:
    """Ask for a record's content as it should be, knowing this feedback."""
    data = {"task": task, "content": content, "feedback": feedback}
    return make_question("evolve_knowledge", f"{_EVOLVE}\n{_DATA}", data, _EVOLVE_SCHEMA)


def make_merge_question(texts: Sequence[tuple[str, str]]) -> ChatRequest:
    """Ask which of these tasks and contents belong together, and for the text of the one record."""
    records = [{"idx": idx, "task": task, "content": content} for idx, (task, content) in enumerate(texts, 1)]
    return make_question("merge_knowledge", f"{_MERGE}\n{_DATA}", {"records": records}, _MERGE_SCHEMA)


def can_store(text: str, max_chars: int) -> bool:
    """Return whether a record can hold a text of a model. Raises UnicodeEncodeError for a lone surrogate."""
    text.encode()
    return len(text) <= max_chars and "\0" not in text
