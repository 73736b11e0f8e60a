"""The pages of memories: their URIs, blocks and layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import blocks
from knowhub.context.extraction.wording import one_line, shorten
from knowhub.context.model import MemoryCategory, MemoryContext
from knowhub.context.uri import space_of
from knowhub.conversations.recalled import normalize_words
from knowhub.core.operation import Row

_DIGITS: Final = 12


def topic_uri(whose: MemoryContext, owner_scope: str, category: MemoryCategory, key: str) -> str:
    """Return the URI of all that is said under a key; it holds a hash, so that nobody reads the key in it."""
    space = space_of(whose, owner_scope)
    name = uri.stable_hash(whose.account, space, category.value, uri.slug(key))[:_DIGITS]
    return uri.node_uri(whose.account, space, category, name)


@dataclass(slots=True)
class _Page:
    content: str
    said: set[str]
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class PageContents:
    """The contents of one decision by their URIs. Where it `is_deferring`, layers are made when all is decided."""

    is_deferring: bool = False
    _pages: dict[str, _Page] = field(default_factory=dict)

    def contains_text(self, target: str, content: str, text: str) -> bool:
        """Return whether a content has a statement, ignoring punctuation and filler words."""
        page = self._pages.get(target)
        if page is None or page.content != content:
            is_changed = page is not None and page.is_changed
            page = _Page(content, {normalize_words(block.text) for block in blocks.blocks(content)}, is_changed)
            if self.is_deferring:
                self._pages[target] = page
        return normalize_words(text) in page.said

    def set_content(self, target: str, content: str, text: str, instead_of: str | None = None) -> None:
        """Note that a content is decided, with a statement more, perhaps in the place of another."""
        page = self._pages.get(target)
        if page is not None:
            page.content, page.is_changed = content, True
            if instead_of is not None:
                page.said.discard(normalize_words(instead_of))
            page.said.add(normalize_words(text))

    def layers(self, content: str) -> Mapping[str, Any]:
        """Return the layers of a content, as far as they are made by now."""
        return {"content": content} if self.is_deferring else make_layers(content)

    def is_changed(self, target: str) -> bool:
        """Return whether something was added to a content."""
        page = self._pages.get(target)
        return page is not None and page.is_changed


MAX_ABSTRACT: Final = 300
MAX_OVERVIEW: Final = 1_500
SECTION: Final = "\n\n---\n"
"""What parts the sections of an event or a case."""

_TOLD: Final = (MemoryCategory.EVENTS, MemoryCategory.CASES)
_COUNTED: Final = (MemoryCategory.SKILLS, MemoryCategory.TOOLS)


def complete_layers(category: MemoryCategory, row: Row, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a correction with the layers that it leaves out, where it changes the content that they are made of.

    Else a search would go on finding, and a reading go on telling, what was corrected away.
    """
    content = patch.get("content", row["content"])
    if content == row["content"] or category is MemoryCategory.SESSIONS:
        return patch
    made = {name: text for name, text in layers_of(category, content).items() if name != "content"}
    return {**made, **patch}


def layers_of(category: MemoryCategory, content: str) -> dict[str, str]:
    """Return the layers of a content as a commit would make them by rules."""
    if category in _COUNTED:
        return blocks.layers_of(content)
    return _make_topic_layers(content) if category in _TOLD else make_layers(content)


def make_layers(content: str) -> dict[str, str]:
    """Return the layers of a content that statements are added to."""
    abstract = blocks.newest_first(content, MAX_ABSTRACT)
    return {"abstract": abstract, "overview": blocks.list_statements(content, MAX_OVERVIEW), "content": content}


def _make_topic_layers(content: str) -> dict[str, str]:
    text = content.replace(SECTION, "\n").strip()
    return {
        "abstract": shorten(one_line(text), MAX_ABSTRACT),
        "overview": shorten(text, MAX_OVERVIEW),
        "content": content,
    }
