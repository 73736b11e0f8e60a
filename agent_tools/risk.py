"""Which tools change something, told by their names: an agent's host has tools that KnowHub has never seen."""

import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CHANGING: Final = re.compile(
    r"add|append|apply|approve|book|buy|cancel|change|charge|chmod|chown|click|close|commit|copy|create|delete|"
    r"deploy|destroy|disable|drop|edit|enable|erase|exec|execute|fill|format|grant|import|insert|install|"
    r"invoke|kill|login|logout|merge|migrate|modify|move|mv|order|overwrite|patch|pay|post|publish|purge|push|"
    r"put|reboot|rebase|register|release|remove|rename|replace|reset|restart|restore|revoke|rm|rotate|run|save|"
    r"schedule|send|set|shell|sign|stop|submit|terminate|transfer|truncate|type|uninstall|update|upgrade|"
    r"upload|upsert|withdraw|write"
)
_CHANGING_HAN: Final = re.compile(
    "写|删|改|发|付|提交|创建|上传|执行|安装|部署|登录|注册|购买|转账|移动|覆盖|清空|重启"
)


def is_write_like(tool_name: str) -> bool:
    """Tell whether a tool of this name may change something outside: `send_email`, `deleteFile`, `提交表单`."""
    words = (word.lower() for word in _WORDS.findall(tool_name))
    return any(_CHANGING.fullmatch(word) for word in words) or _CHANGING_HAN.search(tool_name) is not None
