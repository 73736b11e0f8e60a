"""An OpenAI-compatible server that does as its script says: answers, lies, drips, fails.

`python -m tests.e2e.scripted_llm --port 0 --script FILE` prints `{"url": "http://127.0.0.1:…/v1"}`. `POST /script`
takes a list of steps in place of those that are left, `GET /requests` tells what was asked. Each request for an
answer takes the next step; after the last one the model says `missing`. A step is a JSON object with one of:

    jump, match   the name of a keyword, as the prompt shows it
    missing       the name to suggest, or null
    answer        an object, answered as it is
    huge          how many bytes to write
    slow_drip     seconds between two bytes
    late          seconds before the answer
    status        of an error, such as 500

It is an embedder too, which answers as `HashingEmbedder` of the fakes would. `/v1/embeddings` has steps of its own
(`POST /script/embeddings`), with `status` and `late`. A step with `"stays": true` is not used up, so that a server can
be down.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from tests.e2e.scripted_vectors import embeddings
from tests.e2e.server_process import ROOT, WAIT_S, environment
from tests.fakes.scripted_chat import EXHAUSTED, answer_missing, choose, fit_to_schema

Step: TypeAlias = Mapping[str, Any]
_CHAT = "chat/completions"
_MEGABYTE = b"x" * (1024 * 1024)
_LOOK_S = 0.02
_USAGE = {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132}
_REASONS = {200: "OK", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class ScriptedLLM:
    """The server as a test sees it; `url` is a base URL for KNOWHUB_LLM_BASE_URL."""

    url: str
    http: httpx.AsyncClient

    async def script(self, *steps: Step) -> None:
        """Replace the steps that are left."""
        (await self.http.post("/script", json=list(steps))).raise_for_status()

    async def script_for(self, path: str, *steps: Step) -> None:
        """Replace the steps that are left for `embeddings`."""
        (await self.http.post(f"/script/{path}", json=list(steps))).raise_for_status()

    async def requests(self, path: str = "chat/completions") -> list[dict[str, Any]]:
        """Return what was asked there: `{"path", "body"}` each, the oldest first."""
        answer: list[dict[str, Any]] = (await self.http.get("/requests")).raise_for_status().json()
        return [item for item in answer if item["path"] == path]


@asynccontextmanager
async def running_llm(*steps: Step) -> AsyncIterator[ScriptedLLM]:
    """Run the server on a free port with these steps, or those of a file; it is killed in the end."""
    command = [sys.executable, "-m", "tests.e2e.scripted_llm", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(ROOT), cwd=ROOT)  # noqa: ASYNC220 -- one start
    assert process.stdout is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line, f"the scripted server ended with {process.wait(WAIT_S)}"
        url = json.loads(line)["url"]
        async with httpx.AsyncClient(base_url=url.removesuffix("/v1"), trust_env=False) as http:
            llm = ScriptedLLM(url, http)
            if steps:
                await llm.script(*steps)
            yield llm
    finally:
        process.kill()
        process.stdout.close()
        process.wait(WAIT_S)


class _ConnectionDropped(Exception):
    """The connection is to be dropped."""


class _Server:
    def __init__(self, steps: list[Step]) -> None:
        self._steps: dict[str, list[Step]] = {_CHAT: steps, "embeddings": []}
        self._requests: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        with suppress(_ConnectionDropped, ConnectionError, asyncio.IncompleteReadError):
            while True:
                line, body = await _read_request(reader)
                await self._route(line, body, reader, writer)
        writer.close()

    async def _route(self, line: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match line.split()[:2]:
            case ["POST", "/script"]:
                self._steps[_CHAT] = json.loads(body)
                await _send(writer, 200, {"steps": len(self._steps[_CHAT])})
            case ["POST", "/script/embeddings"]:
                self._steps["embeddings"] = json.loads(body)
                await _send(writer, 200, {})
            case ["GET", "/requests"]:
                await _send(writer, 200, self._requests)
            case ["POST", "/v1/chat/completions" | "/v1/embeddings" as where]:
                asked, path = json.loads(body), where.removeprefix("/v1/")
                self._requests.append({"path": path, "body": asked})
                await self._until_gone(self._complete(path, asked, writer), reader)
            case _:
                await _send(writer, 404, {"error": {"message": f"there is no {line}"}})

    async def _until_gone(self, answering: Any, reader: asyncio.StreamReader) -> None:  # noqa: ANN401 -- a coroutine
        answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_wait_for_end(reader))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise _ConnectionDropped
            answer.result()
        finally:
            answer.cancel()
            gone.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)

    def _next_step(self, path: str) -> Step:
        steps = self._steps[path]
        if steps and steps[0].get("stays"):
            return steps[0]
        return steps.pop(0) if steps else {"missing": None} if path == _CHAT else {}

    async def _complete(self, path: str, asked: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        step = self._next_step(path)
        match step:
            case {"status": int(status)}:
                await _send(writer, status, {"error": {"message": f"the script says {status}"}})
            case {"huge": int(size)}:
                await _send_huge(writer, size)
            case {"slow_drip": float(pause_s) | int(pause_s)}:
                await _drip(writer, _answer(path, {"missing": None}, asked), pause_s)
            case _:
                late_s: float = step.get("late") or 0.0
                await asyncio.sleep(late_s)
                try:
                    answer = _answer(path, step, asked)
                except AssertionError as error:
                    # Not a status that a client tries again: the script is wrong.
                    await _send(writer, 418, {"error": {"message": str(error)}})
                else:
                    await _send(writer, 200, answer)


def _answer(path: str, step: Step, asked: Mapping[str, Any]) -> object:
    if path == _CHAT:
        decided = step["answer"] if "answer" in step else _decide(step, asked)
        return _completion(asked, json.dumps(decided, ensure_ascii=False))
    return embeddings(asked)


def _decide(step: Step, asked: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema_of(asked)
    for action in ("jump", "match"):
        if action in step:
            return choose(action, step[action], asked["messages"], schema, "scripted")
    if step.get("missing"):
        return answer_missing(step["missing"], schema, "scripted")
    return fit_to_schema(EXHAUSTED, schema)


def _schema_of(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    # The schema is the last line of the system prompt.
    system: str = next(message["content"] for message in asked["messages"] if message["role"] == "system")
    schema: Mapping[str, Any] = json.loads(system[system.rindex("\n") + 1 :])
    return schema


def _completion(asked: Mapping[str, Any], text: str) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {
        "id": "scripted",
        "object": "chat.completion",
        "model": asked["model"],
        "choices": [choice],
        "usage": _USAGE,
    }


async def _wait_for_end(reader: asyncio.StreamReader) -> None:
    # Looked at and not read: the first byte of the next request would be lost.
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110 -- a stream has no event for its end
        await asyncio.sleep(_LOOK_S)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return head[0], await reader.readexactly(int(headers.get("content-length", 0)))


async def _send(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    writer.write(_head(status, len(body)) + body)
    await writer.drain()


async def _send_huge(writer: asyncio.StreamWriter, size: int) -> None:
    writer.write(_head(200, size))
    for _ in range(size // len(_MEGABYTE)):
        writer.write(_MEGABYTE)
        await writer.drain()
    writer.write(_MEGABYTE[: size % len(_MEGABYTE)])
    await writer.drain()


async def _drip(writer: asyncio.StreamWriter, value: object, pause_s: float) -> None:
    body = json.dumps(value).encode()
    writer.write(_head(200, len(body)))
    for byte in body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(pause_s)


def _head(status: int, length: int) -> bytes:
    reason = _REASONS.get(status, "Scripted")
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return head.encode("latin-1")


async def _run(port: int, steps: list[Step], announce: Callable[[str], object]) -> None:
    server = await asyncio.start_server(_Server(steps).serve, "127.0.0.1", port)
    bound = server.sockets[0].getsockname()[1]
    announce(json.dumps({"url": f"http://127.0.0.1:{bound}/v1"}) + "\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="a JSON file of the first steps")
    given = parser.parse_args()
    steps = [] if given.script is None else json.loads(given.script.read_text("utf-8"))
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(given.port, steps, sys.stdout.write))


if __name__ == "__main__":
    main()
