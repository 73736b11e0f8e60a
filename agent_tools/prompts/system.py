"""The part of a system prompt that explains recall and research to an agent."""

from typing import Final

KNOWLEDGE_MANAGEMENT_PROMPT: Final = """\
## 知识管理

当你使用 `goal(action="focus")` 聚焦到某个 goal 时,系统会自动检索相关知识并显示在 GoalTree 的「📚 相关知识」部分。

根据知识充足性判断:

**知识充足**:
- 如果相关知识足以完成任务,直接制定计划
- 使用 `goal` 工具创建执行计划的子 goal

**知识不足**:
- 如果相关知识不足,需要进行调研
- 调用 `agent` 工具启动调研子任务
- 调研完成后,使用 `knowledge_save` 保存结果

调研完成后,再次 focus 该 goal,新保存的知识会被自动注入。
"""
