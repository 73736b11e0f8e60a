"""A model's part in slimming: which records say the same in other words, and what the one record says (KM-081)."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed, ChatModel, NotAsked
from knowhub.core.choices import Choices, pointed_at
from knowhub.core.operation import Row
from knowhub.knowledge import prompts
from knowhub.knowledge.slim_losses import lost_facts
from knowhub.knowledge.slim_plan import How, Merge, Ref, whole

MAX_FAMILIES = 100
_MAX_CHARS = 20_000
_FACTS_NAMED = 5


class Asker:
    """Asks about one family of records after another, each with a budget of its own; nothing that fails raises."""

    def __init__(self, chat: ChatModel, budget_s: float) -> None:
        self._chat = chat
        self._budget_s = budget_s
        self.families = 0
        self.merges: list[Merge] = []
        self.skipped: list[dict[str, Any]] = []
        self.calls: list[Row] = []
        self.has_failed = False
        self.is_done = False

    async def ask(self, family: Sequence[tuple[Ref, Row]]) -> None:
        """Ask whether records are one, and note what is to be merged, or why they stay apart."""
        self.families += 1
        self.is_done = self.families >= MAX_FAMILIES
        choices = Choices([ref.id for ref, _ in family])
        question = prompts.merge([(row["task"], row["content"]) for _, row in family])
        asking = Asking(self._chat, self._budget_s)
        try:
            same, text = await asking.ask(question, choices.by_idx, lambda answer: read(answer, choices))
        except ChatFailed as failed:
            self.has_failed = True
            # A model that is left alone at present need not be tried for each of the others.
            self.is_done |= isinstance(failed, NotAsked)
            self.skipped.append(left_apart([ref.id for ref, _ in family], f"the language model failed: {failed}"))
        else:
            self._note([(ref, row) for ref, row in family if ref.id in same], text, asking.calls)
        self.calls += asking.calls

    def _note(self, chosen: Sequence[tuple[Ref, Row]], text: tuple[str, str], calls: Sequence[Row]) -> None:
        if len(chosen) < 2:  # noqa: PLR2004 -- one record alone is not merged
            return
        lost = lost_facts([whole(row) for _, row in chosen], "\n".join(text))
        if lost:
            reason = f"the model's text leaves out {', '.join(lost[:_FACTS_NAMED])}"
            self.skipped.append(left_apart([ref.id for ref, _ in chosen], reason))
            return
        into, *sources = [ref for ref, _ in chosen]
        self.merges.append(Merge(into, sources, How.MODEL, None, text, calls))


def left_apart(ids: Sequence[str], reason: str) -> dict[str, Any]:
    """Name records that stay as they are, and say why."""
    return {"ids": list(ids), "reason": reason}


def read(answer: Mapping[str, Any], choices: Choices) -> tuple[tuple[str, ...], tuple[str, str]] | None:
    """Return which records are one and its task and content; None for an answer that no record can be."""
    if not isinstance(answer.get("same"), list):
        return None
    same = choices.pick_all(pointed_at(answer["same"]))
    if len(same) < 2:  # noqa: PLR2004 -- one record alone is not merged
        return (), ("", "")
    task, content = answer.get("task"), answer.get("content")
    if not isinstance(task, str) or not isinstance(content, str) or not content.strip():
        return None
    if len(task) + len(content) > _MAX_CHARS or "\0" in task + content:
        return None
    # A lone half of a surrogate pair is text that no file can hold: such an answer raises here.
    (task + content).encode()
    return same, (task, content)
