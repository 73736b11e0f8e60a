"""How a tree reads names: by its own `_Normalize`, whatever a subclass or the caller makes of it (KT-023, KT-189)."""

import weakref
from typing import Protocol

from knowhub.core.errors import InvalidInput
from knowhub.keywords.fields import texts
from knowhub.search.keyword_text import KeywordTextRules


class Normalizing(Protocol):
    def _Normalize(self, text: str) -> list[str]: ...


class TreeText:
    """The KeywordText of one tree. It does not keep the tree alive: nobody would be left to close it."""

    def __init__(self, tree: Normalizing, rules: KeywordTextRules) -> None:
        self._tree = weakref.ref(tree)
        self._rules = rules

    def load(self) -> None:
        """Load what the rules need."""
        self._rules.load()

    def tokens(self, text: str) -> list[str]:
        """Return the tree's normal forms. Raises InvalidInput when they are none, and whatever it raises itself."""
        tree = self._tree()
        if tree is None:
            raise RuntimeError("this keyword tree is gone")
        try:
            return normal_forms(tree._Normalize(text))  # noqa: SLF001 -- seed 000 names it so
        except Exception:
            raise
        except BaseException as problem:
            # It would end the event loop, on which everybody else waits.
            raise RuntimeError(f"`normalize` raised {type(problem).__name__}") from problem

    def pinyin(self, text: str) -> list[str]:
        """Return how a text is spelt in pinyin, by the rules."""
        return self._rules.pinyin(text)

    def terms(self, text: str) -> list[str]:
        """Return the words of a text, by the rules."""
        return self._rules.terms(text)


def normal_forms(made: object) -> list[str]:
    """Return what a `normalize` made, a list of texts. Raises InvalidInput when it is anything else."""
    if not isinstance(made, list):
        raise InvalidInput.of("normalize", f"must return a list of texts, not {type(made).__name__}")
    return texts("normalize", made)
