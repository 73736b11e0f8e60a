"""KeywordTree: the keyword tree for callers in the same process (seed 000 §7, seed 001 §6)."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.keywords.model import RelationType
from knowhub.sdk.values import Info, InfoKeywordLink, KeywordNode, SearchResult
from knowhub.sdk.verbs import TreeVerbs


class KeywordTree(TreeVerbs):
    """The verbs of seed 000, and each once more by the name, and with the defaults, of seed 001 (C-14, C-27, C-28)."""

    def search(self, query: str, *, use_agent: bool = True) -> SearchResult:
        return self.Search(query, use_agent)

    def get_keyword(self, id: str) -> KeywordNode | None:
        return self.GetKeyword(id)

    def get_children(self, id: str) -> list[KeywordNode]:
        return self.GetChildren(id)

    def get_path(self, id: str) -> list[KeywordNode]:
        return self.GetPath(id)

    def get_infos_of_keyword(
        self, id: str, relation: RelationType | None = None, page: int = 0, size: int = 50
    ) -> list[Info]:
        return self.GetInfosOfKeyword(id, relation, page, size)

    def get_keywords_of_info(self, info_id: str) -> list[tuple[KeywordNode, RelationType]]:
        return self.GetKeywordsOfInfo(info_id)

    def create_keyword(
        self,
        name: str,
        *,
        parent_id: str | None = None,
        aliases: list[str] | None = None,
        description: str = "",
        use_agent_for_parent: bool = True,
    ) -> KeywordNode:
        return self.CreateKeyword(name, parent_id, aliases, description, use_agent_for_parent)

    def update_keyword(self, id: str, patch: Mapping[str, Any], version: int) -> KeywordNode:
        return self.UpdateKeyword(id, patch, version)

    def move_keyword(self, id: str, new_parent_id: str) -> str | None:
        return self.MoveKeyword(id, new_parent_id)

    def merge_keywords(self, src_id: str, dst_id: str) -> str | None:
        return self.MergeKeywords(src_id, dst_id)

    def delete_keyword(self, id: str, *, cascade: bool = False, info_policy: str = "reattach") -> str:
        return self.DeleteKeyword(id, cascade, info_policy)

    def add_alias(self, id: str, alias: str) -> KeywordNode:
        return self.AddAlias(id, alias)

    def remove_alias(self, id: str, alias: str) -> KeywordNode:
        return self.RemoveAlias(id, alias)

    def create_info(
        self,
        content: str,
        *,
        source: str = "",
        keyword_ids: list[str] | None = None,
        auto_link: bool = False,
    ) -> Info:
        return self.CreateInfo(content, source, keyword_ids, auto_link)

    def update_info(self, info_id: str, patch: Mapping[str, Any], version: int | None = None) -> Info:
        return self.UpdateInfo(info_id, patch, version)

    def delete_info(self, info_id: str) -> str:
        return self.DeleteInfo(info_id)

    def link_info(
        self,
        info_id: str,
        keyword_id: str,
        relation: RelationType = RelationType.RELATED,
        created_by: str = "user",
    ) -> InfoKeywordLink:
        return self.LinkInfo(info_id, keyword_id, relation, created_by)

    def unlink_info(self, info_id: str, keyword_id: str) -> str:
        return self.UnlinkInfo(info_id, keyword_id)

    def batch_create_keywords(self, specs: Sequence[Mapping[str, Any]]) -> list[KeywordNode]:
        return self.BatchCreateKeywords(specs)

    def batch_create_infos(self, specs: Sequence[Mapping[str, Any]]) -> list[Info]:
        return self.BatchCreateInfos(specs)

    def reorganize(self, scope_id: str | None = None) -> dict[str, Any]:
        return self.Reorganize(scope_id)

    def apply_reorganize_plan(self, plan: Mapping[str, Any]) -> str | None:
        return self.ApplyReorganizePlan(plan)

    def tree_metrics(self) -> dict[str, Any]:
        return self.TreeMetrics()

    def undo(self, operation_id: str) -> str | None:
        return self.Undo(operation_id)

    def compact_storage(self, keep_undo_days: float | None = None) -> int:
        return self.CompactStorage(keep_undo_days)

    def snapshot(self) -> str:
        return self.Snapshot()

    def restore(self, ts: str) -> str | None:
        return self.Restore(ts)
