"""How much of KnowHub a request runs through: distinct functions and files of the package.

The figures tell a reader how much there is to read. They say nothing of time.
"""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

import knowhub
from knowhub.bootstrap import open_hub
from knowhub.settings import Settings
from knowhub.web.app import create_app

PACKAGE = str(Path(knowhub.__file__).parent)
GOALS = {"save": (110, 35), "search": (70, 25), "session commit": (280, 65), "undo": (120, 35)}
Call = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


class CodeRecorder:
    """Records the code of the package that runs for a call: in its tasks, and in threads that have its context."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._is_of_call = ContextVar("is_of_call", default=False)
        # At once: the threads that a later call uses may exist before it.
        threading.setprofile(self._note)

    async def record(self, call: Callable[[], Awaitable[httpx.Response]]) -> tuple[httpx.Response, int, int]:
        """Run `call`; return its answer, and the number of distinct functions and files that ran."""
        self._codes.clear()
        token = self._is_of_call.set(True)
        sys.setprofile(self._note)
        try:
            response = await call()
        finally:
            sys.setprofile(None)
            self._is_of_call.reset(token)
        functions = {code for code in self._codes if not code.co_name.startswith("<")}
        return response, len(functions), len({code.co_filename for code in functions})

    def _note(self, frame: FrameType, _event: str, _argument: Any) -> None:  # noqa: ANN401 -- as the profiler gives it
        if self._is_of_call.get() and frame.f_code.co_filename.startswith(PACKAGE):
            self._codes.add(frame.f_code)


async def main() -> None:
    """Print the figures of four requests beside their goals."""
    message = {"role": "user", "content": "I prefer dark roast coffee. My name is Ann. I moved to Bern in May 2026."}
    recorder = CodeRecorder()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        async with open_hub(settings, maintain=False) as hub:
            transport = httpx.ASGITransport(create_app(settings, hub))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                for turn in range(2):
                    # The second turn counts: what is loaded once is loaded.
                    await measure(client, recorder, message, turn)


async def measure(client: httpx.AsyncClient, recorder: CodeRecorder, message: dict[str, str], turn: int) -> None:
    """Send the four requests; print the figures of the second turn."""
    saved = ""

    async def save() -> httpx.Response:
        return await client.post("/api/knowledge", json={"task": "log in to the shop", "content": f"Use SSO {turn}."})

    async def search() -> httpx.Response:
        return await client.get("/api/knowledge/search", params={"q": "log in to the shop"})

    async def commit() -> httpx.Response:
        body = {"session_id": f"s{turn}", "messages": [message | {"message_id": "m1"}]}
        return await client.post("/api/context/sessions/commit", json=body)

    async def undo() -> httpx.Response:
        return await client.post(f"/api/operations/{saved}/undo")

    for name, call in {"save": save, "search": search, "session commit": commit, "undo": undo}.items():
        response, functions, files = await recorder.record(call)
        if response.is_error:
            raise SystemExit(f"{name}: {response.status_code} {response.text}")
        if name == "save":
            saved = response.json()["operation_id"]
        if turn:
            goal = GOALS[name]
            print(f"{name:15} {functions:4} functions  {files:3} files   (goal {goal[0]} / {goal[1]})")


if __name__ == "__main__":
    asyncio.run(main())
