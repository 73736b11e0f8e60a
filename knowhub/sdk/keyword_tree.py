"""KeywordTree and LongTermMemory: the keyword tree for callers in the same process."""

from knowhub.sdk.camel_case import CamelCaseMethods
from knowhub.sdk.keyword_methods import KeywordMethods


class KeywordTree(CamelCaseMethods, KeywordMethods):
    """A keyword tree whose methods have snake_case and CamelCase names."""

    @property
    def _methods(self) -> KeywordMethods:
        # Not an attribute: an object that holds itself is only freed by the garbage collector.
        return self


class LongTermMemory(CamelCaseMethods):
    """What an agent is given: the CamelCase methods of a tree, and nothing else of it."""

    def __init__(self, tree: KeywordTree) -> None:
        self._tree = tree

    @property
    def _methods(self) -> KeywordMethods:
        return self._tree
