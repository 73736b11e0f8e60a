"""Behind each erasing: the data keys of what was erased are destroyed, and with them every copy of what was sealed."""

from knowhub.core import clock
from knowhub.core.clock import Clock
from knowhub.core.erasing import is_erased
from knowhub.resources.model import RESOURCES
from knowhub.resources.ports import ErasingStore
from knowhub.resources.vault import Vault


class Shredder:
    """Follows a store's erasings. A process that died in one leaves its keys to whoever opens the directory next."""

    def __init__(self, store: ErasingStore, vault: Vault, clock_: Clock) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock_
        self._erases = -1

    @property
    def noted_erases(self) -> int:
        """The number of the newest erasing behind which all keys were destroyed."""
        return self._erases

    async def tend(self) -> None:
        """Destroy the keys of every resource that was erased; does nothing where nothing was since the last time."""
        erases = self._store.erases
        if erases == self._erases:
            return
        await self._vault.destroy(self._is_gone, clock.iso(self._clock.now()))
        self._erases = erases

    def _is_gone(self, account: str, resource_id: str) -> bool:
        return is_erased(self._store.view(account).get(RESOURCES, resource_id))
