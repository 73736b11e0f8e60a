"""Whether a text orders whoever reads it to do or to remember something."""

import re
from collections.abc import Sequence
from typing import Final

from knowhub.conversations.language.sentence_ends import iter_sentences
from knowhub.conversations.statements.forms import INSTRUCTION, REQUEST

# The memory of an agent, not of a computer.
_OF_MEMORY: Final = re.compile(
    r"\bremember|\bmemori(?:es|[sz]e)\b|\b(?:your|its|agent(?:'?s)?|assistant(?:'?s)?|long[- ]term|to|into"
    r"|update) memory\b|记住|记忆|牢记",
    re.IGNORECASE,
)
# An order to whoever reads it. «The package must be installed» reports.
_ORDER: Final = re.compile(
    r"\b(?:assistants?|agents?|ais?|models?|bots?|everybody|everyone) (?:ha(?:ve|s)|needs?|are|is) to\b"
    r"|\b(?:you|assistants?|agents?|ais?|models?|bots?|everybody|everyone|(?:all|every) \w{1,20}) "
    r"(?:always|never|must|shall|should)\b|\bmust (?!(?:not )?(?:be|have)\b)"
    r"|\b(?:make sure|ensure) that (?:you|the \w{1,20}|all)\b|务必|请(?:始终|总是|一直|永远)"
    r"|(?:你|您|助手|助理|智能体|代理|模型|机器人|所有人|大家)[^，,。\n]{0,8}(?:必须|应[当该]|要|不得|禁止)"
)
_AGENT: Final = re.compile(r"\b(?:assistant|agent|ai)s?\b|助手|助理|智能体")

_COMMAND: Final = re.compile(
    r"(?:\b(?:run|execute|curl|wget|download|install|visit|open|fetch)\b|运行|执行|下载|安装|访问|打开)"
    r"(?!:)[^\n。]{0,60}?(?:https?://|www\.)",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s，。；）)]+")
_TOKEN: Final = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff][^\s\u4e00-\u9fff]*")
_RUN_TOKENS: Final = 4


def is_order(text: str, category: str = "") -> bool:
    """Return whether a text is a standing instruction or an order. A case may say what must be done to succeed."""
    plain = text.lower()
    is_addressed = category != "cases" or _AGENT.search(plain) is not None
    return INSTRUCTION.search(plain) is not None or (is_addressed and _ORDER.search(plain) is not None)


def is_ordered_by_tool(sentence: str, category: str = "") -> bool:
    """Return whether a sentence of a tool gives orders. Anybody may have written it, so it counts as a report only."""
    is_of_memory = _OF_MEMORY.search(sentence) or REQUEST.search(sentence)
    return is_of_memory is not None or is_order(sentence, category)


def list_tool_orders(answer: str) -> list[str]:
    """Return the sentences of a tool's answer that order something, or to call an address."""
    sentences = (sentence for sentence, _ in iter_sentences(answer.lower().replace("’", "'")))
    return [said for said in sentences if is_ordered_by_tool(said, "cases") or _COMMAND.search(said)]


def repeats_order(text: str, orders: Sequence[str]) -> bool:
    """Return whether an agent's text is a standing order, or repeats an address or four words of a tool's orders.

    A standing order needs a user's words. Where tools give orders, it repeats every order.
    """
    runs = {run for order in orders for run in _list_runs(order)}
    is_repeated = bool(orders) and (bool(list_tool_orders(text)) or not runs.isdisjoint(_list_runs(text.lower())))
    return is_repeated or any(is_order(said, "cases") for said, _ in iter_sentences(text.replace("’", "'")))


def _list_runs(text: str) -> list[tuple[str, ...]]:
    tokens = [token.rstrip(".,;:!?`'\")") for token in _TOKEN.findall(text)]
    runs = zip(*(tokens[at:] for at in range(_RUN_TOKENS)), strict=False)
    return [*runs, *((address,) for address in _ADDRESS.findall(text))]
