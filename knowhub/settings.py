"""Every setting of the server, read from the environment here and nowhere else (`docs/reference/settings.md`)."""

import os
import subprocess
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from knowhub.core import scopes

DEFAULT_MODEL = "google/gemini-2.0-flash-001"
_PREFIX = "KNOWHUB_"
# The tools may run in the environment of the server.
_OF_AGENT_TOOLS = {"KNOWHUB_API_URL", "KNOWHUB_API_KEY"}
_GIT_TIMEOUT_S = 2.0
# Where Claude Code, Codex and Cursor keep their transcripts.
_TRANSCRIPTS = (Path("~/.claude/projects"), Path("~/.codex/sessions"), Path("~/.cursor/projects"))

# What an empty text means where that is neither "not set" nor the text itself.
_EMPTY = {"embedding": "auto", "uncategorized_name": None}


def as_owner(value: str) -> str:
    """Make a bare name or e-mail address a user. Raises ValueError when it is no owner then."""
    owner = value if value.partition(":")[0] in ("user", "agent") else f"user:{value}"
    problem = scopes.owner_problem(owner)
    if problem:
        raise ValueError(problem)
    return owner


def _check_key(key: str) -> str:
    if not all("!" <= char <= "~" for char in key):
        raise ValueError("must be printable ASCII without spaces: it is sent as a header")
    return key


