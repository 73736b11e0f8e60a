"""The keyword tree in the same process: synchronous, alone or beside running servers."""

from knowhub.keywords.model import RelationType, SearchStatus
from knowhub.sdk.keyword_tree import KeywordTree, LongTermMemory
from knowhub.sdk.llm_client import LLMClient, StubLLMClient
from knowhub.sdk.values import Info, InfoKeywordLink, KeywordNode, SearchResult

__all__ = [
    "Info",
    "InfoKeywordLink",
    "KeywordNode",
    "KeywordTree",
    "LLMClient",
    "LongTermMemory",
    "RelationType",
    "SearchResult",
    "SearchStatus",
    "StubLLMClient",
]
