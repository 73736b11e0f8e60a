"""A caller beside an attacker, in a process of its own: `python -m tests.e2e.second_caller URL KEY PID`.

PID is the server's. It searches again and again on one connection. For each line that it reads it prints how many
seconds each search took since the line before, as a JSON list.
"""

import http.client
import json
import select
import sys
from urllib.parse import urlsplit

from tests.e2e.server_process import Stopwatch

PATH = "/api/knowledge/search?q=export+orders&top_k=3"
PAUSE_S = 0.002
TIMEOUT_S = 20.0


def search(connection: http.client.HTTPConnection, key: str, server_id: int) -> float:
    """Search once, and return how long it took."""
    watch = Stopwatch(server_id)
    try:
        connection.request("GET", PATH, headers={"X-API-Key": key})
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise AssertionError(f"the search was answered with {answer.status}")
    except OSError:
        # Nothing came in time; the next search begins anew.
        connection.close()
        return TIMEOUT_S
    return watch.read()


def main() -> None:
    url, key, server_id = sys.argv[1:]
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    taken: list[float] = []
    while True:
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            if not sys.stdin.readline():
                return
            sys.stdout.write(json.dumps(taken) + "\n")
            sys.stdout.flush()
            taken.clear()
        taken.append(search(connection, key, int(server_id)))


if __name__ == "__main__":
    main()
