"""Builds the models that the settings name: chat model, embedder, reranker; and says what the embedder can do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from knowhub.core.allowances import TokenBudget
from knowhub.core.clock import SystemClock
from knowhub.core.errors import InvalidInput
from knowhub.core.ids import RandomIds
from knowhub.core.language_models import ChatModel, Embedder, EmbeddingFailed, Reranker
from knowhub.providers import http
from knowhub.providers.chat import ChatClient, ChatOptions
from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.http import RequestTiming
from knowhub.providers.local_embedder import LocalEmbedder, find_model, find_packaged_model
from knowhub.providers.rerank import RerankClient, RerankOptions, RerankStyle
from knowhub.search.monitored_embedder import MonitoredEmbedder
from knowhub.search.scripts import PROBES, ScriptSkills
from knowhub.settings import DEFAULT_MODEL, Settings

_CHECK_S: Final = 60.0
_PASSAGES: Final = "Represent this sentence for searching relevant passages: "
# Models that expect a prefix before queries, texts or both, by a part of their names; the first that fits counts.
# Versions of one family differ. A model is listed only if its authors name the prefix: wrong advice is worse than none.
_PREFIXES: Final = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "snowflake-arctic-embed2": ("query: ", ""),
    "snowflake-arctic-embed-m-v2": ("query: ", ""),
    "snowflake-arctic-embed-l-v2": ("query: ", ""),
    "snowflake-arctic-embed": (_PASSAGES, ""),
    "mxbai-embed-large": (_PASSAGES, ""),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "e5-small": ("query: ", "passage: "),
    "e5-base": ("query: ", "passage: "),
    "e5-large": ("query: ", "passage: "),
}


async def open_chat_model(
    settings: Settings, timing: RequestTiming, stack: AsyncExitStack, budget: TokenBudget, model: str | None = None
) -> ChatModel | None:
    """Build the chat model of the settings, or another `model` at the same address; None without an address.

    `stack` closes it. Raises InvalidInput when the address, the proxy or the certificates cannot be used.
    """
    if settings.llm_base_url is None:
        return None
    options = ChatOptions(
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=model or settings.llm_model,
        attempt_timeout_s=settings.llm_timeout_s,
        max_attempts=settings.llm_attempts,
        max_answer_bytes=settings.llm_max_answer_bytes,
        breaker_failures=settings.llm_breaker_failures,
        breaker_cool_down_s=settings.llm_breaker_cool_down_s,
    )
    with _invalid_setting("KNOWHUB_LLM_*"):
        client = http.make_client(settings.llm_proxy, settings.llm_ca_file)
        return ChatClient(options, await stack.enter_async_context(client), timing, budget)


def chat_models_by_name(
    settings: Settings, default: ChatModel | None, timing: RequestTiming, budget: TokenBudget
) -> Callable[[str | None], AbstractAsyncContextManager[ChatModel | None]]:
    """Return a function that opens the chat model of a name at the address of the settings.

    It yields `default` where there is no address, no name, or the name is that of the default model: tools send that
    name unasked. All models share the budget.
    """

    @asynccontextmanager
    async def open_by_name(name: str | None) -> AsyncIterator[ChatModel | None]:
        if settings.llm_base_url is None or name in (None, DEFAULT_MODEL, settings.llm_model):
            yield default
            return
        async with AsyncExitStack() as stack:
            yield await open_chat_model(settings, timing, stack, budget, name)

    return open_by_name


_LOCAL_NAMES: Final = {"packaged": "the packaged embedder", "directory": "the model of KNOWHUB_EMBEDDING_DIR"}


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """The embedder in use and its source; `problem` says why there is none, where one could be."""

    source: Literal["packaged", "directory", "server", "none"]
    embedder: Embedder | None = None
    problem: str | None = None


async def open_embedder(settings: Settings, timing: RequestTiming, stack: AsyncExitStack) -> EmbedderChoice:
    """Open the embedder of KNOWHUB_EMBEDDING: a server, a directory, the packaged model, or none.

    `stack` closes it. Raises InvalidInput when a setting is missing, or the address, the proxy or the certificates
    cannot be used. If the files of a model cannot be used, the choice names the problem.
    """
    source = _embedder_source(settings)
    if source == "server":
        return EmbedderChoice("server", await _open_embedding_server(settings, timing, stack))
    if source == "none":
        return EmbedderChoice("none")
    try:
        # Reading a model takes seconds: the event loop goes on meanwhile.
        embedder = await asyncio.to_thread(_load_local_model, settings, source)
    except (ImportError, ValueError, OSError) as error:
        return EmbedderChoice("none", problem=f"{_LOCAL_NAMES[source]} cannot be used: {error}")
    if embedder is None:
        return EmbedderChoice("none")
    stack.callback(embedder.close)
    return EmbedderChoice(source, embedder)


def _embedder_source(settings: Settings) -> Literal["packaged", "directory", "server", "none"]:
    mode = settings.embedding
    if mode == "off":
        return "none"
    has_server, has_directory = settings.embedding_base_url is not None, settings.embedding_dir is not None
    if mode == "auto" and has_server and has_directory:
        raise InvalidInput.of(
            "KNOWHUB_EMBEDDING_DIR",
            "a server is named by KNOWHUB_EMBEDDING_BASE_URL too: set one of them, or choose with KNOWHUB_EMBEDDING",
        )
    if mode == "server" and not has_server:
        raise InvalidInput.of("KNOWHUB_EMBEDDING_BASE_URL", "KNOWHUB_EMBEDDING=server needs the address of a server")
    if mode == "directory" and not has_directory:
        raise InvalidInput.of("KNOWHUB_EMBEDDING_DIR", "KNOWHUB_EMBEDDING=directory needs the directory of a model")
    if mode != "auto":
        return mode
    if has_server:
        return "server"
    return "directory" if has_directory else "packaged"


def _load_local_model(settings: Settings, source: Literal["packaged", "directory"]) -> LocalEmbedder | None:
    """Load a model. Returns None if none is packaged. Raises ImportError, ValueError, OSError."""
    if source == "packaged":
        files = find_packaged_model()
        return None if files is None else LocalEmbedder(files)
    if settings.embedding_dir is None:
        raise ValueError("no directory is set")
    try:
        return LocalEmbedder(
            find_model(settings.embedding_dir),
            query_prefix=settings.embedding_query_prefix,
            text_prefix=settings.embedding_text_prefix,
        )
    except ImportError as error:
        raise ValueError(f"a local model needs more libraries: pip install knowhub[local] ({error})") from error


async def _open_embedding_server(settings: Settings, timing: RequestTiming, stack: AsyncExitStack) -> Embedder:
    with _invalid_setting("KNOWHUB_EMBEDDING_*"):
        options = EmbeddingOptions(
            base_url=settings.embedding_base_url or "",
            api_key=settings.embedding_api_key,
            model=settings.embedding_model,
            dimensions=settings.embedding_dimensions,
            query_prefix=settings.embedding_query_prefix,
            text_prefix=settings.embedding_text_prefix,
            batch=settings.embedding_batch,
            text_characters=settings.embedding_text_characters,
            attempt_timeout_s=settings.embedding_timeout_s,
            max_attempts=settings.embedding_attempts,
        )
        client = http.make_client(settings.embedding_proxy, settings.embedding_ca_file)
        return EmbeddingClient(options, await stack.enter_async_context(client), timing)


async def open_reranker(settings: Settings, timing: RequestTiming, stack: AsyncExitStack) -> Reranker | None:
    """Build the reranker of the settings; None where they name none.

    `stack` closes it. Raises InvalidInput when the address, the proxy or the certificates cannot be used.
    """
    if settings.rerank_base_url is None:
        return None
    options = RerankOptions(
        base_url=settings.rerank_base_url,
        api_key=settings.rerank_api_key,
        model=settings.rerank_model,
        style=RerankStyle(settings.rerank_style),
        attempt_timeout_s=settings.rerank_budget_s,
    )
    with _invalid_setting("KNOWHUB_RERANK_*"):
        client = http.make_client(settings.rerank_proxy, settings.rerank_ca_file)
        return RerankClient(options, await stack.enter_async_context(client), timing)


@contextmanager
def _invalid_setting(name: str) -> Iterator[None]:
    """Turn what a provider refuses into InvalidInput for the settings of that name."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InvalidInput.of(name, str(error)) from error


