"""Opens what services work with: the store, the models, the clock, the keys that seal resources."""

import gc
import operator
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain

from knowhub.core.allowances import HourlyTokens, TokenBudget
from knowhub.core.clock import Clock, SystemClock
from knowhub.core.data_keys import MasterKey
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, RandomIds, random_bytes
from knowhub.core.language_models import ChatModel, Embedder, Reranker
from knowhub.core.operation import RunDecision
from knowhub.keywords.ports import KeywordText
from knowhub.providers.cipher import KEY_BYTES, AesGcm, master_key, master_key_text
from knowhub.providers.http import RequestTiming
from knowhub.resources.collections import list_key_ids
from knowhub.resources.vault import Vault
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.keys import FileKeyring, FileMasterKeys
from knowhub.stores.files.store import FileStore, StoreOptions, open_store
from knowhub.stores.files.subprocess_runner import SubprocessRunner, run_in_process, run_in_subprocess
from knowhub.wiring.collections import COLLECTIONS
from knowhub.wiring.models import EmbedderChoice, open_chat_model, open_embedder, open_reranker


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a test or an embedding program replaces; None takes the real thing.

    `llm`, `embedder` and `reranker` replace those of the settings, `text` the rules by which keyword names are read.
    `run_decision` is how the store runs decisions.
    """

    clock: Clock | None = None
    ids: Ids | None = None
    files: FileSystem | None = None
    llm: ChatModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    text: KeywordText | None = None
    run_decision: RunDecision = operator.call


@dataclass(frozen=True, slots=True)
class Adapters:
    """The implementations of the ports, opened and ready."""

    settings: Settings
    clock: Clock
    ids: Ids
    files: FileSystem
    directory: DataDirectory
    run_subprocess: SubprocessRunner
    timing: RequestTiming
    chat: ChatModel | None
    token_budget: TokenBudget
    embedding: EmbedderChoice
    reranker: Reranker | None
    text: KeywordText
    store: FileStore
    vault: Vault


async def open_adapters(settings: Settings, overrides: Overrides, stack: AsyncExitStack) -> Adapters:
    """Open the store and the models; `stack` closes them.

    Raises Unavailable when the directory is of a newer format or held by a stopped process, InvalidInput for settings
    that cannot be used, and OSError.
    """
    clock, ids = overrides.clock or SystemClock(), overrides.ids or RandomIds()
    files, directory = overrides.files or FileSystem(), DataDirectory(settings.data_dir)
    timing = RequestTiming(clock, ids)
    token_budget = HourlyTokens(settings.llm_tokens_per_hour, timing.monotonic)
    chat = overrides.llm or await open_chat_model(settings, timing, stack, token_budget)
    if overrides.embedder is not None:
        embedding = EmbedderChoice("server", overrides.embedder)
    else:
        embedding = await open_embedder(settings, timing, stack)
    reranker = overrides.reranker or await open_reranker(settings, timing, stack)
    options = StoreOptions(
        lock_timeout_s=settings.lock_timeout_s,
        segment_bytes=settings.segment_bytes,
        retry_key_lifetime_s=settings.retry_key_lifetime_s,
        run_decision=overrides.run_decision,
    )
    with _no_garbage_collection():
        store = open_store(directory.root, files, clock, ids, COLLECTIONS, options)
    stack.push_async_callback(store.close)
    return Adapters(
        settings=settings,
        clock=clock,
        ids=ids,
        files=files,
        directory=directory,
        run_subprocess=run_in_subprocess if overrides.files is None else run_in_process(files),
        timing=timing,
        chat=chat,
        token_budget=token_budget,
        embedding=embedding,
        reranker=reranker,
        text=overrides.text or KeywordTextRules(),
        store=store,
        vault=_open_vault(settings, files, directory, store),
    )


def _open_vault(settings: Settings, files: FileSystem, directory: DataDirectory, store: FileStore) -> Vault:
    former_key = _parse_master_key("KNOWHUB_SECRET_KEY_OLD", settings.secret_key_old)
    master_keys = FileMasterKeys(
        files,
        path=settings.secret_key_file or directory.master_key,
        read=master_key,
        draw=lambda: master_key_text(random_bytes(KEY_BYTES)),
        given=_parse_master_key("KNOWHUB_SECRET_KEY", settings.secret_key),
        former=[] if former_key is None else [former_key],
        # A server with API keys has several users: its operator chooses the master key.
        can_create=settings.auth == "none",
    )
    keyring = FileKeyring(files, directory, settings.lock_timeout_s)
    # Data keys get ids of their own: a test that counts its ids must never reuse the name of a data key.
    return Vault(
        AesGcm(random_bytes),
        keyring,
        master_keys,
        RandomIds(),
        lambda: chain.from_iterable(list_key_ids(store.view(account)) for account in store.accounts),
    )


def _parse_master_key(setting: str, text: str | None) -> MasterKey | None:
    try:
        return None if text is None else master_key(text)
    except ValueError as error:
        raise InvalidInput.of(setting, str(error)) from None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Load without the garbage collector: it would visit a growing million of objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
