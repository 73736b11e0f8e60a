"""Headers that tell browsers what not to do with an answer; each set is written once, and sent as it is."""

import re
from base64 import b64encode
from hashlib import sha256

Headers = tuple[tuple[bytes, bytes], ...]

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_REFERRER = (b"referrer-policy", b"no-referrer")
_ANYWHERE: Headers = (_NOSNIFF, _NO_REFERRER)
# What an answer holds is for whoever asked: no cache on the way may keep it.
_API: Headers = (*_ANYWHERE, (b"cache-control", b"no-store"))
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def headers_of(path: str) -> Headers:
    """Return what every answer to a path carries."""
    return _API if path.startswith("/api/") else _ANYWHERE


def page_headers(page: str) -> dict[str, str]:
    """Return what the docs page carries beside: it runs the scripts that it came with, and stands in no frame.

    Swagger UI puts style attributes into the page and draws icons from data: addresses; its own script is named by its
    hash, so that no other one that somebody got into the page would run.
    """
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in _INLINE_SCRIPT.findall(page))
    scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in hashes)])
    policy = (
        "default-src 'none'",
        f"script-src {scripts}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {"Content-Security-Policy": "; ".join(policy), "X-Frame-Options": "DENY"}
