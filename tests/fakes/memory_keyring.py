"""A keyring and master keys in memory."""

from collections.abc import Callable, Mapping, Sequence

from knowhub.core.data_keys import MasterKey, WrappedKey


class MemoryKeyring:
    """Keeps the contract of `resources.ports.Keyring` (`tests/contract/test_keyring_contract.py`)."""

    def __init__(self) -> None:
        self.held: dict[str, WrappedKey] = {}

    async def keys(self) -> Mapping[str, WrappedKey]:
        return dict(self.held)

    async def change(self, changed: Callable[[Mapping[str, WrappedKey]], Mapping[str, WrappedKey] | None]) -> None:
        after = changed(dict(self.held))
        if after is not None:
            self.held = dict(after)


class HeldMasters:
    """Master keys that a test puts in; the first wraps."""

    def __init__(self, *held: MasterKey) -> None:
        self.held = list(held)

    def keys(self, *, make: bool) -> Sequence[MasterKey]:
        return tuple(self.held)

    def begin_rotation(self) -> None:
        """The test has put the new one in front."""

    def end_rotation(self) -> None:
        """The test takes the old ones away."""