async def check_embedder(settings: Settings) -> dict[str, Any]:
    """Open the embedder of the settings, measure every script, and return its description with all problems."""
    async with AsyncExitStack() as stack:
        skills = None
        try:
            choice = await open_embedder(settings, RequestTiming(SystemClock(), RandomIds()), stack)
            if choice.embedder is not None:
                skills = ScriptSkills(choice.embedder, settings.embedding_scripts or None)
        except ValueError as error:
            choice = EmbedderChoice("none", problem=f"the server does not start with these settings: {error}")
        report = EmbeddingReport(choice, skills, settings)
        problems: list[str] = []
        if skills is not None:
            stack.push_async_callback(skills.close)
            try:
                await asyncio.wait_for(skills.measure(), _CHECK_S)
            except TimeoutError:
                problems.append(f"the embedder did not answer within {_CHECK_S:g} s")
            except EmbeddingFailed as error:
                problems.append(f"the embedder gives no vectors: {error}")
        answer = report.describe()
        return answer | {"problems": [*answer["problems"], *problems]}


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """The embedder in use. `skills` is None where there is none, `monitored` also where searches do not use it."""

    choice: EmbedderChoice
    skills: ScriptSkills | None
    settings: Settings
    monitored: MonitoredEmbedder | None = None

    async def measure(self) -> None:
        """Measure the skill of the embedder in the most frequent scripts. So a server that is down is named at once."""
        if self.skills is not None:
            # The monitored embedder remembers the failure.
            with suppress(EmbeddingFailed):
                await self.skills.measure(("latin", "han"))

    def find_problems(self) -> Sequence[str]:
        """Return what is wrong: no model, no answers, no script that is read, a missing prefix, another leader's."""
        problems = [] if self.choice.problem is None else [self.choice.problem]
        measured = {} if self.skills is None or self.skills.configured is not None else self.skills.measured
        if measured and not any(skill.skill for skill in measured.values()):
            problems.append(
                f"the embedder reads none of the scripts tried ({', '.join(measured)}), so searches use words only. "
                "KNOWHUB_EMBEDDING_SCRIPTS overrules this"
            )
        if self.monitored is not None and self.monitored.problem is not None:
            problems.append(self.monitored.problem)
        missing = self._find_missing_prefixes()
        if missing:
            problems.append(f"models of this name expect prefixes: set {' and '.join(missing)}")
        return problems

    def describe(self) -> dict[str, Any]:
        """Return source, model, the scripts that are read and those that are not, what decided that, and problems."""
        embedder, skills = self.choice.embedder, self.skills
        answer: dict[str, Any] = {
            "source": self.choice.source,
            "model": None if embedder is None else embedder.model,
            "problems": list(self.find_problems()),
        }
        if skills is None or skills.configured is not None:
            # Nothing is measured, or the measurement decides nothing.
            read = () if skills is None else skills.configured or ()
            left = () if skills is None else [name for name in PROBES if name not in read]
            return answer | {
                "reads": [name for name in PROBES if name in read],
                "left_to_words": dict.fromkeys(left, "KNOWHUB_EMBEDDING_SCRIPTS leaves it out"),
                "not_measured": [],
                "decided_by": None if skills is None else "KNOWHUB_EMBEDDING_SCRIPTS",
            }
        measured = skills.measured
        return answer | {
            "reads": [name for name, skill in measured.items() if skill.skill],
            "left_to_words": {name: skill.reason for name, skill in measured.items() if not skill.skill},
            "not_measured": [name for name in PROBES if name not in measured],
            "decided_by": "measurement",
        }

    def _find_missing_prefixes(self) -> Sequence[str]:
        embedder, settings = self.choice.embedder, self.settings
        if embedder is None or "instruct" in embedder.model.lower():
            return []
        name = embedder.model.lower()
        query, text = next((prefixes for part, prefixes in _PREFIXES.items() if part in name), ("", ""))
        expected = [
            ("KNOWHUB_EMBEDDING_QUERY_PREFIX", query, settings.embedding_query_prefix),
            ("KNOWHUB_EMBEDDING_TEXT_PREFIX", text, settings.embedding_text_prefix),
        ]
        return [f"{variable} to {prefix!r}" for variable, prefix, given in expected if prefix and not given]
