"""What schemathesis must be told of this API: JSON lines are sent as the text they are."""

from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def json_lines(_ctx: Any, value: Any) -> bytes:  # noqa: ANN401 -- schemathesis passes whatever it generated
    """Return the text of a body."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
