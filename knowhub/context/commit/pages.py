"""What one decision knows of the contents that it adds to, so that each is taken apart once and rendered once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowhub.context.commit import blocks
from knowhub.context.commit.layers import gathered
from knowhub.context.extraction.wording import plain


@dataclass(slots=True)
class _Page:
    content: str
    said: set[str]
    has_grown: bool = False


@dataclass(frozen=True, slots=True)
class Pages:
    """The contents of one decision by their URIs. Where it `is_deferring`, layers are made when all is decided."""

    is_deferring: bool = False
    _pages: dict[str, _Page] = field(default_factory=dict)

    def says(self, target: str, content: str, text: str) -> bool:
        """Tell whether a statement stands in a content, whatever its marks and fillers."""
        page = self._pages.get(target)
        if page is None or page.content != content:
            has_grown = page is not None and page.has_grown
            page = _Page(content, {plain(one.text) for one in blocks.blocks(content)}, has_grown)
            if self.is_deferring:
                self._pages[target] = page
        return plain(text) in page.said

    def grown(self, target: str, content: str, text: str, instead_of: str | None = None) -> None:
        """Note that a content is decided, with a statement more, perhaps in the place of another."""
        page = self._pages.get(target)
        if page is not None:
            page.content, page.has_grown = content, True
            if instead_of is not None:
                page.said.discard(plain(instead_of))
            page.said.add(plain(text))

    def layers(self, content: str) -> Mapping[str, Any]:
        """Return the layers of a content, as far as they are made by now."""
        return {"content": content} if self.is_deferring else gathered(content)

    def grew(self, target: str) -> bool:
        """Tell whether something was added to a content."""
        page = self._pages.get(target)
        return page is not None and page.has_grown
