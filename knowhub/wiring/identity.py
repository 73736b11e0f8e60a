"""Who may call: the keys in the log, and the root key of the settings."""

from contextlib import AsyncExitStack

from knowhub.core.clock import Clock
from knowhub.core.ids import Ids
from knowhub.identity.service import IdentityService
from knowhub.settings import Settings
from knowhub.stores.files.keys.key_table import LogKeyTable
from knowhub.stores.files.store import FileStore


def identity_on(store: FileStore, settings: Settings, clock: Clock, ids: Ids, stack: AsyncExitStack) -> IdentityService:
    """Build what tells callers, following the store; `stack` closes it."""
    table = LogKeyTable(store)
    store.subscribe(table)
    identity = IdentityService(store, table, clock, ids, settings.root_key)
    stack.push_async_callback(identity.uses.close)
    return identity
