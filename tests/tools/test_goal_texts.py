"""The texts that go into an agent's prompt, and which tools count as changing something."""

import pytest

from agent_tools.prompts.system import KNOWLEDGE_MANAGEMENT_PROMPT
from agent_tools.risk import is_write_like
from agent_tools.skill_texts import load_skill


def test_the_system_prompt_has_its_agreed_text() -> None:
    lines = KNOWLEDGE_MANAGEMENT_PROMPT.splitlines()

    assert lines[0] == "## 知识管理"
    assert lines[2] == (
        '当你使用 `goal(action="focus")` 聚焦到某个 goal 时,系统会自动检索相关知识并显示在 GoalTree 的'
        "「📚 相关知识」部分。"
    )
    assert lines[-1] == "调研完成后,再次 focus 该 goal,新保存的知识会被自动注入。"


def test_the_research_skill_is_loaded_and_an_unknown_skill_is_refused() -> None:
    assert load_skill("research").startswith("# 调研 Skill")
    with pytest.raises(ValueError, match="research"):
        load_skill("../research")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("send_email", True),
        ("deleteFile", True),
        ("http_POST", True),
        ("提交表单", True),
        ("shell", True),
        ("bash", True),
        ("python_repl", True),
        ("code_interpreter", True),
        ("kubectl", True),
        ("mkdir", True),
        ("reply_email", True),
        ("git_checkout", True),
        ("clear_cache", True),
        ("startJob", True),
        ("download_file", True),
        ("更新记录", True),
        ("添加用户", True),
        ("取消订单", True),
        ("点击按钮", True),
        ("停止服务", True),
        ("回复邮件", True),
        ("统计用户", False),
        ("grep", False),
        ("git_status", False),
        ("describe_table", False),
        ("read_file", False),
        ("list_deployments", False),
        ("searchWeb", False),
        ("getSettings", False),
        ("查询余额", False),
    ],
)
def test_tools_that_change_something_are_recognized_by_name(name: str, changes: bool) -> None:
    assert is_write_like(name) is changes
