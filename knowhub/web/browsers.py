"""Security headers, which browsers read."""

from base64 import b64encode
from hashlib import sha256

Headers = tuple[tuple[bytes, bytes], ...]

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_REFERRER = (b"referrer-policy", b"no-referrer")
_ANYWHERE: Headers = (_NOSNIFF, _NO_REFERRER)
# An answer is for its caller: no cache may store it.
_API: Headers = (*_ANYWHERE, (b"cache-control", b"no-store"))


def headers_of(path: str) -> Headers:
    """Return the headers of every answer to a path."""
    return _API if path.startswith("/api/") else _ANYWHERE


def page_headers(page: str) -> dict[str, str]:
    """Return the headers of the docs page: it runs only its own scripts, and no page may frame it.

    Swagger UI puts style attributes into the page and draws icons from data: addresses; its own script is named by its
    hash, so that an injected script would not run.
    """
    scripts_in_page = (part.partition("</script>")[0] for part in page.split("<script>")[1:])
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts_in_page)
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
