"""An OpenAI-compatible server that does as its script says: answers, lies, drips, drops the connection.

`python -m tests.e2e.scripted_llm --port 0 ` prints `{"url": "http://127.0.0.1:…/v1"}`. `POST /script`
takes a list of steps in place of those that are left, `GET /requests` tells what was asked. Each request for an
answer takes the next step; after the last one the model says `missing`. A step is a JSON object with one of:

    jump, match, ambiguous   a name or a list of them, as the prompt shows them (`jump` to two is a list of two)
    missing                  the name to suggest, or null      pick      words of tasks: the records that hold one
    answer                   an object, answered as it is      text      what the model writes, as it is
    garbage, other_schema, invented_ids                        true
    huge                     how many bytes to write           slow_drip seconds between two bytes
    late                     seconds; the answer is `missing`  close     true: the connection is dropped
    status                   such as 429, with `retry_after`   refuse_rung  `response_format` or `schema`:
                                                               what this request may not hold

It is an embedder and a reranker too: `/v1/embeddings` and `/v1/rerank` have steps of their own, which `POST
/script/embeddings` and `POST /script/rerank` take; behind the last one they answer as `HashingEmbedder` of the fakes
would. `status`, `close`, `huge`, `slow_drip`, `late`, `garbage`, `answer` and `refuse_rung` are as above; embeddings
may be spoiled by `dimensions` (so many), `missing` (so many are left out), `shift` (added to each index) and `numbers`
(the first embedding). A step with `"stays": true` is not used up, so that a server can be down.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx

from tests.e2e.scripted_vectors import embeddings, rerank
from tests.e2e.server_process import ROOT, WAIT_S, environment
from tests.fakes.scripted_chat import EXHAUSTED, answer_missing, choose, fit_to_schema

Step: TypeAlias = Mapping[str, Any]
_CHAT = "chat/completions"
_MEGABYTE = b"x" * (1024 * 1024)
_LOOK_S = 0.02
_USAGE = {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132}
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_REFUSED = {
    "response_format": "response_format is not supported",
    "schema": "response_format.type json_schema is not supported",
    "documents": "missing field `texts`",
}


@dataclass(frozen=True, slots=True)
class ScriptedLLM:
    """The server as a test sees it; `url` is a base URL for KNOWHUB_LLM_BASE_URL."""

    url: str
    http: httpx.AsyncClient

    async def script(self, *steps: Step) -> None:
        """Replace the steps that are left."""
        (await self.http.post("/script", json=list(steps))).raise_for_status()

    async def script_for(self, path: str, *steps: Step) -> None:
        """Replace the steps that are left for `embeddings` or `rerank`."""
        (await self.http.post(f"/script/{path}", json=list(steps))).raise_for_status()

    async def requests(self, path: str = "chat/completions") -> list[dict[str, Any]]:
        """Return what was asked there: `{"path", "body", "authorization", "broken_off"}` each, the oldest first."""
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
    def __init__(self) -> None:
        self._steps: dict[str, list[Step]] = {_CHAT: [], "embeddings": [], "rerank": []}
        self._requests: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        with suppress(_ConnectionDropped, ConnectionError, asyncio.IncompleteReadError):
            while True:
                line, headers, body = await _read_request(reader)
                await self._route(line, headers, body, reader, writer)
        writer.close()

    async def _route(
        self,
        line: str,
        headers: Mapping[str, str],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        match line.split()[:2]:
            case ["POST", "/script"]:
                self._steps[_CHAT] = json.loads(body)
                await _send(writer, 200, {"steps": len(self._steps[_CHAT])})
            case ["POST", "/script/embeddings" | "/script/rerank" as where]:
                self._steps[where.removeprefix("/script/")] = json.loads(body)
                await _send(writer, 200, {})
            case ["GET", "/requests"]:
                await _send(writer, 200, self._requests)
            case ["POST", "/v1/chat/completions" | "/v1/embeddings" | "/v1/rerank" as where]:
                asked, path = json.loads(body), where.removeprefix("/v1/")
                key = headers.get("authorization")
                seen = {"path": path, "body": asked, "authorization": key, "broken_off": False}
                self._requests.append(seen)
                await self._until_gone(seen, self._complete(path, asked, writer), reader)
            case _:
                await _send(writer, 404, {"error": {"message": f"there is no {line}"}})

    async def _until_gone(self, seen: dict[str, Any], answering: Any, reader: asyncio.StreamReader) -> None:  # noqa: ANN401 -- a coroutine
        answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_wait_for_end(reader))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                seen["broken_off"] = True
                raise _ConnectionDropped
            if answer.exception():
                seen["broken_off"] = isinstance(answer.exception(), ConnectionError)
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
                after = {"Retry-After": str(step["retry_after"])} if "retry_after" in step else {}
                message = f"the script says {status}, to the key {step.get('echo', '')}"
                await _send(writer, status, {"error": {"message": message}}, after)
            case {"refuse_rung": str(what)} if _holds(asked, what):
                await _send(writer, 400, {"error": {"message": _REFUSED[what], "type": "invalid_request_error"}})
            case {"close": _}:
                raise _ConnectionDropped
            case {"huge": int(size)}:
                await _send_huge(writer, size)
            case {"slow_drip": float(pause_s) | int(pause_s)}:
                await _drip(writer, _answer(path, {"missing": None} if path == _CHAT else {}, asked), pause_s)
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


def _holds(asked: Mapping[str, Any], what: str) -> bool:
    if what == "schema":
        return bool(asked.get("response_format", {}).get("type") == "json_schema")
    return what in asked


def _answer(path: str, step: Step, asked: Mapping[str, Any]) -> object:
    if path == _CHAT:
        return _completion(asked, _write_answer(step, asked))
    if "garbage" in step:
        return "not the object that was expected"
    if "answer" in step:
        return step["answer"]
    return embeddings(asked, step) if path == "embeddings" else rerank(asked)


def _write_answer(step: Step, asked: Mapping[str, Any]) -> str:
    match step:
        case {"text": str(text)}:
            return text
        case {"garbage": _}:
            return "\x00\ufffd {{{ I am not going to \x1b[31m answer }"
        case {"other_schema": _}:
            return json.dumps({"weather": "sunny", "degrees": 21})
        case {"answer": answer}:
            return json.dumps(answer)
        case _:
            return json.dumps(_decide(step, asked), ensure_ascii=False)


def _decide(step: Step, asked: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema_of(asked)
    if "invented_ids" in step:
        return fit_to_schema({"action": "match", "node_id": 987_654_321, "reason": "invented"}, schema)
    for action in ("jump", "match", "ambiguous"):
        if action in step:
            names = [step[action]] if isinstance(step[action], str) else step[action]
            return choose(action, names, asked["messages"], schema, "scripted")
    if "pick" in step:
        return fit_to_schema({"ids": _ids_of(step["pick"], asked["messages"]), "reason": "scripted"}, schema)
    if step.get("missing"):
        return answer_missing(step["missing"], schema, "scripted")
    return fit_to_schema(EXHAUSTED, schema)


def _ids_of(words: Sequence[str], messages: Sequence[Mapping[str, str]]) -> list[str]:
    candidates = json.loads(messages[-1]["content"].split("\n")[1])["candidates"]
    return [item["id"] for word in words for item in candidates if word in item["task"]]


def _schema_of(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    # The schema is the last line of the system prompt in every output mode.
    system: str = next(message["content"] for message in asked["messages"] if message["role"] == "system")
    schema: Mapping[str, Any] = json.loads(system[system.rindex("\n") + 1 :])
    return schema


def _completion(asked: Mapping[str, Any], text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
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


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return head[0], headers, await reader.readexactly(int(headers.get("content-length", 0)))


async def _send(
    writer: asyncio.StreamWriter, status: int, value: object, headers: Mapping[str, str] | None = None
) -> None:
    body = json.dumps(value).encode()
    writer.write(_head(status, len(body), headers or {}) + body)
    await writer.drain()


async def _send_huge(writer: asyncio.StreamWriter, size: int) -> None:
    writer.write(_head(200, size, {}))
    for _ in range(size // len(_MEGABYTE)):
        writer.write(_MEGABYTE)
        await writer.drain()
    writer.write(_MEGABYTE[: size % len(_MEGABYTE)])
    await writer.drain()


async def _drip(writer: asyncio.StreamWriter, value: object, pause_s: float) -> None:
    body = json.dumps(value).encode()
    writer.write(_head(200, len(body), {}))
    for byte in body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(pause_s)


def _head(status: int, length: int, headers: Mapping[str, str]) -> bytes:
    sent = {"Content-Type": "application/json", "Content-Length": str(length), **headers}
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}",
        *(f"{key}: {value}" for key, value in sent.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _run(port: int, announce: Callable[[str], object]) -> None:
    server = await asyncio.start_server(_Server().serve, "127.0.0.1", port)
    bound = server.sockets[0].getsockname()[1]
    announce(json.dumps({"url": f"http://127.0.0.1:{bound}/v1"}) + "\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(given.port, sys.stdout.write))


if __name__ == "__main__":
    main()
