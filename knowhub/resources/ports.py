"""What resources need from outside."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from knowhub.core.data_keys import MasterKey, WrappedKey


class UnsealError(Exception):
    """Sealed bytes do not open with this key and associated data: they were changed, moved, or sealed with another."""


class Cipher(Protocol):
    """Sealing with a key and associated data, such as the id of the row: sealed bytes open with the same two only."""

    def new_key(self) -> bytes:
        """Return a key that was never returned before."""

    def seal(self, key: bytes, plain: bytes, associated_data: bytes) -> tuple[bytes, bytes]:
        """Return the nonce that was drawn and what was sealed."""

    def open(self, key: bytes, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        """Return what was sealed. Raises UnsealError."""


class Keyring(Protocol):
    """Where the wrapped data keys are. It is read anew each time: another process may have changed it."""

    async def keys(self) -> Mapping[str, WrappedKey]:
        """Return every key by its id. Raises Unavailable where the ring is damaged."""

    async def change(self, changed: Callable[[Mapping[str, WrappedKey]], Mapping[str, WrappedKey] | None]) -> None:
        """Put in place what `changed` makes of the newest keys, durable when this returns; None leaves them.

        Nobody else changes them meanwhile. `changed` runs in a thread of its own. Raises Unavailable, StorageFull,
        Conflict where another process holds the ring for too long, and what `changed` raises, with nothing changed.
        """


class MasterKeys(Protocol):
    """The master keys: that which wraps, and those that still open. To be asked within a change of the keyring."""

    def keys(self, *, make: bool) -> Sequence[MasterKey]:
        """Return the keys, the wrapping key first; an empty list if there is none. Raises Unavailable.

        With `make` a missing one is made where that is allowed, durable before it is returned.
        """

    def begin_rotation(self) -> None:
        """Create the next wrapping key, or continue with a key created before; durable when this returns."""

    def end_rotation(self) -> None:
        """Retire the former wrapping keys: no data key is wrapped by them any more."""
