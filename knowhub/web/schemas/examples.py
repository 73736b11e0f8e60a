"""Examples of bodies, shown in the OpenAPI document and executed by a test."""

from typing import Any

import orjson

_JSON, _NDJSON = "application/json", "application/x-ndjson"

_SELENIUM = {
    "task": "用 Selenium 登录网站并绕过反爬检测",
    "content": "undetected_chromedriver 可以绕过大部分检测：设置合适的 user-agent，随机延迟，避免频繁请求。",
    "types": ["tool", "strategy"],
    "tags": {"category": "anti_bot", "domain": "crawling"},
    "scopes": ["org:cybertogether", "user:owner"],
    "owner": "agent:research_agent",
    "source": {"name": "undetected_chromedriver", "category": "exp", "agent_id": "research_agent"},
    "score": 4,
}
_PAGINATION = {
    "task": "List all issues of a GitHub repository",
    "content": "Follow the `next` link of the Link header; never count pages. per_page is at most 100.",
    "type": "tool",
    "tags": {"domain": "github"},
    "scopes": ["public"],
}
_IMPORTED = {
    "id": "profile_001",
    "type": "user_profile",
    "task": "用户编码风格偏好",
    "tags": {"category": "preference", "domain": "coding_style"},
    "scopes": ["user:123", "project:456"],
    "owner": "user:123",
    "visibility": "shared",
    "content": "用户偏好使用 TypeScript 而非 JavaScript，注重类型安全",
    "source": {"agent_id": "general_assistant", "trace_id": "trace-xxx", "timestamp": "2026-03-03"},
    "eval": {"helpful": 5, "harmful": 0, "confidence": 0.9},
}

BODIES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "save": (
        _JSON,
        {
            "a tool pitfall": {"value": _SELENIUM},
            "the least that works": {"value": {"content": "pnpm, not npm, in this project"}},
        },
    ),
    "save_batch": (_JSON, {"two records": {"value": {"items": [_SELENIUM, _PAGINATION]}}}),
    "patch": (_JSON, {"narrow who sees it": {"value": {"scopes": ["project:atlas"], "tags": {"domain": "github"}}}}),
    "feedback": (
        _JSON,
        {
            "it helped": {"value": {"add_helpful_case": {"task": "登录某网站", "outcome": "成功"}, "update_score": 5}},
            "it did harm": {"value": {"add_harmful_case": {"outcome": "banned", "reason": "too many requests"}}},
        },
    ),
    "batch_update": (
        _JSON,
        {
            "one known, one not": {
                "value": {
                    "feedback_list": [
                        {"knowledge_id": "knowledge-20260305-a1b2", "is_helpful": True, "case": {"outcome": "成功"}},
                        {"knowledge_id": "knowledge-20260305-ffff", "is_helpful": False},
                    ]
                }
            }
        },
    ),
    "import": (_NDJSON, {"seed 004's record": {"value": orjson.dumps(_IMPORTED).decode() + "\n"}}),
    "undo": (_JSON, {"look first": {"value": {"dry_run": True}}, "do it": {"value": {"dry_run": False}}}),
}
