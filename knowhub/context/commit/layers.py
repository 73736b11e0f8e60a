"""Abstract and overview of a memory by rules, from its content alone: a commit and a correction make them alike."""

from collections.abc import Mapping
from typing import Any, Final

from knowhub.context.commit import blocks, tool_texts
from knowhub.context.extraction.wording import one_line, shortened
from knowhub.context.model import Category
from knowhub.core.operation import Row

MAX_ABSTRACT: Final = 300
MAX_OVERVIEW: Final = 1_500
SECTION: Final = "\n\n---\n"
"""What parts the sections of an event or a case."""

_TOLD: Final = (Category.EVENTS, Category.CASES)
_COUNTED: Final = (Category.SKILLS, Category.TOOLS)


def completed(category: Category, row: Row, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a correction with the layers that it leaves out, where it changes the content that they are made of.

    Else a search would go on finding, and a reading go on telling, what was corrected away.
    """
    content = patch.get("content", row["content"])
    if content == row["content"] or category is Category.SESSIONS:
        return patch
    made = {name: text for name, text in layers_of(category, content).items() if name != "content"}
    return {**made, **patch}


def layers_of(category: Category, content: str) -> dict[str, str]:
    """Return the layers of a content as a commit would make them by rules."""
    if category in _COUNTED:
        return tool_texts.layers_of(content)
    return _told(content) if category in _TOLD else gathered(content)


def gathered(content: str) -> dict[str, str]:
    """Return the layers of a content that statements are added to."""
    abstract = blocks.newest_first(content, MAX_ABSTRACT)
    return {"abstract": abstract, "overview": blocks.listed(content, MAX_OVERVIEW), "content": content}


def _told(content: str) -> dict[str, str]:
    text = content.replace(SECTION, "\n").strip()
    return {
        "abstract": shortened(one_line(text), MAX_ABSTRACT),
        "overview": shortened(text, MAX_OVERVIEW),
        "content": content,
    }
