"""Cursors of lists: where a page ended, in a form that tells its holder nothing."""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from knowhub.core.errors import InvalidInput

CURSOR_PATTERN = r"^[A-Za-z0-9_-]{32}$"

_TAG_BYTES = 16
_POSITION_BYTES = 8
_FORM = re.compile(CURSOR_PATTERN)


class CursorCodec:
    """Makes cursors of positions in lists, and reads them back; `secret` is known to every process of a data directory.

    A position counts rows that its caller may not see. So a cursor is sealed: it shows no order, and none can be made
    up to feel for the positions of others. It is good for one list and one account, for as long as the secret is.
    """

    def __init__(self, secret: str) -> None:
        self._key = sha256(b"knowhub cursors\0" + secret.encode()).digest()

    def encode(self, account: str, collection: str, position: int | None) -> str | None:
        """Return the cursor of a position; None where there is none, as on a last page."""
        if position is None:
            return None
        plain = position.to_bytes(_POSITION_BYTES, "big")
        tag = self._tag(account, collection, plain)
        return urlsafe_b64encode(tag + self._mask(tag, plain)).decode()

    def decode(self, account: str, collection: str, cursor: str | None) -> int | None:
        """Return the position of a cursor; None without one. Raises InvalidInput for what is none of this list."""
        if cursor is None:
            return None
        if _FORM.fullmatch(cursor) is not None:
            sent = urlsafe_b64decode(cursor)
            tag = sent[:_TAG_BYTES]
            plain = self._mask(tag, sent[_TAG_BYTES:])
            if hmac.compare_digest(tag, self._tag(account, collection, plain)):
                return int.from_bytes(plain, "big")
        raise InvalidInput.of("cursor", "must be the next_cursor of an earlier page")

    def _tag(self, account: str, collection: str, plain: bytes) -> bytes:
        # Neither name holds a zero byte, so that no two lists share a text.
        text = b"\0".join((b"place", account.encode(), collection.encode(), plain))
        return hmac.digest(self._key, text, "sha256")[:_TAG_BYTES]

    def _mask(self, tag: bytes, text: bytes) -> bytes:
        mask = hmac.digest(self._key, b"mask\0" + tag, "sha256")
        return bytes(item ^ other for item, other in zip(text, mask, strict=False))
