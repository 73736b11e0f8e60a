"""The CamelCase names of the methods of a keyword tree.

Generated from `knowhub/sdk/keyword_methods.py`; do not edit. `python -m tests.sdk.camel_case_file` writes it anew.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.keywords.model import RelationType
from knowhub.sdk.keyword_methods import KeywordMethods
from knowhub.sdk.values import Info, InfoKeywordLink, KeywordNode, SearchResult


class CamelCaseMethods(ABC):
    """Calls the snake_case method of `_methods`. All parameters are positional."""

    @property
    @abstractmethod
    def _methods(self) -> KeywordMethods: ...

    @property
    def LastOperationId(self) -> str | None:
        return self._methods.last_operation_id

    def Close(self) -> None:
        return self._methods.close()

    def Search(self, query: str, llm_expand_query: bool = True, llm_disambiguate: bool | None = None) -> SearchResult:
        return self._methods.search(query, use_agent=llm_expand_query, disambiguate=llm_disambiguate)

    def GetKeyword(self, id: str) -> KeywordNode | None:
        return self._methods.get_keyword(id)

    def GetChildren(self, id: str) -> list[KeywordNode]:
        return self._methods.get_children(id)

    def GetPath(self, id: str) -> list[KeywordNode]:
        return self._methods.get_path(id)

    def GetInfosOfKeyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        return self._methods.get_infos_of_keyword(id, relation, page, size)

    def GetKeywordsOfInfo(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        return self._methods.get_keywords_of_info(info_id)

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

    def UpdateKeyword(self, id: str, patch: Mapping[str, Any], version: int) -> KeywordNode:
        return self._methods.update_keyword(id, patch, version)

    def MoveKeyword(self, id: str, new_parent_id: str, version: int | None = None) -> str | None:
        return self._methods.move_keyword(id, new_parent_id, version)

    def MergeKeywords(self, src_id: str, dst_id: str, version: int | None = None) -> str | None:
        return self._methods.merge_keywords(src_id, dst_id, version)

    def DeleteKeyword(
        self, id: str, cascade: bool = False, info_policy: str = "reattach", version: int | None = None
    ) -> str:
        return self._methods.delete_keyword(id, cascade=cascade, info_policy=info_policy, version=version)

    def AddAlias(self, id: str, alias: str) -> KeywordNode:
        return self._methods.add_alias(id, alias)

    def RemoveAlias(self, id: str, alias: str) -> KeywordNode:
        return self._methods.remove_alias(id, alias)

    def CreateInfo(
        self, content: str, source: str = "", keyword_ids: list[str] | None = None, auto_link: bool = False
    ) -> Info:
        return self._methods.create_info(content, source=source, keyword_ids=keyword_ids, auto_link=auto_link)

    def UpdateInfo(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        return self._methods.update_info(info_id, patch, version)

    def DeleteInfo(self, info_id: str, version: int | None = None) -> str:
        return self._methods.delete_info(info_id, version)

    def LinkInfo(
        self, info_id: str, keyword_id: str, relation: RelationType = RelationType.PRIMARY, created_by: str = "user"
    ) -> InfoKeywordLink:
        return self._methods.link_info(info_id, keyword_id, relation, created_by)

    def UnlinkInfo(self, info_id: str, keyword_id: str) -> str:
        return self._methods.unlink_info(info_id, keyword_id)

    def BatchCreateKeywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        return self._methods.batch_create_keywords(specs)

    def BatchCreateInfos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        return self._methods.batch_create_infos(specs)

    def Reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        return self._methods.reorganize(scope_id)

    def ApplyReorganizePlan(self, plan: Mapping[str, Any]) -> str | None:
        return self._methods.apply_reorganize_plan(plan)

    def TreeMetrics(self) -> dict[str, Any]:
        return self._methods.tree_metrics()

    def Undo(self, operation_id: str, with_later: bool = False) -> str | None:
        return self._methods.undo(operation_id, with_later)

    def CompactStorage(self, keep_undo_days: float | None = None) -> int:
        return self._methods.compact_storage(keep_undo_days)

    def Snapshot(self) -> str:
        return self._methods.snapshot()

    def Restore(self, ts: str) -> str | None:
        return self._methods.restore(ts)
