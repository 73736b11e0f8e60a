"""LongTermMemory: what an agent holds of a keyword tree (seed 000 §11)."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.keywords.model import RelationType
from knowhub.sdk.keyword_tree import KeywordTree
from knowhub.sdk.values import Info, InfoKeywordLink, KeywordNode, SearchResult


class LongTermMemory:
    """Holds one tree and forwards to it, method by method (KT-270)."""

    def __init__(self, tree: KeywordTree) -> None:
        self._tree = tree

    @property
    def LastOperationId(self) -> str | None:
        return self._tree.LastOperationId

    def Close(self) -> None:
        return self._tree.Close()

    def Search(self, query: str, llm_expand_query: bool = True, llm_disambiguate: bool | None = None) -> SearchResult:
        return self._tree.Search(query, llm_expand_query, llm_disambiguate)

    def GetKeyword(self, id: str) -> KeywordNode | None:
        return self._tree.GetKeyword(id)

    def GetChildren(self, id: str) -> list[KeywordNode]:
        return self._tree.GetChildren(id)

    def GetPath(self, id: str) -> list[KeywordNode]:
        return self._tree.GetPath(id)

    def GetInfosOfKeyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        return self._tree.GetInfosOfKeyword(id, relation, page, size)

    def GetKeywordsOfInfo(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        return self._tree.GetKeywordsOfInfo(info_id)

    def CreateKeyword(
        self,
        name: str,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        llm_auto_place: bool = True,
        llm_dedup_check: bool | None = None,
    ) -> KeywordNode:
        return self._tree.CreateKeyword(name, parent_id, aliases, description, llm_auto_place, llm_dedup_check)

    def UpdateKeyword(self, id: str, patch: Mapping[str, Any], version: int) -> KeywordNode:
        return self._tree.UpdateKeyword(id, patch, version)

    def MoveKeyword(self, id: str, new_parent_id: str, version: int | None = None) -> str | None:
        return self._tree.MoveKeyword(id, new_parent_id, version)

    def MergeKeywords(self, src_id: str, dst_id: str, version: int | None = None) -> str | None:
        return self._tree.MergeKeywords(src_id, dst_id, version)

    def DeleteKeyword(
        self, id: str, cascade: bool = False, info_policy: str = "reattach", version: int | None = None
    ) -> str:
        return self._tree.DeleteKeyword(id, cascade, info_policy, version)

    def AddAlias(self, id: str, alias: str) -> KeywordNode:
        return self._tree.AddAlias(id, alias)

    def RemoveAlias(self, id: str, alias: str) -> KeywordNode:
        return self._tree.RemoveAlias(id, alias)

    def CreateInfo(
        self, content: str, source: str = "", keyword_ids: list[str] | None = None, auto_link: bool = False
    ) -> Info:
        return self._tree.CreateInfo(content, source, keyword_ids, auto_link)

    def UpdateInfo(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        return self._tree.UpdateInfo(info_id, patch, version)

    def DeleteInfo(self, info_id: str, version: int | None = None) -> str:
        return self._tree.DeleteInfo(info_id, version)

    def LinkInfo(
        self, info_id: str, keyword_id: str, relation: RelationType = RelationType.PRIMARY, created_by: str = "user"
    ) -> InfoKeywordLink:
        return self._tree.LinkInfo(info_id, keyword_id, relation, created_by)

    def UnlinkInfo(self, info_id: str, keyword_id: str) -> str:
        return self._tree.UnlinkInfo(info_id, keyword_id)

    def BatchCreateKeywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        return self._tree.BatchCreateKeywords(specs)

    def BatchCreateInfos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        return self._tree.BatchCreateInfos(specs)

    def Reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        return self._tree.Reorganize(scope_id)

    def ApplyReorganizePlan(self, plan: Mapping[str, Any]) -> str | None:
        return self._tree.ApplyReorganizePlan(plan)

    def TreeMetrics(self) -> dict[str, Any]:
        return self._tree.TreeMetrics()

    def Undo(self, operation_id: str) -> str | None:
        return self._tree.Undo(operation_id)

    def Snapshot(self) -> str:
        return self._tree.Snapshot()

    def Restore(self, ts: str) -> str | None:
        return self._tree.Restore(ts)

    def CompactStorage(self, keep_undo_days: float | None = None) -> int:
        return self._tree.CompactStorage(keep_undo_days)
