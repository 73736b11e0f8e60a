"""The keys that seal bodies: data keys, wrapped by a master key."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A key that wraps data keys; `name` tells it from others and says nothing of it."""

    name: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as the keyring holds it: which sealed body it opens, wrapped by which master key.

    `nonce` and `data` are empty where it was destroyed, at `destroyed_at`; nothing revives it.
    """

    account: str
    resource_id: str
    master: str
    nonce: bytes = field(default=b"", repr=False)
    data: bytes = field(default=b"", repr=False)
    destroyed_at: str | None = None
