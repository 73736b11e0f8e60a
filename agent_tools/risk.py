"""Tell from its name whether a tool changes something. The host of an agent has tools that KnowHub does not know."""

import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# With interpreters and shells: their names do not say what they run. An unnecessary recall costs one search.
_CHANGING: Final = re.compile(
    r"accept|add|ansible|append|apply|approve|archive|assign|attach|ban|bash|block|book|buy|cancel|change|charge|"
    r"checkout|chmod|chown|clear|click|clone|close|cmd|command|comment|commit|complete|computer|console|copy|"
    r"create|decline|delete|deploy|destroy|detach|disable|download|drag|drain|drop|edit|empty|enable|encrypt|erase|"
    r"evaluate|exec|execute|fill|flush|format|forward|grant|import|insert|install|interpreter|invite|invoke|kick|"
    r"kill|kubectl|launch|lock|login|logout|mark|merge|migrate|mint|mkdir|modify|move|mute|mv|notify|order|"
    r"overwrite|patch|pay|post|powershell|press|provision|publish|purge|push|put|python|rebase|reboot|refund|"
    r"register|reject|release|remove|rename|reopen|replace|reply|reserve|reset|resolve|restart|restore|retry|"
    r"revoke|rm|rollback|rotate|run|save|scale|schedule|sell|send|set|sh|share|shell|sign|spawn|start|stash|stop|"
    r"submit|subscribe|sudo|swipe|tap|tee|terminal|terminate|terraform|touch|trade|transfer|trigger|truncate|tweet|"
    r"type|unblock|undo|uninstall|unlink|unlock|unsubscribe|update|upgrade|upload|upsert|wipe|withdraw|write|zsh"
)
_CHANGING_HAN: Final = re.compile(
    "写|删|改|发|付|提交|创建|新建|新增|添加|建表|上传|下载|执行|运行|安装|卸载|部署|登录|注册|购买|下单|预订|订购|转账|退款|移动"
    "|覆盖|清空|清除|重启|重置|启动|启用|停止|停用|禁用|关闭|更新|升级|替换|合并|保存|取消|撤销|回滚|回复|评论|点击|勾选|填|审批"
    "|批准|拒绝|授权|格式化"
)


def is_write_like(tool_name: str) -> bool:
    """Return whether a tool may change something outside, such as `send_email`, `deleteFile`, `提交表单`."""
    words = (word.lower() for word in _WORDS.findall(tool_name))
    return any(_CHANGING.fullmatch(word) for word in words) or _CHANGING_HAN.search(tool_name) is not None
