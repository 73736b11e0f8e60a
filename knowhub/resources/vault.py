"""Sealing: a data key for each version of a sealed body, wrapped by the master key in the keyring.

A change of the master key rewraps one small file and never touches sealed bodies. When its data key is destroyed, a
body is gone in every copy of its ciphertext.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from knowhub.core.data_keys import MasterKey, WrappedKey
from knowhub.core.errors import Unavailable
from knowhub.core.ids import Ids
from knowhub.resources.model import DataKey, RotationResult
from knowhub.resources.ports import Cipher, Keyring, MasterKeys, UnsealError

_KEY_ID_DIGITS = 32
_LENGTH_BYTES = 8
_NO_MASTER = (
    "there is no key to seal with: set KNOWHUB_SECRET_KEY, or put one into the file that KNOWHUB_SECRET_KEY_FILE names"
)
_OTHER_MASTER = (
    "what is sealed here was sealed under a master key that is not configured here, and what another one sealed would "
    "split the keyring: set KNOWHUB_SECRET_KEY, or KNOWHUB_SECRET_KEY_OLD, to the one that the others use"
)
_NO_OPENER = (
    "this sealed body was sealed under a master key that is not here: set KNOWHUB_SECRET_KEY, or "
    "KNOWHUB_SECRET_KEY_OLD, to the one that it was sealed under, or put back its key file"
)
_LOST_KEYS = (
    "keys/keyring.json lacks the keys of {count} sealed bodies. Nothing is sealed until keys/ is put back from a "
    "backup: new keys in its place would be lost with that. If there is no backup, delete the resources that "
    "`knowhub doctor` names: nothing opens them any more"
)


class Vault:
    """Seals and opens bodies. Every way in which it cannot is Unavailable, and the text says why."""

    def __init__(
        self,
        cipher: Cipher,
        keyring: Keyring,
        masters: MasterKeys,
        ids: Ids,
        list_key_ids: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`list_key_ids` lists the keys of the sealed bodies of all accounts."""
        self._cipher = cipher
        self._keyring = keyring
        self._masters = masters
        self._ids = ids
        self._list_key_ids = list_key_ids

    async def make_data_key(self, account: str, resource_id: str) -> DataKey:
        """Make the data key of a body that is to be sealed; the keyring holds it, durable, when this returns.

        Raises Unavailable while the keyring lacks a key of a sealed body.
        """
        # A key is in the keyring before its row is stored, so that the keyring, which is read later, has all of these.
        needed = frozenset(self._list_key_ids())
        made = DataKey(f"key-{self._ids.hex(_KEY_ID_DIGITS)}", account, resource_id, self._cipher.new_key())

        def add_key(keys: Mapping[str, WrappedKey]) -> Mapping[str, WrappedKey]:
            if lost := needed.difference(keys):
                raise Unavailable(_LOST_KEYS.format(count=len(lost)))
            return {**keys, made.id: self._wrap(made, self._get_master(keys))}

        await self._keyring.change(add_key)
        return made

    def seal(self, key: DataKey, text: str, version: int) -> dict[str, Any]:
        """Seal a text as the body of one version of the resource that the key was made for; it opens as that only."""
        nonce, data = self._cipher.seal(
            key.key, text.encode(), _make_associated_data(key.account, key.resource_id, version)
        )
        return {"key_id": key.id, "version": version, "nonce": _encode(nonce), "data": _encode(data)}

    async def open(self, account: str, resource_id: str, sealed: Mapping[str, Any]) -> str:
        """Return the text that was sealed as the body of this resource."""
        wrapped = (await self._keyring.keys()).get(sealed["key_id"])
        if wrapped is None:
            raise Unavailable("the key of this sealed body is not in keys/keyring.json; put that back from a backup")
        if wrapped.destroyed_at is not None:
            raise Unavailable(f"the key of this sealed body was destroyed at {wrapped.destroyed_at}; it is gone")
        masters = await asyncio.to_thread(self._masters.keys, make=False)
        try:
            key = self._unwrap(sealed["key_id"], wrapped, masters)
            nonce, data = b64decode(sealed["nonce"]), b64decode(sealed["data"])
            return self._cipher.open(
                key, nonce, data, _make_associated_data(account, resource_id, sealed["version"])
            ).decode()
        except (UnsealError, ValueError) as problem:
            raise Unavailable(
                "this sealed body does not open: it was changed, or moved here from another resource or version"
            ) from problem

    async def discard(self, key: DataKey) -> None:
        """Forget a key that nothing was sealed with."""

        def without(keys: Mapping[str, WrappedKey]) -> Mapping[str, WrappedKey]:
            return {key_id: wrapped_key for key_id, wrapped_key in keys.items() if key_id != key.id}

        await self._keyring.change(without)

    async def destroy(self, is_gone: Callable[[str, str], bool], moment: str) -> int:
        """Destroy every key of the resources that are gone, given account and id; return how many that were."""
        keys = await self._keyring.keys()
        gone = frozenset(
            key_id for key_id, key in keys.items() if _is_in_use(key) and is_gone(key.account, key.resource_id)
        )

        def mark_destroyed(newest: Mapping[str, WrappedKey]) -> Mapping[str, WrappedKey]:
            marked = {
                key_id: WrappedKey(key.account, key.resource_id, key.master, destroyed_at=moment)
                for key_id, key in newest.items()
                if key_id in gone and key.destroyed_at is None
            }
            return {**newest, **marked}

        if gone:
            await self._keyring.change(mark_destroyed)
        return len(gone)

    async def rotate(self) -> RotationResult:
        """Wrap every data key with a new master key, or go on where a rotation was broken off.

        Until the keyring is in place the old master key opens everything, from then on the new one does: a crash at
        any moment leaves both there.
        """
        counts: list[RotationResult] = []

        def rewrap_keys(keys: Mapping[str, WrappedKey]) -> Mapping[str, WrappedKey]:
            self._masters.begin_rotation()
            masters = self._masters.keys(make=False)
            if not masters:
                raise Unavailable(_NO_MASTER)
            old = [key_id for key_id, wrapped_key in keys.items() if _is_old(wrapped_key, masters[0])]
            fresh = {key_id: self._rewrap(key_id, keys[key_id], masters) for key_id in old}
            counts.append(RotationResult(masters[0].name, sum(map(_is_in_use, keys.values())), len(old)))
            return {**keys, **fresh}

        def finish_rotation(keys: Mapping[str, WrappedKey]) -> None:
            masters = self._masters.keys(make=False)
            # Another process may have ended it, and begun another one, since.
            if masters and not any(_is_old(key, masters[0]) for key in keys.values()):
                self._masters.end_rotation()

        await self._keyring.change(rewrap_keys)
        await self._keyring.change(finish_rotation)
        return counts[0]

    def _get_master(self, keys: Mapping[str, WrappedKey]) -> MasterKey:
        # Where a master key is gone that keys are wrapped by, another one would only hide that.
        is_in_use = any(map(_is_in_use, keys.values()))
        masters = self._masters.keys(make=not is_in_use)
        if not masters:
            raise Unavailable(_NO_OPENER if is_in_use else _NO_MASTER)
        if is_in_use and not any(
            _is_in_use(key) and key.master in {master.name for master in masters} for key in keys.values()
        ):
            raise Unavailable(_OTHER_MASTER)
        return masters[0]

    def _wrap(self, key: DataKey, master: MasterKey) -> WrappedKey:
        nonce, data = self._cipher.seal(master.key, key.key, _join_parts(key.id))
        return WrappedKey(key.account, key.resource_id, master.name, nonce, data)

    def _rewrap(self, key_id: str, wrapped: WrappedKey, masters: Sequence[MasterKey]) -> WrappedKey:
        try:
            key = self._unwrap(key_id, wrapped, masters)
        except UnsealError as problem:
            raise Unavailable(f"data key {key_id} in keys/keyring.json was changed; nothing was rotated") from problem
        return self._wrap(DataKey(key_id, wrapped.account, wrapped.resource_id, key), masters[0])

    def _unwrap(self, key_id: str, wrapped: WrappedKey, masters: Sequence[MasterKey]) -> bytes:
        master = next((master_key for master_key in masters if master_key.name == wrapped.master), None)
        if master is None:
            raise Unavailable(_NO_OPENER)
        return self._cipher.open(master.key, wrapped.nonce, wrapped.data, _join_parts(key_id))


def _is_in_use(wrapped: WrappedKey) -> bool:
    return wrapped.destroyed_at is None


def _is_old(wrapped: WrappedKey, master: MasterKey) -> bool:
    return _is_in_use(wrapped) and wrapped.master != master.name


def _make_associated_data(account: str, resource_id: str, version: int) -> bytes:
    """Return what a body is bound to."""
    return _join_parts(account, resource_id, str(version))


def _join_parts(*parts: str) -> bytes:
    # With the length of each: no two places may read the same.
    encoded = [part.encode() for part in parts]
    return b"".join(len(item).to_bytes(_LENGTH_BYTES, "big") + item for item in encoded)


def _encode(data: bytes) -> str:
    return b64encode(data).decode()
