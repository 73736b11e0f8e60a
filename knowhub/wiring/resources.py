"""Resources with what seals them: the cipher, the keyring and the master keys, chosen by the settings."""

import time
from dataclasses import dataclass

from knowhub.core.errors import InvalidInput
from knowhub.core.ids import RandomIds, random_bytes
from knowhub.providers.cipher import KEY_BYTES, AesGcm, master_key, master_key_text
from knowhub.resources.model import MasterKey
from knowhub.resources.reveal_quota import RevealQuota
from knowhub.resources.service import ResourceService
from knowhub.resources.vault import Vault
from knowhub.settings import Settings
from knowhub.stores.files.keys.keyring import FileKeyring
from knowhub.stores.files.keys.master_key import FileMasterKeys, MasterKeyOptions
from knowhub.stores.files.store import FileStore
from knowhub.wiring.upkeep import Means


@dataclass(frozen=True, slots=True)
class ResourceServices:
    """Everything that is done with resources."""

    resources: ResourceService
    vault: Vault


def resources_on(store: FileStore, vault: Vault, settings: Settings) -> ResourceServices:
    """Build the services."""
    quota = RevealQuota(settings.reveals_per_hour, time.monotonic)
    return ResourceServices(ResourceService(store, vault, quota), vault)


def vault_of(means: Means) -> Vault:
    """Build what seals and opens. Raises InvalidInput where a key in the settings is none."""
    settings, directory = means.settings, means.directory
    options = MasterKeyOptions(
        path=settings.secret_key_file or directory.master_key,
        read=master_key,
        draw=lambda: master_key_text(random_bytes(KEY_BYTES)),
        given=_given("KNOWHUB_SECRET_KEY", settings.secret_key),
        former=[one for one in (_given("KNOWHUB_SECRET_KEY_OLD", settings.secret_key_old),) if one is not None],
        # With keys to call with there are people who were not asked: theirs is to say with which key it is sealed.
        may_make=settings.auth == "none",
    )
    keyring = FileKeyring(means.files, directory, settings.lock_timeout_s)
    # The names of data keys are drawn beside the others: a test that counts its ids must not name two of them alike.
    return Vault(AesGcm(random_bytes), keyring, FileMasterKeys(means.files, options), RandomIds())


def _given(name: str, text: str | None) -> MasterKey | None:
    try:
        return None if text is None else master_key(text)
    except ValueError as problem:
        raise InvalidInput.of(name, str(problem)) from None
