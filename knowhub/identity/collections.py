"""The collections of identity: API keys, and when they were last used."""

from typing import Final

from knowhub.core.collection import Collection
from knowhub.identity.model import API_KEYS, KEY_USES

COLLECTIONS: Final = (
    # No undo and no snapshot brings back a key that was revoked.
    Collection(API_KEYS, redacted_fields=frozenset({"hash"}), is_undoable=False),
    Collection(KEY_USES, is_undoable=False, is_internal=True),
)
