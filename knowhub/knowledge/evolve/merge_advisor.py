"""Asks a model which records say the same in other words, and checks its merged text for lost facts."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core.language_models import ChatFailed, ChatModel, ModelUnavailable
from knowhub.core.model_calls import ModelConversation, NumberedChoices, list_pointers
from knowhub.core.near_duplicates import share_contained, words
from knowhub.core.operation import Row
from knowhub.knowledge.evolve import prompts
from knowhub.knowledge.evolve.slim_plan import Merge, MergeReason, RecordRef, join_text
from knowhub.knowledge.facts import find_missing_facts

MAX_GROUPS = 100
_MAX_CHARS = 20_000
_FACTS_NAMED = 5
# A merged text has at least this share of the words of each record.
_MIN_KEPT = 0.3


class MergeAdvisor:
    """Asks about one group of records after another. Each question has its own budget; a failure never raises."""

    def __init__(self, chat: ChatModel | None, budget_s: float) -> None:
        self.chat = chat
        self._budget_s = budget_s
        self.groups = 0
        self.merges: list[Merge] = []
        self.skipped: list[dict[str, Any]] = []
        self.calls: list[Row] = []
        self.has_failed = False
        self.is_done = False

    async def ask(self, chat: ChatModel, group: Sequence[tuple[RecordRef, Row]]) -> None:
        """Ask whether the records of a group can be merged; add the merge, or the reason against it."""
        self.groups += 1
        self.is_done = self.groups >= MAX_GROUPS
        choices = NumberedChoices([ref.id for ref, _ in group])
        question = prompts.make_merge_question([(row["task"], row["content"]) for _, row in group])
        conversation = ModelConversation(chat, self._budget_s)
        try:
            same, text = await conversation.ask(question, choices.by_idx, lambda answer: parse_advice(answer, choices))
        except ChatFailed as failed:
            self.has_failed = True
            # An unavailable model is not asked about the other groups.
            self.is_done |= isinstance(failed, ModelUnavailable)
            self.skipped.append(make_skipped([ref.id for ref, _ in group], f"the language model failed: {failed}"))
        else:
            self._add_merge([(ref, row) for ref, row in group if ref.id in same], text, conversation.calls)
        self.calls += conversation.calls

    def _add_merge(self, chosen: Sequence[tuple[RecordRef, Row]], text: tuple[str, str], calls: Sequence[Row]) -> None:
        if len(chosen) < 2:  # noqa: PLR2004 -- one record alone is not merged
            return
        before, after = [join_text(row) for _, row in chosen], "\n".join(text)
        lost = find_missing_facts(before, after) or [
            f"most of {ref.id}"
            for (ref, _), old in zip(chosen, before, strict=True)
            if share_contained(words(old), words(after)) < _MIN_KEPT
        ]
        if lost:
            reason = f"the model's text leaves out {', '.join(lost[:_FACTS_NAMED])}"
            self.skipped.append(make_skipped([ref.id for ref, _ in chosen], reason))
            return
        into, *sources = [ref for ref, _ in chosen]
        self.merges.append(Merge(into, sources, MergeReason.MODEL, None, text, calls))


def make_skipped(ids: Sequence[str], reason: str) -> dict[str, Any]:
    """Return the report on records that are not merged."""
    return {"ids": list(ids), "reason": reason}


def parse_advice(answer: Mapping[str, Any], choices: NumberedChoices) -> tuple[tuple[str, ...], tuple[str, str]] | None:
    """Return the records to merge, and their task and content.

    None for an answer that no record can hold, or that would merge with a record that was not shown only.
    """
    if not isinstance(answer.get("same"), list):
        return None
    named = list_pointers(answer["same"])
    same = choices.pick_all(named)
    if len(same) < 2:  # noqa: PLR2004 -- one record alone is not merged
        return None if any(choices.pick(item) is None for item in named) else ((), ("", ""))
    task, content = answer.get("task"), answer.get("content")
    if not isinstance(task, str) or not isinstance(content, str) or not content.strip():
        return None
    return (same, (task, content)) if prompts.can_store(task + content, _MAX_CHARS) else None