def _check_address(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be an address that begins with http:// or https://")
    return value


def _check_origin(origin: str) -> str:
    parts = urlsplit(origin)
    # As browsers send it: an asterisk, a path or a slash at the end would never be met.
    if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
        raise ValueError(f"{origin!r} is no origin; write it as http://host:port")
    return origin


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


_Address = Annotated[str, AfterValidator(_check_address)]
_Name = Annotated[str, AfterValidator(str.lower)]
_CommaSeparated = (NoDecode, BeforeValidator(_split))


class Settings(BaseSettings):
    """One frozen object. Each field is the variable KNOWHUB_<NAME>; sizes are bytes, times seconds."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    data_dir: Path = Path("./data")
    auth: Literal["none", "api-key"] = "none"
    root_key: Annotated[str, Field(min_length=32, max_length=512), AfterValidator(_check_key)] | None = Field(
        default=None, repr=False
    )
    secret_key: str | None = Field(default=None, min_length=32, max_length=512, repr=False)
    secret_key_old: str | None = Field(default=None, min_length=32, max_length=512, repr=False)
    secret_key_file: Path | None = None
    reveals_per_hour: int = Field(default=120, ge=0)
    allow_open_bind: bool = False
    allowed_hosts: Annotated[tuple[_Name, ...], *_CommaSeparated] = ()
    owner: Annotated[str, AfterValidator(as_owner)] | None = None
    max_header_bytes: int = Field(default=64 * 1024, ge=8192)
    max_header_fields: int = Field(default=100, ge=20)
    max_body_bytes: int = Field(default=1024 * 1024, ge=1024)
    max_batch_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    max_held_body_bytes: int = Field(default=256 * 1024 * 1024, ge=0)
    max_held_body_bytes_per_caller: int = Field(default=32 * 1024 * 1024, ge=0)
    max_json_depth: int = Field(default=64, ge=4)
    max_json_values: int = Field(default=100_000, ge=1000)
    max_concurrent_requests: int = Field(default=1000, ge=0)
    request_timeout_s: float = Field(default=60.0, gt=0)
    shutdown_timeout_s: int = Field(default=25, ge=2)
    rate_limit_per_minute: int = Field(default=0, ge=0)
    writes_per_day: int = Field(default=0, ge=0)
    mcp_tools: str = Field(default="core", min_length=1)
    hook_tokens: int = Field(default=1000, ge=100, le=10_000)
    hook_relevance_floor: float = Field(default=0.15, ge=0, le=1)
    hook_budget_s: float = Field(default=0.7, gt=0)
    hook_transcripts: Annotated[tuple[Path, ...], *_CommaSeparated] = _TRANSCRIPTS
    cors_origins: Annotated[tuple[Annotated[_Name, AfterValidator(_check_origin)], ...], *_CommaSeparated] = ()
    index_interval_s: float = Field(default=1.0, gt=0)
    index_batch: int = Field(default=4000, ge=1)
    maps_interval_s: float = Field(default=30.0, ge=0)
    record_files: bool = True
    context_directories: bool = True
    segment_bytes: int = Field(default=64 * 1024 * 1024, ge=4096)
    retry_key_lifetime_s: float = Field(default=24 * 3600.0, gt=0)
    lock_timeout_s: float = Field(default=10.0, gt=0)
    undo_retention_days: float = Field(default=30.0, ge=0)
    compaction_interval_hours: float = Field(default=24.0, ge=0)
    snapshot_interval_hours: float = Field(default=24.0, ge=0)
    snapshots_kept: int = Field(default=7, ge=1)
    snapshot_max_bytes: int = Field(default=64 * 1024**3, ge=1024)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    llm_base_url: _Address | None = None
    llm_api_key: str | None = Field(default=None, repr=False)
    llm_model: str = Field(default=DEFAULT_MODEL, min_length=1)
    llm_timeout_s: float = Field(default=20.0, gt=0)
    llm_attempts: int = Field(default=3, ge=1, le=10)
    llm_tokens_per_hour: int = Field(default=2_000_000, ge=0)
    llm_breaker_failures: int = Field(default=5, ge=0)
    llm_breaker_cool_down_s: float = Field(default=30.0, gt=0)
    llm_max_answer_bytes: int = Field(default=1024 * 1024, ge=1024)
    llm_proxy: _Address | None = Field(default=None, repr=False)
    llm_ca_file: Path | None = None
    llm_write_budget_s: float = Field(default=30.0, gt=0)
    extraction_budget_s: float = Field(default=300.0, gt=0)
    descent_budget_s: float = Field(default=15.0, gt=0)
    llm_budget_s: float = Field(default=3.0, gt=0)
    routing_candidates: int = Field(default=100, ge=0, le=1000)

    relevance_floor: float = Field(default=0.1, ge=0, le=1)
    evidence_half_life_days: float = Field(default=365.0, gt=0)

    embedding: Literal["auto", "off", "server", "directory"] = "auto"
    embedding_scripts: Annotated[tuple[_Name, ...] | None, *_CommaSeparated] = None
    embedding_base_url: _Address | None = None
    embedding_api_key: str | None = Field(default=None, repr=False)
    embedding_model: str = Field(default="text-embedding-3-small", min_length=1)
    embedding_dir: Path | None = None
    embedding_dimensions: int | None = Field(default=None, ge=1, le=65536)
    embedding_query_prefix: str = ""
    embedding_text_prefix: str = ""
    embedding_text_characters: int = Field(default=8000, ge=100)
    embedding_batch: int = Field(default=64, ge=1, le=2048)
    embedding_timeout_s: float = Field(default=20.0, gt=0)
    embedding_attempts: int = Field(default=3, ge=1, le=10)
    embedding_search_budget_s: float = Field(default=2.0, gt=0)
    vector_weight: float = Field(default=0.45, ge=0, le=1)
    embedding_proxy: _Address | None = Field(default=None, repr=False)
    embedding_ca_file: Path | None = None

    rerank_base_url: _Address | None = None
    rerank_api_key: str | None = Field(default=None, repr=False)
    rerank_model: str = Field(default="rerank-v3.5", min_length=1)
    rerank_style: Literal["auto", "cohere", "tei"] = "auto"
    rerank_budget_s: float = Field(default=2.0, gt=0)
    rerank_proxy: _Address | None = Field(default=None, repr=False)
    rerank_ca_file: Path | None = None

    max_candidates: int = Field(default=50, ge=2, le=1000)
    descend_max_rounds: int = Field(default=6, ge=1, le=50)
    recent_keywords: int = Field(default=128, ge=0, le=10_000)
    describe_candidates: bool = True
    uncategorized_name: str | None = Field(default="未分类", max_length=200)
    auto_link_creates: bool = False
    log_agent_decisions: bool = True
    result_cache: bool = True
    result_cache_entries: int = Field(default=20_000, ge=1)
    result_cache_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_not_set(cls, value: object, info: ValidationInfo) -> object:
        # A compose file hands through what is not set as an empty text.
        if value != "" or info.field_name is None:
            return value
        return _EMPTY.get(info.field_name, None if cls.model_fields[info.field_name].default is None else value)

    @field_validator("max_held_body_bytes", "max_held_body_bytes_per_caller")
    @classmethod
    def _holds_a_body(cls, value: int, info: ValidationInfo) -> int:
        largest = max(info.data.get("max_body_bytes", 0), info.data.get("max_batch_body_bytes", 0))
        if 0 < value < largest:
            raise ValueError(f"must be at least {largest}, the size of the largest body, or 0 for no limit")
        return value


def find_folder(variable: str) -> Path | None:
    """Return the folder that a variable of another program names."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else None


def get_api_key() -> str | None:
    """Return the key that clients send, of this machine's user. Raises ValueError if it fits no header."""
    return _check_key(os.environ.get("KNOWHUB_API_KEY", "").strip()) or None


def find_unknown_variables() -> dict[str, str | None]:
    """Return the KNOWHUB_ variables of the environment that are no settings, each with the most similar setting."""
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields}
    given = {name for name in os.environ if name.startswith(_PREFIX)}
    # The prefix makes any two alike.
    bare = [name.removeprefix(_PREFIX) for name in known]

    def find_similar(name: str) -> str | None:
        found = get_close_matches(name.removeprefix(_PREFIX).upper(), bare, 1)
        return f"{_PREFIX}{found[0]}" if found else None

    return {name: find_similar(name) for name in sorted(given - known - _OF_AGENT_TOOLS)}


def default_owner(settings: Settings) -> str:
    """Return KNOWHUB_OWNER, else the user of git's e-mail address, else `user:local`."""
    if settings.owner is not None:
        return settings.owner
    try:
        answer = subprocess.run(
            ["git", "config", "user.email"],  # noqa: S607 -- whichever git the user has
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
        return as_owner(answer.stdout.strip()) if answer.stdout.strip() else "user:local"
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return "user:local"
