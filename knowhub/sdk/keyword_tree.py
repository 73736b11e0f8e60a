"""KeywordTree and LongTermMemory: the keyword tree for callers in the same process, with its CamelCase names."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from knowhub.keywords.model import RelationType
from knowhub.sdk.keyword_methods import KeywordMethods
from knowhub.sdk.values import InfoKeywordLink, KeywordNode, SearchResult

P = ParamSpec("P")
T = TypeVar("T")


def _forward(
    method: Callable[Concatenate[KeywordMethods, P], T],
) -> Callable[Concatenate["CamelCaseMethods", P], T]:
    """Return a method with the same parameters that calls `method` of `_methods`, as a subclass may have it."""

    @wraps(method)
    def call(self: "CamelCaseMethods", /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = getattr(self._methods, method.__name__)(*args, **kwargs)
        return result

    return call


class CamelCaseMethods(ABC):
    """Calls the snake_case methods of `_methods`. All parameters can be positional."""

    @property
    @abstractmethod
    def _methods(self) -> KeywordMethods: ...

    @property
    def LastOperationId(self) -> str | None:
        return self._methods.last_operation_id

    def Search(self, query: str, llm_expand_query: bool = True, llm_disambiguate: bool | None = None) -> SearchResult:
        return self._methods.search(query, use_agent=llm_expand_query, disambiguate=llm_disambiguate)

    def CreateKeyword(
        self,
        name: str,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        llm_auto_place: bool = True,
        llm_dedup_check: bool | None = None,
    ) -> KeywordNode:
        return self._methods.create_keyword(
            name,
            parent_id=parent_id,
            aliases=aliases,
            description=description,
            use_agent_for_parent=llm_auto_place,
            dedup_check=llm_dedup_check,
        )

    def LinkInfo(
        self, info_id: str, keyword_id: str, relation: RelationType = RelationType.PRIMARY, created_by: str = "user"
    ) -> InfoKeywordLink:
        return self._methods.link_info(info_id, keyword_id, relation, created_by)

    Close = _forward(KeywordMethods.close)
    GetKeyword = _forward(KeywordMethods.get_keyword)
    GetChildren = _forward(KeywordMethods.get_children)
    GetPath = _forward(KeywordMethods.get_path)
    GetInfosOfKeyword = _forward(KeywordMethods.get_infos_of_keyword)
    GetKeywordsOfInfo = _forward(KeywordMethods.get_keywords_of_info)
    UpdateKeyword = _forward(KeywordMethods.update_keyword)
    MoveKeyword = _forward(KeywordMethods.move_keyword)
    MergeKeywords = _forward(KeywordMethods.merge_keywords)
    DeleteKeyword = _forward(KeywordMethods.delete_keyword)
    AddAlias = _forward(KeywordMethods.add_alias)
    RemoveAlias = _forward(KeywordMethods.remove_alias)
    CreateInfo = _forward(KeywordMethods.create_info)
    UpdateInfo = _forward(KeywordMethods.update_info)
    DeleteInfo = _forward(KeywordMethods.delete_info)
    UnlinkInfo = _forward(KeywordMethods.unlink_info)
    BatchCreateKeywords = _forward(KeywordMethods.batch_create_keywords)
    BatchCreateInfos = _forward(KeywordMethods.batch_create_infos)
    Reorganize = _forward(KeywordMethods.reorganize)
    ApplyReorganizePlan = _forward(KeywordMethods.apply_reorganize_plan)
    TreeMetrics = _forward(KeywordMethods.tree_metrics)
    Undo = _forward(KeywordMethods.undo)
    CompactStorage = _forward(KeywordMethods.compact_storage)
    Snapshot = _forward(KeywordMethods.snapshot)
    Restore = _forward(KeywordMethods.restore)


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
