"""What each tool sends: one request, with its defaults and with everything that a host can give."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import respx

from agent_tools import keywords, knowledge, memory, memory_edits, resources
from agent_tools.arguments import CONTEXT_IDS
from tests.tools.routes import query_of

pytestmark = pytest.mark.anyio

MODULES = (keywords, knowledge, memory, memory_edits, resources)
IDS = dict.fromkeys(CONTEXT_IDS, "x")
MESSAGE = {"role": "user", "content": "Hi", "name": "li", "timestamp": "2026-03-05T09:00:00+00:00"}
RATING = {"knowledge_id": "k-1", "is_helpful": True, "case": {"task": "t", "outcome": "成功"}}
FEEDBACK = {
    "add_helpful_case": {"task": "t"},
    "add_harmful_case": {"task": "t", "outcome": "失败", "reason": "r"},
    "update_score": 5,
    "evolve_feedback": "shorter",
}
SOURCE = {
    "name": "",
    "category": "exp",
    "urls": [],
    "agent_id": "research_agent",
    "submitted_by": "",
    "message_id": "",
}
RESOURCE = {
    "title": "t",
    "body": "b",
    "secure_body": "s",
    "content_type": "cookie",
    "metadata": {"a": "1"},
    "scopes": ["public"],
    "owner": "agent:a",
    "expires_at": "2026-03-07",
}
SESSION = {
    "session_id": "s-1",
    "messages": [MESSAGE],
    "used_contexts": ["ctx://default/users/li/memories/profile"],
    "used_tools": [{"name": "bash", "ok": True}],
    "options": {"dry_run": True},
}
ANSWER: dict[str, Any] = {
    "id": "x",
    "uri": "ctx://a",
    "operation_id": "op-1",
    "status": "not_found",
    "archive": {},
    "results": [],
    "blocks": [],
    "write_results": [],
}


class Sent(NamedTuple):
    """A tool with its arguments, and the request that it makes; `sent` is the body, or the query without one."""

    tool: str
    given: Mapping[str, Any]
    request: str
    sent: Mapping[str, Any]


KNOWLEDGE = "/api/knowledge"
NODES = "/api/context/nodes"
RELATION = {"from_uri": "ctx://a", "to_uri": "ctx://b"}
REQUESTS = [
    Sent("knowledge_search", {"query": "登录 & 爬虫"}, f"GET {KNOWLEDGE}/search",
         {"q": "登录 & 爬虫", "top_k": "5", "min_score": "3"}),
    Sent("knowledge_search", {"query": "q", "top_k": 3, "min_score": 4, "types": ["tool", "strategy"], **IDS},
         f"GET {KNOWLEDGE}/search", {"q": "q", "top_k": "3", "min_score": "4", "types": "tool,strategy", **IDS}),
    Sent("knowledge_save", {"task": "t", "content": "c", "types": ["tool"]}, f"POST {KNOWLEDGE}",
         {"task": "t", "content": "c", "types": ["tool"], "tags": {}, "scopes": ["org:cybertogether"],
          "owner": "agent:research_agent", "source": SOURCE, "score": 3}),
    Sent("knowledge_save", {"task": "t", "content": "c", "types": ["tool"], "agent_id": "crawler"}, f"POST {KNOWLEDGE}",
         {"task": "t", "content": "c", "types": ["tool"], "tags": {}, "scopes": ["org:cybertogether"],
          "owner": "agent:crawler", "source": {**SOURCE, "agent_id": "crawler"}, "score": 3}),
    Sent("knowledge_save",
         {"task": "t", "content": "c", "types": ["tool", "plan"], "tags": {"domain": "web"}, "scopes": ["user:ann"],
          "owner": "user:ann", "source_name": "docs", "source_category": "paper", "urls": ["https://example.com"],
          "agent_id": "crawler", "submitted_by": "ann@example.com", "score": 5, "message_id": "msg-1",
          "resource_ids": ["code/selenium/login"]},
         f"POST {KNOWLEDGE}",
         {"task": "t", "content": "c", "types": ["tool", "plan"], "tags": {"domain": "web"}, "scopes": ["user:ann"],
          "owner": "user:ann", "score": 5, "resource_ids": ["code/selenium/login"],
          "source": {"name": "docs", "category": "paper", "urls": ["https://example.com"], "agent_id": "crawler",
                     "submitted_by": "ann@example.com", "message_id": "msg-1"}}),
    Sent("knowledge_update", {"knowledge_id": "知识 a/b?", "update_score": 1},
         f"PUT {KNOWLEDGE}/%E7%9F%A5%E8%AF%86%20a%2Fb%3F", {"update_score": 1}),
    Sent("knowledge_update", {"knowledge_id": "k-1", **FEEDBACK}, f"PUT {KNOWLEDGE}/k-1", FEEDBACK),
    Sent("knowledge_batch_update", {"feedback_list": [RATING]}, f"POST {KNOWLEDGE}/batch_update",
         {"feedback_list": [RATING]}),
    Sent("knowledge_list", {}, f"GET {KNOWLEDGE}", {"limit": "10"}),
    Sent("knowledge_list", {"limit": 1, "types": ["tool", "plan"], "scopes": ["org:a", "public"]}, f"GET {KNOWLEDGE}",
         {"limit": "1", "types": "tool,plan", "scopes": "org:a,public"}),
    Sent("knowledge_slim", {}, f"POST {KNOWLEDGE}/slim", {"model": "google/gemini-2.0-flash-001"}),
    Sent("keyword_search", {"query": "C++ & 指针"}, "GET /api/keywords/search",
         {"q": "C++ & 指针", "llm_expand_query": "true"}),
    Sent("keyword_search", {"query": "q", "llm_expand_query": False, **IDS}, "GET /api/keywords/search",
         {"q": "q", "llm_expand_query": "false", **IDS}),
    Sent("keyword_create", {"name": "Java"}, "POST /api/keywords",
         {"name": "Java", "description": "", "llm_auto_place": True}),
    Sent("keyword_create",
         {"name": "Java", "parent_id": "k-1", "aliases": ["JDK"], "description": "d", "llm_auto_place": False,
          "allow_duplicate": True, **IDS},
         "POST /api/keywords",
         {"name": "Java", "parent_id": "k-1", "aliases": ["JDK"], "description": "d", "llm_auto_place": False,
          "allow_duplicate": True, **IDS}),
    Sent("info_save", {"content": "c", "keyword_ids": ["k-2"], "source": "JLS", "auto_link": True, "user_id": "u"},
         "POST /api/infos",
         {"content": "c", "keyword_ids": ["k-2"], "source": "JLS", "auto_link": True, "user_id": "u"}),
    Sent("resource_save", {"resource_id": "x"}, "POST /api/resource",
         {"id": "x", "title": "", "body": "", "content_type": "text"}),
    Sent("resource_save", {"resource_id": "x", "upsert": True, **RESOURCE}, "POST /api/resource?upsert=true",
         {"id": "x", **RESOURCE}),
    Sent("resource_get", {"resource_id": "credentials/a"}, "GET /api/resource/credentials%2Fa", {}),
    Sent("resource_get", {"resource_id": "a", "reveal": True}, "GET /api/resource/a", {"reveal": "true"}),
    Sent("resource_list", {"prefix": "credentials/", "content_type": "credential", "limit": 1, "expired": False},
         "GET /api/resource",
         {"prefix": "credentials/", "content_type": "credential", "limit": "1", "expired": "false"}),
    # Two messages of the same words are two: an id made of the words would make one of them.
    Sent("commit_session", {"session_id": "s-1", "messages": [MESSAGE, MESSAGE]}, "POST /api/context/sessions/commit",
         {"session_id": "s-1", "messages": [MESSAGE, MESSAGE]}),
    Sent("commit_session", {**SESSION, **IDS}, "POST /api/context/sessions/commit", {**SESSION, **IDS}),
    Sent("search_memory", {"query": " q ", "target_uri": "ctx://a", "categories": ["sessions", "events"], "top_k": 3},
         "GET /api/context/search", {"q": "q", "target_uri": "ctx://a", "categories": "sessions,events", "top_k": "3"}),
    Sent("search_memory", {"query": "q", "categories": "sessions,events", "user_id": "li"}, "GET /api/context/search",
         {"q": "q", "categories": "sessions,events", "top_k": "10", "user_id": "li"}),
    Sent("read_memory", {"uri": "ctx://a", "level": "L2", "expand_relations": True, "max_relations": 2},
         "GET /api/context/read", {"uri": "ctx://a", "level": "L2", "expand_relations": "true", "max_relations": "2"}),
    Sent("memory_create", {"category": "entities", "content": "c", "tags": {"topic": "x"}}, f"POST {NODES}",
         {"category": "entities", "content": "c", "name": "", "tags": {"topic": "x"}}),
    Sent("memory_edit", {"uri": "ctx://a", "content": "c"}, f"PATCH {NODES}", {"uri": "ctx://a", "content": "c"}),
    Sent("memory_edit", {"uri": "ctx://a", "tags": {}}, f"PATCH {NODES}", {"uri": "ctx://a", "tags": {}}),
    Sent("memory_move", {"uri": "ctx://a", "to": "ctx://b"}, f"POST {NODES}/move", {"uri": "ctx://a", "to": "ctx://b"}),
    Sent("memory_forget", {"uri": "ctx://a"}, f"DELETE {NODES}", {"uri": "ctx://a"}),
    Sent("memory_link", RELATION, "PUT /api/context/relations", {**RELATION, "relation_type": "related", "reason": ""}),
    Sent("memory_unlink", RELATION, "DELETE /api/context/relations", RELATION),
    Sent("memory_read_many", {"uris": ["ctx://a"]}, "POST /api/context/read", {"uris": ["ctx://a"], "level": "L1"}),
]  # fmt: skip


@pytest.mark.parametrize("wanted", REQUESTS, ids=lambda wanted: wanted.tool)
async def test_a_tool_sends_one_request(hub: respx.MockRouter, wanted: Sent) -> None:
    route = hub.route().respond(json=ANSWER)

    tool = next(getattr(module, wanted.tool) for module in MODULES if hasattr(module, wanted.tool))
    result = await tool(**wanted.given)

    assert result.error is None
    assert len(route.calls) == 1
    request = route.calls.last.request
    has_body = bool(request.content)
    url = request.url.raw_path.decode()
    assert f"{request.method} {url if has_body else url.partition('?')[0]}" == wanted.request
    assert (json.loads(request.content) if has_body else query_of(route)) == wanted.sent
