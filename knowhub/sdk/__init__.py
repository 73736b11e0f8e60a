"""The in-process face of the keyword tree: synchronous, with or without a server beside it (seeds 000 §7, §11)."""

from knowhub.keywords.model import RelationType, SearchStatus
from knowhub.sdk.keyword_tree import KeywordTree
from knowhub.sdk.llm_client import LLMClient, StubLLMClient
from knowhub.sdk.long_term_memory import LongTermMemory
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
