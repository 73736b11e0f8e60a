"""Builders for tests of sealed bodies."""

from collections.abc import Sequence
from pathlib import Path

from knowhub.core.data_keys import MasterKey
from knowhub.core.ids import random_bytes
from knowhub.providers.cipher import KEY_BYTES, AesGcm, master_key, master_key_text
from knowhub.resources.model import NewResource
from knowhub.resources.vault import Vault
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keys import FileKeyring, FileMasterKeys
from tests.builders import CountedIds
from tests.fakes.memory_keyring import HeldMasters, MemoryKeyring

MASTER = master_key("the first master key of these tests")
OTHER_MASTER = master_key("another master key, for a rotation")
ACCOUNT, ID = "default", "credentials/website_a"
SECRET = "账号：user@example.com\n密码：SecurePass123"


def memory_vault(keyring: MemoryKeyring | None = None, *masters: MasterKey, ids: int = 0) -> Vault:
    """Return a vault on a keyring in memory; it has one master key unless others are given."""
    held = HeldMasters(*(masters or (MASTER,)))
    return Vault(AesGcm(random_bytes), keyring or MemoryKeyring(), held, CountedIds(ids))


def vault_on(
    root: Path,
    files: FileSystem,
    *,
    given: MasterKey | None = None,
    former: Sequence[MasterKey] = (),
    ids: int = 0,
    can_create: bool = True,
) -> Vault:
    """Return a vault on the keyring and the master keys of a data directory, as a hub builds it."""
    directory = DataDirectory(root)
    master_keys = FileMasterKeys(
        files,
        path=directory.master_key,
        read=master_key,
        draw=lambda: master_key_text(random_bytes(KEY_BYTES)),
        given=given,
        former=former,
        can_create=can_create,
    )
    return Vault(AesGcm(random_bytes), FileKeyring(files, directory, 1), master_keys, CountedIds(ids))


def new_resource(resource_id: str = ID, **fields: object) -> NewResource:
    """Return a credential; nothing is sealed unless `secure_body` is given."""
    return NewResource(resource_id, **{"body": "log in here", "content_type": "credential", **fields})  # type: ignore[arg-type] # any field of it


def find_texts_in_files(root: Path, texts: list[str], *, beside: tuple[str, ...] = ()) -> list[str]:
    """Return each file below `root` that contains one of `texts`, with the text; folders in `beside` are skipped."""
    sought = [text.encode() for text in texts]
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.relative_to(root).parts[0] not in beside:
            data = path.read_bytes()
            found += [f"{path}: {text.decode()}" for text in sought if text in data]
    return found
