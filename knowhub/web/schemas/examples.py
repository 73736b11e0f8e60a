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

# Ids that stand in examples for those of a tree; the test that executes them puts real ones in their place.
KEYWORD_ID, OTHER_KEYWORD_ID = "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0aa", "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0ab"
_ASYNCIO = {"content": "asyncio.gather 并发等待多个协程；异常默认向上抛出。", "source": "https://docs.python.org"}

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
            "it taught something": {"value": {"evolve_feedback": "新版需要先调用 driver.get，再等待元素"}},
            "it did harm": {"value": {"add_harmful_case": {"outcome": "banned", "reason": "too many requests"}}},
        },
    ),
    "slim": (_JSON, {"see what would be merged": {"value": {"dry_run": True}}}),
    "outcome": (
        _JSON,
        {
            "the goal was reached": {
                "value": {
                    "session_id": "trace-2026-03-05",
                    "goal_id": "goal-123",
                    "is_helpful": True,
                    "case": {"task": "登录某网站", "outcome": "成功"},
                }
            }
        },
    ),
    "extract": (
        _JSON,
        {
            "what a user prefers": {
                "value": {
                    "messages": [
                        {"role": "user", "content": "请以后都用中文回答我。", "message_id": "msg-1"},
                        {"role": "assistant", "content": "好的。"},
                    ],
                    "trigger": "user_expression",
                    "user_id": "123",
                    "project_id": "456",
                    "agent_id": "general_assistant",
                    "trace_id": "trace-xxx",
                }
            },
            "a look before messages are compacted": {
                "value": {
                    "messages": [
                        {"role": "tool", "name": "bash", "content": "Error: EACCES: permission denied"},
                        {"role": "assistant", "content": "I will install with a user prefix instead."},
                        {"role": "tool", "name": "bash", "content": "added 12 packages"},
                    ],
                    "dry_run": True,
                }
            },
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
    "keyword": (
        _JSON,
        {
            "under a parent": {"value": {"name": "异步编程", "parent_id": KEYWORD_ID, "aliases": ["async", "asyncio"]}},
            "the least that works": {"value": {"name": "Python"}},
            "exactly there": {"value": {"name": "C++", "parent_id": "root", "llm_auto_place": False}},
        },
    ),
    "keyword_batch": (
        _JSON,
        {
            "a branch": {
                "value": {
                    "items": [
                        {
                            "name": "编程语言",
                            "ref": "languages",
                            "description": "What programs are written in.",
                        },
                        {"name": "Rust", "parent_ref": "languages", "aliases": ["rustlang"]},
                        {"name": "C#", "parent_ref": "languages", "aliases": ["C Sharp"]},
                    ]
                }
            }
        },
    ),
    "keyword_patch": (
        _JSON,
        {"say what it is": {"value": {"description": "事件循环、协程、任务。", "metadata": {"icon": "loop"}}}},
    ),
    "move": (_JSON, {"to the top": {"value": {"new_parent_id": "root"}}}),
    "merge": (_JSON, {"into another": {"value": {"into": OTHER_KEYWORD_ID}}}),
    "alias": (_JSON, {"in another script": {"value": {"alias": "异步"}}}),
    "reorganize": (_JSON, {"all of it": {"value": {}}, "one branch": {"value": {"scope_id": KEYWORD_ID}}}),
    "apply_plan": (
        _JSON,
        {
            "one step of it": {
                "value": {
                    "plan": {
                        "steps": [
                            {
                                "kind": "describe",
                                "node": {"id": KEYWORD_ID, "version": 1},
                                "description": "编写程序所用的语言。",
                            }
                        ]
                    }
                }
            }
        },
    ),
    "info": (
        _JSON,
        {
            "for a keyword": {"value": {**_ASYNCIO, "keyword_ids": [KEYWORD_ID]}},
            "for what it names": {"value": {"content": "Python 3.13 可以关闭 GIL。", "auto_link": True}},
        },
    ),
    "info_batch": (
        _JSON,
        {"two infos": {"value": {"items": [{**_ASYNCIO, "keyword_ids": [KEYWORD_ID]}, {"content": "PEP 703"}]}}},
    ),
    "info_patch": (_JSON, {"mend it": {"value": {"content": "asyncio.TaskGroup 自 3.11 起更稳妥。"}}}),
    "key": (
        _JSON,
        {
            "an agent of a user": {
                "value": {"user_id": "li", "agent_id": "crawler", "role": "writer", "team_ids": ["web"]}
            },
            "who only reads, for a while": {
                "value": {"account": "acme", "user_id": "guest", "role": "reader", "expires_at": "2099-12-31"}
            },
        },
    ),
    "resource": (
        _JSON,
        {
            "code": {
                "value": {
                    "id": "code/selenium/undetected_login",
                    "title": "Selenium 绕过检测登录代码",
                    "body": "import undetected_chromedriver as uc\n\ndriver = uc.Chrome()",
                    "content_type": "code",
                    "metadata": {"language": "python"},
                }
            },
            "a credential": {
                "value": {
                    "id": "credentials/website_a",
                    "title": "某网站测试账号",
                    "body": "使用方法：直接登录即可，每天限额 100 次",
                    "secure_body": "账号：user@example.com\n密码：SecurePass123",
                    "content_type": "credential",
                    "metadata": {"acquired_at": "2026-03-06T10:00:00Z"},
                    "scopes": ["project:crawler"],
                }
            },
        },
    ),
    "resource_patch": (
        _JSON,
        {
            "a new cookie": {
                "value": {"secure_body": "session_id=def456", "expires_at": "2026-03-08T10:00:00Z"},
            },
            "nothing sealed any more": {"value": {"secure_body": None}},
        },
    ),
    "commit": (
        _JSON,
        {
            "a session with its tools": {
                "value": {
                    "session_id": "2026-03-05-login",
                    "user_id": "li",
                    "agent_id": "crawler",
                    "messages": [
                        {
                            "role": "user",
                            "content": "以后报告一律用中文，附上 CSV 文件名。",
                            "message_id": "m-1",
                            "timestamp": "2026-03-05T09:00:00Z",
                        },
                        {"role": "tool", "name": "site_login", "content": "refused: captcha", "message_id": "m-2"},
                        {"role": "assistant", "content": "打开登录页后先等待 2 秒，再提交表单。", "message_id": "m-3"},
                    ],
                    "used_tools": [{"name": "site_login", "ok": False, "seconds": 1.2, "call_id": "c-1"}],
                }
            },
            "the plan, before anything is written": {
                "value": {
                    "session_id": "a-look",
                    "messages": [{"role": "user", "content": "I prefer answers in English."}],
                    "options": {"dry_run": True},
                }
            },
        },
    ),
    "node_patch": (
        _JSON,
        {"say it better": {"value": {"abstract": "报告用中文", "overview": "报告一律用中文，附上 CSV 文件名。"}}},
    ),
    "retry": (_JSON, {"once more": {"value": {}}}),
    "distill": (_JSON, {"look first": {"value": {"dry_run": True}}, "do it": {"value": {}}}),
    "link": (_JSON, {"an example of it": {"value": {"relation": "EXAMPLE", "created_by": "agent"}}}),
}
