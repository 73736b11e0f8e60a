"""A hook of a coding agent, as a program of its own: `python hook.py URL [--send-transcript] [--with-key]`.

It sends what the host gives it to KnowHub, prints the answer, and ends with status 0 within a second, or two where a
transcript is sent. Whatever happens to KnowHub, the agent goes on. It imports the standard library only.
"""

import json
import os
import sys
import threading
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

_SECONDS, _SENDING_SECONDS = 1.0, 2.0
# So much of the end of a transcript is sent: after each turn, and when the session ends or is compacted.
_TURN_BYTES = 1024 * 1024
_SESSION_BYTES = 6 * 1024 * 1024
_TURN_ENDS = ("Stop", "stop")


def main(url: str, flags: list[str]) -> None:
    """Answer one hook. Raises whatever goes wrong."""
    payload = json.load(sys.stdin)
    if "--send-transcript" in flags:
        payload |= read_end(payload)
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Content-Type": "application/json"}
    if "--with-key" in flags:
        headers["Authorization"] = f"Bearer {os.environ.get('KNOWHUB_API_KEY', '')}"
    connection = connect(parts.netloc, timeout=_SENDING_SECONDS)
    connection.request("POST", f"{parts.path}?{parts.query}", json.dumps(payload).encode(), headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status == 200:  # noqa: PLR2004 -- http.HTTPStatus would take longer to import than the request
        sys.stdout.write(answer.decode())
        sys.stdout.flush()


def read_end(payload: dict[str, object]) -> dict[str, object]:
    """Return the last whole lines of the transcript, and where they begin in the file."""
    path = payload.get("transcript_path")
    if not isinstance(path, str):
        return {}
    max_bytes = _TURN_BYTES if payload.get("hook_event_name") in _TURN_ENDS else _SESSION_BYTES
    with Path(path).open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - max_bytes)
        file.seek(start)
        lines = file.read(max_bytes)
    cut = lines.find(b"\n") + 1 if start else 0
    return {"transcript": lines[cut:].decode("utf-8", "replace"), "transcript_offset": start + cut}


def _exit() -> None:
    os._exit(0)


if __name__ == "__main__":
    seconds = _SENDING_SECONDS if "--send-transcript" in sys.argv else _SECONDS
    timer = threading.Timer(seconds, _exit)
    timer.daemon = True
    timer.start()
    try:
        main(sys.argv[1], sys.argv[2:])
    except Exception as error:  # noqa: BLE001 -- whatever it is, the agent goes on
        sys.stderr.write(f"KnowHub: {error!r}\n")
    # At once, also while something still waits for the network.
    sys.stderr.flush()
    _exit()
