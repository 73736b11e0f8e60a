"""A model's candidates read without trusting them: each item alone, so that a bad one costs nothing but itself."""

from collections.abc import Mapping
from typing import Any, Final

from knowhub.core import citing
from knowhub.core.choices import Choices, short_text
from knowhub.core.messages import Message
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Candidate, Category, Rejected
from knowhub.knowledge.model import KnowledgeType

MAX_ITEMS: Final = 100
_MAX_TASK: Final = 200
_MAX_CONTENT: Final = 1_000
_MAX_LABEL: Final = 60
_FALLBACK: Final = {
    KnowledgeType.STRATEGY: Category.OUTCOME,
    KnowledgeType.TOOL: Category.PITFALL,
    KnowledgeType.USECASE: Category.OUTCOME,
    KnowledgeType.DEFINITION: Category.DEFINITION,
    KnowledgeType.PLAN: Category.PLAN,
}


def read(
    answer: Mapping[str, Any], shown: Mapping[int, Message], known: Choices
) -> tuple[list[Candidate], list[Rejected]] | None:
    """Return the candidates of an answer and the items that are none; None when it holds no list at all."""
    items = answer.get("candidates")
    if not isinstance(items, list):
        return None
    candidates: list[Candidate] = []
    rejected: list[Rejected] = []
    for index, item in enumerate(items[:MAX_ITEMS]):
        read_item = _candidate(item, shown, known)
        if isinstance(read_item, Candidate):
            candidates.append(read_item)
        else:
            rejected.append(Rejected(index, read_item))
    if len(items) > MAX_ITEMS:
        rejected.append(Rejected(MAX_ITEMS, f"only the first {MAX_ITEMS} are read"))
    return candidates, rejected


def _candidate(item: object, shown: Mapping[int, Message], known: Choices) -> Candidate | str:
    """Return the candidate, or what is wrong with the item."""
    if not isinstance(item, Mapping):
        return "is no object"
    kind = _kind(item)
    category = None if kind is None else _category(kind, item.get("category"))
    content, cited = _content(item.get("content")), citing.cited(item.get("messages"), shown)
    # What a tool or an agent says of the user is no word of theirs: a page that was read would write their profile.
    telling = [shown[number] for number in cited if kind is not KnowledgeType.USER_PROFILE or shown[number].is_user]
    grounded = citing.is_grounded(content, [message.content for message in telling])
    problems = (
        (kind is None, "type is none of the six"),
        (category is None, "category is none of preference, habit, background, constraint"),
        (not content, "content is empty"),
        (not cited, "messages name none that was shown"),
        (not telling, "a user_profile names no message of the user"),
        (not grounded, "content does not stand in the messages that it names"),
    )
    problem = next((text for is_wrong, text in problems if is_wrong), None)
    if problem is not None or kind is None or category is None:
        return problem or "type is none of the six"
    domain = short_text(item.get("domain"), _MAX_LABEL)
    same_as, against = known.pick(item.get("same_as")), known.pick(item.get("against"))
    tags = {"category": category.value} | ({"domain": domain} if domain else {})
    return Candidate(
        category,
        short_text(item.get("task"), _MAX_TASK),
        content,
        cited,
        (kind.value,),
        expressed=shown[cited[-1]].is_user,
        tags=tags,
        by="llm",
        # Both of one is a contradiction: merged, it would write the opposite into what the user said.
        same_as=None if same_as == against else same_as,
        against=against,
    )


def _kind(item: Mapping[str, Any]) -> KnowledgeType | None:
    said = item.get("type") or item.get("types")
    named = said[0] if isinstance(said, list) and said else said
    return next((one for one in KnowledgeType if one == named), None) if isinstance(named, str) else None


def _category(kind: KnowledgeType, said: object) -> Category | None:
    named = next((one for one in Category if one == said), None) if isinstance(said, str) else None
    if kind is KnowledgeType.USER_PROFILE:
        return named if named in PROFILE_CATEGORIES else None
    # The type stands; a category that does not go with it claims nothing.
    return named if named is not None and named not in PROFILE_CATEGORIES else _FALLBACK[kind]


def _content(said: object) -> str:
    if not isinstance(said, str):
        return ""
    text = said[: _MAX_CONTENT * 4].replace("\0", " ").encode("utf-8", "replace").decode().strip()
    return text[:_MAX_CONTENT].rstrip()
