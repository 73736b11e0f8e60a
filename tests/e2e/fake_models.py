"""A model server for Claude Code and Codex: it calls `recall` once, if that is offered, and then says a line."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.local_server import LocalHandler, run_local_server

_LINE = "It is noted."
_QUERY = {"query": "indent with tabs or spaces"}
Events = list[Mapping[str, Any]]


@dataclass(slots=True)
class FakeModels:
    """Where it listens, and the bodies that it was sent, oldest first."""

    url: str
    asked: list[str] = field(default_factory=list)


@contextmanager
def running_models() -> Iterator[FakeModels]:
    """Run a server until the end of the block."""
    models = FakeModels("")

    class Handler(_Handler):
        asked = models.asked

    with run_local_server(Handler) as models.url:
        yield models


class _Handler(LocalHandler):
    asked: list[str]

    def respond(self, body: bytes) -> None:
        is_claude = "/messages" in self.path
        if self.command != "POST":
            self.answer(b'{"data":[],"models":[]}' if self.command == "GET" else b"")
            return
        if not is_claude and "/responses" not in self.path:
            self.answer(b"{}")
            return
        text = body.decode()
        self.asked.append(text)
        events = _speak_anthropic(json.loads(text or "{}"), text) if is_claude else _speak_openai(text)
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.answer(stream.encode(), "text/event-stream")


def _speak_anthropic(sent: Mapping[str, Any], body: str) -> Events:
    calls = "mcp__knowhub__recall" in body and '"tool_result"' not in body
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": _LINE}
    if calls:
        block = {"type": "tool_use", "id": "toolu_1", "name": "mcp__knowhub__recall", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(_QUERY)}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": sent.get("model"),
        "content": [],
    }
    usage = {"input_tokens": 1, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use" if calls else "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def _speak_openai(body: str) -> Events:
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "msg_1"}
    item["content"] = [{"type": "output_text", "text": _LINE, "annotations": []}]
    if "mcp__knowhub" in body and "function_call_output" not in body:
        call = {"name": "recall", "namespace": "mcp__knowhub", "call_id": "call_1", "arguments": json.dumps(_QUERY)}
        item = {"type": "function_call", "id": "fc_1", "status": "completed", **call}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
