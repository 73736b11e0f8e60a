"""What resources need from outside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from knowhub.core.operation import Commits, View
from knowhub.resources.model import MasterKey, ResourceHead, WrappedKey


class ResourceView(View, Protocol):
    """The newest state of one account, as a decision sees it."""

    def resource_heads(self, prefix: str, after: str | None) -> Iterator[ResourceHead]:
        """Yield what is acknowledged of the live resources whose id begins so, by id, those behind `after` only."""


class ResourceStore(Commits[ResourceView], Protocol):
    """Where resources live: durable decisions, and reads that see every acknowledged write."""

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""

    def view(self, account: str) -> ResourceView:
        """Return the acknowledged state of one account."""


class ErasingStore(Protocol):
    """A store from which rows are erased."""

    @property
    def erases(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""

    def view(self, account: str) -> View:
        """Return the acknowledged state of one account."""


class WrongSeal(Exception):
    """What was sealed does not open with this key in this place: it was changed, moved, or sealed with another."""


class Cipher(Protocol):
    """Sealing with a key, such that what was sealed opens in the place that it was sealed for, and in no other."""

    def new_key(self) -> bytes:
        """Return a key that was never returned before."""

    def seal(self, key: bytes, plain: bytes, place: bytes) -> tuple[bytes, bytes]:
        """Return the nonce that was drawn and what was sealed."""

    def open(self, key: bytes, nonce: bytes, data: bytes, place: bytes) -> bytes:
        """Return what was sealed. Raises WrongSeal."""


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
        """Return them, the one that wraps first; none where there is none. Raises Unavailable.

        With `make` a missing one is made where that is allowed, durable before it is returned.
        """

    def begin_rotation(self) -> None:
        """Make the key that is to wrap from now on, or go on with one that was made; durable when this returns."""

    def end_rotation(self) -> None:
        """Let go of the keys that wrapped before: no data key is wrapped by them any more."""
