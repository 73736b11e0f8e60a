"""A scripted model behind OpenAI's interface, so that examples/agent_run.py works without a real one.

    python examples/scripted_model.py --port 9100          # then KNOWHUB_LLM_BASE_URL=http://127.0.0.1:9100/v1

It knows only what stands in the messages. It follows the first record that it is shown. Where that is refused, it does
what the refusal says, saves it, and reports that the record misled it.
"""

import argparse
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_BODY_BYTES = 8 * 1024 * 1024


def answer(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's next message."""
    done = [call["function"] for message in messages for call in message.get("tool_calls") or []]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    step = _decide(_find_task(messages), done, results, _find_work_tool(tools))
    if step is None:
        return {"role": "assistant", "content": "Done."}
    function = {"name": step[0], "arguments": json.dumps(step[1], ensure_ascii=False)}
    call = {"id": f"call-{len(done)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def make_server(port: int = 0) -> ThreadingHTTPServer:
    """Make a server on this port of 127.0.0.1; 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), _Handler)


def _decide(task: str, done: list[dict[str, str]], results: list[str], work: str) -> tuple[str, dict[str, Any]] | None:
    names = [call["name"] for call in done]
    if not names:
        return "goal", {"action": "create", "goal_id": "g", "description": task}
    if len(names) == 1:
        return "goal", {"action": "focus", "goal_id": "g"}
    if len(names) == 2:  # noqa: PLR2004 -- the goal is created and focused
        return work, {"how": _read_first(results[1], "content") or task}
    was_refused = "What works: " in results[2]
    last, arguments = names[-1], json.loads(done[-1]["arguments"])
    next_step: tuple[str, dict[str, Any]] | None = None
    if last == work and "What works: " in results[-1]:
        next_step = work, {"how": results[-1].split("What works: ")[1]}
    elif last == work and was_refused:
        next_step = "knowledge_save", {"task": task, "content": arguments["how"], "types": ["strategy"]}
    elif last != "goal":
        tag = _read_first(results[1], "tag")
        used = "none" if not tag else f"!{tag}" if was_refused else tag
        next_step = "goal", {"action": "complete", "goal_id": "g", "outcome": "done", "used": used}
    return next_step


def _find_task(messages: list[dict[str, Any]]) -> str:
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    return str(prompt).rsplit("Task: ", 1)[-1]


def _find_work_tool(tools: list[dict[str, Any]]) -> str:
    names = [str(tool["function"]["name"]) for tool in tools]
    return next(name for name in names if name != "goal" and not name.startswith("knowledge_"))


def _read_first(text: str, field: str) -> str:
    found = re.search(rf"^\| {field}: (.*)", text, re.MULTILINE)
    return found[1] if found else ""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES)
        asked = json.loads(self.rfile.read(length))
        body = json.dumps({"choices": [{"message": answer(asked["messages"], asked["tools"])}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a scripted model with OpenAI's interface.")
    parser.add_argument("--port", type=int, default=9100)
    make_server(parser.parse_args().port).serve_forever()
