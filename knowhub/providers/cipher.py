"""AES-256-GCM, and the master keys that people give: the only module that names a cipher."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from knowhub.core.data_keys import MasterKey
from knowhub.resources.ports import UnsealError

KEY_BYTES = 32
MIN_TEXT_CHARS = 32
_NONCE_BYTES = 12
_NAME_DIGITS = 16
# With the one `=` at their end.
_BASE64_CHARS = 44
_URL_SAFE = str.maketrans("-_", "+/")


class AesGcm:
    """Seals with AES-256-GCM; `random(count)` draws bytes that nobody can foretell."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random

    def new_key(self) -> bytes:
        """Return a key that was never returned before."""
        return self._random(KEY_BYTES)

    def seal(self, key: bytes, plain: bytes, associated_data: bytes) -> tuple[bytes, bytes]:
        """Return a fresh nonce and the sealed bytes, bound to the associated data."""
        nonce = self._random(_NONCE_BYTES)
        return nonce, AESGCM(key).encrypt(nonce, plain, associated_data)

    def open(self, key: bytes, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        """Return what was sealed with this associated data. Raises UnsealError."""
        try:
            return AESGCM(key).decrypt(nonce, data, associated_data)
        except (InvalidTag, ValueError) as problem:
            # ValueError: a nonce of a length that none has.
            raise UnsealError from problem


def master_key(text: str) -> MasterKey:
    """Make a master key of a text: 32 bytes as 64 hexadecimal digits or as base64, else at least 32 characters.

    Of the latter the key is derived (HKDF, SHA-256). Raises ValueError for a shorter one.
    """
    given = text.strip()
    key = _hexadecimal(given) or _base64(given)
    if key is None:
        if len(given) < MIN_TEXT_CHARS:
            raise ValueError(
                f"must be 32 bytes in hexadecimal or base64, or a text of at least {MIN_TEXT_CHARS} characters"
            )
        key = HKDF(SHA256(), KEY_BYTES, salt=None, info=b"knowhub master key").derive(given.encode())
    return MasterKey(f"master-{sha256(b'knowhub master key name' + key).hexdigest()[:_NAME_DIGITS]}", key)


def master_key_text(key: bytes) -> str:
    """Write a key as `master_key` reads it."""
    return b64encode(key).decode()


def _hexadecimal(text: str) -> bytes | None:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    # `fromhex` skips blanks: digits with blanks are a text of 64 characters.
    return key if len(text) == 2 * len(key) == 2 * KEY_BYTES else None


def _base64(text: str) -> bytes | None:
    if len(text) != _BASE64_CHARS:
        return None
    try:
        key = b64decode(text.translate(_URL_SAFE), validate=True)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None
