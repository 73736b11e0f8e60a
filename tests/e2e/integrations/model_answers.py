"""A server in the place of a vendor of models: it gives prepared answers in their order, on whatever path is asked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.e2e.local_server import LocalHandler, run_local_server

Answer = Mapping[str, Any]


@contextmanager
def run_model(answers: Sequence[Answer]) -> Iterator[tuple[str, list[Any]]]:
    """Run it until the end of the block. Gives its address, and the bodies that it was sent."""
    left, asked = iter(answers), list[Any]()

    class Handler(LocalHandler):
        def respond(self, body: bytes) -> None:
            asked.append(json.loads(body or b"null"))
            self.answer(json.dumps(next(left, {"error": {"message": "no answer is left"}})).encode())

    with run_local_server(Handler) as url:
        yield url, asked


def anthropic(*content: Answer) -> Answer:
    """Return an answer of Anthropic's interface with blocks of content."""
    reason = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None}
    return {**head, "content": list(content), "stop_reason": reason, "usage": usage}


def openai_response(text: str) -> Answer:
    """Return an answer of OpenAI's Responses."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    head = {"id": "resp_1", "object": "response", "created_at": 0, "model": "scripted", "status": "completed"}
    options = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
    return {**head, **options, "output": [message]}


def openai_chat(text: str | None = None, **calls: Answer) -> Answer:
    """Return an answer of OpenAI's chat completions: a text, or calls of tools by their names."""
    named = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls.items()]
    asked = [{"id": f"call_{place}", "type": "function", "function": call} for place, call in enumerate(named)]
    message = {"role": "assistant", "content": text, "refusal": None} | ({"tool_calls": asked} if asked else {})
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if asked else "stop"}
    return {"id": "chat_1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
