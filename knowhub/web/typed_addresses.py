"""The HTTP protocol of the server: uvicorn's, which also reads an address as people type it."""

import re
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from knowhub.web.error_responses import problem

_REQUEST_LINE: Final = re.compile(rb"[A-Z]{1,20} (/[^ \r\n]*) HTTP/1\.[01]\r\n")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_UNREAD: Final = (
    "this is no HTTP request that can be read; in an address all but ASCII is percent-encoded, "
    "as `curl -G --data-urlencode 'q=…'` does"
)


class AddressReadingProtocol(HttpToolsProtocol):
    """Percent-encodes what is not ASCII in an address, and answers what cannot be read as every error is.

    `curl 'http://…/search?q=索引'` sends the bytes as they were typed, which the parser refuses.
    """

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent. An address that comes in two pieces is left to the parser."""
        if not data.isascii() and self._is_between_requests:
            data = _in_ascii(data)
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- what the parser says of it helps nobody
        """Answer what is no HTTP, and hang up."""
        body, media_type = problem(400, "malformed-request", _UNREAD, "")
        head = [
            b"HTTP/1.1 400 Bad Request",
            *(b"%s: %s" % header for header in self.server_state.default_headers),
            b"content-type: " + media_type.encode(),
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()

    @property
    def _is_between_requests(self) -> bool:
        # What is read as part of a body stays as it is, whatever it looks like. Before the first there is no cycle.
        return not getattr(self.cycle, "more_body", False)


def _in_ascii(data: bytes) -> bytes:
    line = _REQUEST_LINE.match(data)
    if line is None:
        return data
    start, end = line.span(1)
    return data[:start] + _NOT_ASCII.sub(lambda byte: b"%%%02X" % byte[0][0], line[1]) + data[end:]
