"""The normal forms of names in a keyword tree, which its `_Normalize` computes."""

import weakref
from typing import Protocol

from knowhub.core.errors import InvalidInput
from knowhub.keywords.fields import parse_texts
from knowhub.search.keyword_text import KeywordTextRules


class Normalizer(Protocol):
    def _Normalize(self, text: str) -> list[str]: ...


class TreeText(KeywordTextRules):
    """The KeywordText of a tree. It holds the tree weakly, so that a tree that nobody uses is freed and closed."""

    def __init__(self, tree: Normalizer) -> None:
        self._tree = weakref.ref(tree)

    def tokens(self, text: str) -> list[str]:
        """Return the normal forms. Raises InvalidInput if they are no list of texts, and what `_Normalize` raises."""
        tree = self._tree()
        if tree is None:
            raise RuntimeError("this keyword tree does not exist any more")
        try:
            return check_normal_forms(tree._Normalize(text))  # noqa: SLF001 -- subclasses override it by this name
        except Exception:
            raise
        except BaseException as error:
            # It would end the event loop, which other threads wait for.
            raise RuntimeError(f"`normalize` raised {type(error).__name__}") from error


def check_normal_forms(value: object) -> list[str]:
    """Return the list of texts that `normalize` made. Raises InvalidInput when it is anything else."""
    if not isinstance(value, list):
        raise InvalidInput.of("normalize", f"must return a list of texts, not {type(value).__name__}")
    return parse_texts("normalize", value)
