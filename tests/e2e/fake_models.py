"""A model server for Claude Code and Codex: it calls `recall` once, if that is offered, and then says a line."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        models.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield models
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[str]

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(b'{"data":[],"models":[]}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        sent = json.loads(body or "{}")
        is_claude = "/messages" in self.path
        if not is_claude and "/responses" not in self.path:
            self._answer(b"{}")
            return
        self.asked.append(body)
        events = _speak_anthropic(sent, body) if is_claude else _speak_openai(body)
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._answer(text.encode(), "text/event-stream")

    def _answer(self, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


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
