"""What the keyword tree needs from outside."""

from typing import Protocol


class KeywordText(Protocol):
    """How names and queries are read; replaceable."""

    def load(self) -> None:
        """Load what reading needs, such as dictionaries, before somebody waits for it; it may take a second."""

    def name_keys(self, text: str) -> list[str]:
        """Return the normal forms by which a name is looked up, one in general; empty when nothing is left."""

    def pinyin(self, text: str) -> list[str]:
        """Return how `text` is spelt in pinyin, in full and by initials; empty when it holds no Chinese."""

    def spellings(self, text: str) -> list[str]:
        """Return how `text` is spelt in pinyin in full, a part of `pinyin`."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text without spaces, such as Chinese, in order; joined they are the text."""

    def terms(self, text: str) -> list[str]:
        """Return the words of `text`, each once, for lexical candidates."""
