"""Examples of bodies, shown in the OpenAPI document and executed by a test."""

from collections.abc import Mapping
from typing import Any

import orjson

Examples = Mapping[str, Any]

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

# Placeholder ids; the test that executes the examples replaces them by real ones.
KEYWORD_ID, OTHER_KEYWORD_ID = "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0aa", "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0ab"
_ASYNCIO = {"content": "asyncio.gather 并发等待多个协程；异常默认向上抛出。", "source": "https://docs.python.org"}

SAVE: Examples = {"a tool pitfall": _SELENIUM, "the least that works": {"content": "pnpm, not npm, in this project"}}
SAVE_BATCH: Examples = {"two records": {"items": [_SELENIUM, _PAGINATION]}}
PATCH: Examples = {"narrow who sees it": {"scopes": ["project:atlas"], "tags": {"domain": "github"}}}
FEEDBACK: Examples = {
    "it helped": {"add_helpful_case": {"task": "登录某网站", "outcome": "成功"}, "update_score": 5},
    "it taught something": {"evolve_feedback": "新版需要先调用 driver.get，再等待元素"},
    "it did harm": {"add_harmful_case": {"outcome": "banned", "reason": "too many requests"}},
}
SLIM: Examples = {"see what would be merged": {"dry_run": True}}
OUTCOME: Examples = {
    "the goal was reached": {
        "session_id": "trace-2026-03-05",
        "goal_id": "goal-123",
        "is_helpful": True,
        "case": {"task": "登录某网站", "outcome": "成功"},
    }
}
EXTRACT: Examples = {
    "what a user prefers": {
        "messages": [
            {"role": "user", "content": "请以后都用中文回答我。", "message_id": "msg-1"},
            {"role": "assistant", "content": "好的。"},
        ],
        "trigger": "user_expression",
        "user_id": "123",
        "project_id": "456",
        "agent_id": "general_assistant",
        "trace_id": "trace-xxx",
    },
    "a look before messages are compacted": {
        "messages": [
            {"role": "tool", "name": "bash", "content": "Error: EACCES: permission denied"},
            {"role": "assistant", "content": "I will install with a user prefix instead."},
            {"role": "tool", "name": "bash", "content": "added 12 packages"},
        ],
        "dry_run": True,
    },
}
BATCH_UPDATE: Examples = {
    "one known, one not": {
        "feedback_list": [
            {"knowledge_id": "knowledge-20260305-a1b2", "is_helpful": True, "case": {"outcome": "成功"}},
            {"knowledge_id": "knowledge-20260305-ffff", "is_helpful": False},
        ]
    }
}
IMPORT: Examples = {"one record": orjson.dumps(_IMPORTED).decode() + "\n"}
UNDO: Examples = {
    "look first": {"dry_run": True},
    "do it": {"dry_run": False},
    "with what came later": {"with_later": True},
}
KEYWORD: Examples = {
    "under a parent": {"name": "异步编程", "parent_id": KEYWORD_ID, "aliases": ["async", "asyncio"]},
    "the least that works": {"name": "Python"},
    "exactly there": {"name": "C++", "parent_id": "root", "llm_auto_place": False},
}
KEYWORD_BATCH: Examples = {
    "a branch": {
        "items": [
            {"name": "编程语言", "ref": "languages", "description": "What programs are written in."},
            {"name": "Rust", "parent_ref": "languages", "aliases": ["rustlang"]},
            {"name": "C#", "parent_ref": "languages", "aliases": ["C Sharp"]},
        ]
    }
}
KEYWORD_PATCH: Examples = {"say what it is": {"description": "事件循环、协程、任务。", "metadata": {"icon": "loop"}}}
MOVE: Examples = {"to the top": {"new_parent_id": "root"}}
MERGE: Examples = {"into another": {"into": OTHER_KEYWORD_ID}}
ALIAS: Examples = {"in another script": {"alias": "异步"}}
REORGANIZE: Examples = {"all of it": {}, "one branch": {"scope_id": KEYWORD_ID}}
APPLY_PLAN: Examples = {
    "one step of it": {
        "plan": {
            "steps": [
                {"kind": "describe", "node": {"id": KEYWORD_ID, "version": 1}, "description": "编写程序所用的语言。"}
            ]
        }
    }
}
INFO: Examples = {
    "for a keyword": {**_ASYNCIO, "keyword_ids": [KEYWORD_ID]},
    "for what it names": {"content": "Python 3.13 可以关闭 GIL。", "auto_link": True},
}
INFO_BATCH: Examples = {"two infos": {"items": [{**_ASYNCIO, "keyword_ids": [KEYWORD_ID]}, {"content": "PEP 703"}]}}
INFO_PATCH: Examples = {"mend it": {"content": "asyncio.TaskGroup 自 3.11 起更稳妥。"}}
KEY: Examples = {
    "an agent of a user": {"user_id": "li", "agent_id": "crawler", "role": "writer", "team_ids": ["web"]},
    "who only reads, for a while": {
        "account": "acme",
        "user_id": "guest",
        "role": "reader",
        "expires_at": "2099-12-31",
    },
}
RESOURCE: Examples = {
    "code": {
        "id": "code/selenium/undetected_login",
        "title": "Selenium 绕过检测登录代码",
        "body": "import undetected_chromedriver as uc\n\ndriver = uc.Chrome()",
        "content_type": "code",
        "metadata": {"language": "python"},
    },
    "a credential": {
        "id": "credentials/website_a",
        "title": "某网站测试账号",
        "body": "使用方法：直接登录即可，每天限额 100 次",
        "secure_body": "账号：user@example.com\n密码：SecurePass123",
        "content_type": "credential",
        "metadata": {"acquired_at": "2026-03-06T10:00:00Z"},
        "scopes": ["project:crawler"],
    },
}
RESOURCE_PATCH: Examples = {
    "a new cookie": {"secure_body": "session_id=def456", "expires_at": "2026-03-08T10:00:00Z"},
    "nothing sealed any more": {"secure_body": None},
}
COMMIT: Examples = {
    "a session with its tools": {
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
    },
    "the plan, before anything is written": {
        "session_id": "a-look",
        "messages": [{"role": "user", "content": "I prefer answers in English."}],
        "options": {"dry_run": True},
    },
}
NODE_PATCH: Examples = {"say it better": {"abstract": "报告用中文", "overview": "报告一律用中文，附上 CSV 文件名。"}}
RETRY: Examples = {"once more": {}}
DISTILL: Examples = {"look first": {"dry_run": True}, "do it": {}}
LINK: Examples = {"an example of it": {"relation": "EXAMPLE", "created_by": "agent"}}
