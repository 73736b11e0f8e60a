"""The prompt with which an agent reviews its work and saves what it learned."""

from typing import Final

KNOWLEDGE_EXTRACTION_PROMPT: Final = """\
## 知识反思

回顾以上对话，找出以后还用得到的内容。没有就不保存；不确定的不保存。

**值得保存**：
- 用户明确表达的偏好、习惯、背景、约束 → `user_profile`（tags.category：
  preference、habit、background、constraint）
- 工具失败的原因，以及改用什么之后成功 → `tool`
- 从执行过程反思得到的经验、根本原因、用户的纠正 → `strategy`
- 背景、采用的方案、步骤、效果 → `usecase`
- 概念在这里的含义 → `definition`
- 流程步骤、决策点 → `plan`

**不要保存**：
- 提问、闲聊、只对这一次有效的要求、假设、引用别人的话、常识
- 「📚 相关知识」和 knowledge_search 给出的内容：它们已经在知识库里

**提交顺序（先 Resource，后 Knowledge）**：
1. 识别需要单独存放的 Resource：复杂代码（content_type=code）、账号密码和密钥
  （content_type=credential）、Cookie 和登录态（content_type=cookie，注明 expires_at）。
2. 先调用 `resource_save` 提交每个 Resource，得到它的 id。
  敏感内容只放进 secure_body，不要写进 title、body 或任何 knowledge。
3. 再调用 `knowledge_save`：task 写场景和目标，content 写一条完整的经验，
  resource_ids 列出第 2 步得到的 id。

一条知识只写一件事，用对话所用的语言，并附上 message_id。
"""
