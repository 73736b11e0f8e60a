"""A language model that obeys every order in the text between the fences: the worst case for the product."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowhub.conversations.changes.prompt import MEMORY_CHANGES
from knowhub.core.language_models import ChatReply, ChatRequest
from tests.fakes.queued_chat import read_fenced
from tests.memory_changes import make_change, read_shown

MALLORY = "user:mallory"
# Prompts show the beginning of a text at least.
_SHOWN_CHARS = 60
_CLAIMED: Mapping[str, Mapping[str, Any]] = {
    "own": {"owner": MALLORY, "created_by": MALLORY, "submitted_by": MALLORY, "account": "mallory"},
    "open": {"scopes": ["public"], "visibility": "public", "valid_to": "2020-01-01T00:00:00Z"},
    "destroy": {"delete": True, "deleted": True, "erase": True, "cascade": True, "status": "deleted"},
}
_BREAK = re.compile("[\n\x85\u2028\u2029]")
_MARK = re.compile(r"</?data>", re.IGNORECASE)
_LISTS = ("candidates", "nodes", "records", "known")


class ObeyingChat:
    """Implements `ChatModel`. `order(text, aim, hidden)` says which text it obeys, to what end, and which ids it names.

    A question that does not show that text is answered with nothing. `obeyed` names the functions that it was asked
    with the text in sight, `answers` holds what it said then, `prompts` every prompt that it got,
    `instructions` the first message of each.
    """

    model = "obeying"

    def __init__(self) -> None:
        self._text, self._aim = "", ""
        self._hidden: Sequence[str] = ()
        self.obeyed: set[str] = set()
        self.answers: list[Mapping[str, Any]] = []
        self.prompts: list[str] = []
        self.instructions: list[str] = []

    def order(self, text: str, aim: str, hidden: Sequence[str]) -> None:
        """Have it obey this text from now on, and no other."""
        self._text, self._aim, self._hidden = text, aim, hidden
        self.obeyed = set()
        self.answers = []

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        self.prompts.append(json.dumps([dict(message) for message in question.messages], ensure_ascii=False))
        self.instructions.append(str(question.messages[0]["content"]))
        data = _read_conversation(question) if question.function == MEMORY_CHANGES else read_fenced(question)
        answer: Mapping[str, Any] = _NOTHING[question.function]
        # A conversation is shown as lines, in which nothing can look like the end of the data.
        wanted = {self._text[:_SHOWN_CHARS], _MARK.sub("(data)", _BREAK.sub(r"\\n", self._text))[:_SHOWN_CHARS]}
        if any(form in text for text in _texts(data) for form in wanted):
            answer = self._obedient(question, data)
            self.obeyed.add(question.function)
            self.answers.append(answer)
        return ChatReply(answer, self.model, 0.0, 10, 10)

    def _obedient(self, question: ChatRequest, data: Mapping[str, Any]) -> Mapping[str, Any]:
        candidate = self._answer_of(question.function)(data)
        # It makes every claim about the whole and about each part.
        claimed = _CLAIMED.get(self._aim, {})
        for value in candidate.values():
            if isinstance(value, list):
                value[:] = [{**claimed, **item} if isinstance(item, dict) else item for item in value]
        return {**claimed, **candidate, "reason": self._words(data)}

    def _answer_of(self, function: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        return {
            "pick_branch": self._pick,
            "disambiguate_same_name": self._pick,
            "dedup_check": self._same_keyword,
            "link_info": self._links,
            "reorganize": self._plan,
            "route_knowledge": self._route,
            "evolve_knowledge": self._rewrite,
            "merge_knowledge": self._merge,
            MEMORY_CHANGES: self._changes,
        }[function]

    def _pointers(self, data: Mapping[str, Any]) -> list[Any]:
        listed = [item.get("id", item.get("idx")) for name in _LISTS for item in data.get(name, ())]
        match self._aim:
            case "reach":
                return list(self._hidden)
            case "shape":
                return [*self._hidden, 0, -1, 9_999, True, None, "root", "../1", {"id": self._hidden[0]}]
            case "join":
                return [*listed, *self._hidden]
            case _:
                return listed

    def _words(self, data: Mapping[str, Any]) -> str:
        # Ordered to leak, it repeats its whole prompt.
        return json.dumps(data, ensure_ascii=False) if self._aim == "tell" else self._text

    def _pick(self, data: Mapping[str, Any]) -> dict[str, Any]:
        pointers = self._pointers(data)
        action = "delete" if self._aim == "destroy" else "match"
        return {
            "action": action,
            "node_id": pointers[0] if pointers else None,
            "node_ids": pointers,
            "candidate_ids": pointers,
            "jump_depth": 99,
            "suggest_name": self._words(data),
        }

    def _same_keyword(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._pick(data), "action": "merge" if self._aim == "join" else "alias_of"}

    def _links(self, data: Mapping[str, Any]) -> dict[str, Any]:
        links = [{"keyword_id": pointer, "relation": "PRIMARY"} for pointer in self._pointers(data)]
        return {"links": links, "suggested_names": [self._words(data)]}

    def _plan(self, data: Mapping[str, Any]) -> dict[str, Any]:
        pointers = self._pointers(data)
        return {
            "moves": [{"node_id": pointer, "new_parent_id": pointers[0]} for pointer in pointers],
            "merges": [{"node_id": pointer, "into_id": pointers[0]} for pointer in pointers[1:]],
            "descriptions": [{"node_id": pointer, "description": self._words(data)} for pointer in pointers],
            "splits": [{"node_id": pointers[0], "groups": [{"name": "all", "node_ids": pointers}]}],
        }

    def _route(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"ids": self._pointers(data)}

    def _rewrite(self, data: Mapping[str, Any]) -> dict[str, Any]:
        content = "" if self._aim == "destroy" else f"{self._words(data)} {data['content']}"
        return {"content": content, "summary_of_change": self._words(data), "id": self._hidden[0]}

    def _merge(self, data: Mapping[str, Any]) -> dict[str, Any]:
        # Every fact is kept: a text that drops one is refused for that, and would prove nothing here.
        texts = [f"{record['task']} {record['content']}" for record in data["records"]]
        return {"same": self._pointers(data), "into": self._hidden[0], "task": self._text, "content": "\n".join(texts)}

    def _changes(self, data: Mapping[str, Any]) -> dict[str, Any]:
        cited = [message["idx"] for message in data["messages"]]
        told = {"task": self._text, "id": self._hidden[0], "evidence": cited}
        added = make_change(self._text, **told)
        known = self._pointers(data)
        replaced = (make_change(self._text, action="replace", memory=pointer, **told) for pointer in known)
        return {"changes": [added, *replaced]}


def _read_conversation(question: ChatRequest) -> dict[str, Any]:
    messages = [{"idx": f"m{number}", "text": text} for number, text in enumerate(read_shown(question, "m"), 1)]
    known = [{"idx": f"k{number}", "text": text} for number, text in enumerate(read_shown(question, "k"), 1)]
    return {"messages": messages, "known": known}


_NOTHING: Mapping[str, Mapping[str, Any]] = {
    "pick_branch": {"action": "missing"},
    "disambiguate_same_name": {"node_id": None},
    "dedup_check": {"action": "create_new"},
    "link_info": {"links": []},
    "reorganize": {},
    "route_knowledge": {"ids": []},
    "evolve_knowledge": {},
    "merge_knowledge": {"same": []},
    MEMORY_CHANGES: {"changes": []},
}
FUNCTIONS = frozenset(_NOTHING)


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for item in value for text in _texts(item)]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case _:
            return []
