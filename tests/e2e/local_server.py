"""A server in a thread, in the place of a vendor of models."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalHandler(BaseHTTPRequestHandler):
    """Answers requests as `respond` says, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def respond(self, body: bytes) -> None:
        """Answer a request with this body."""
        raise NotImplementedError

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_POST()

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.respond(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def answer(self, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def run_local_server(handler: type[LocalHandler]) -> Iterator[str]:
    """Run a server until the end of the block, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
