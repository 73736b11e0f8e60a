"""Prometheus metrics: counted as requests end, read when they are scraped."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.types import Scope

from knowhub.bootstrap import Hub
from knowhub.context.events import EventStatus
from knowhub.core.language_models import Usage, get_counted

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The counters of one app. Labels are route templates, never paths: those could hold anything."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "knowhub_http_requests_total",
            "Requests by route and status.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "knowhub_http_request_seconds",
            "Time to answer, in seconds.",
            ["method", "route"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._hook_tokens = Counter(
            "knowhub_hook_tokens_total",
            "Tokens that hooks have shown to agents, by estimate.",
            ["host", "event"],
            registry=self._registry,
        )
        self._hooks_late = Counter(
            "knowhub_hooks_late_total",
            "Hooks that were answered before their work was done.",
            ["host", "event"],
            registry=self._registry,
        )
        self._tool_calls = Counter(
            "knowhub_mcp_calls_total",
            "Calls of tools over MCP; `error` is an answer with isError.",
            ["tool", "result"],
            registry=self._registry,
        )
        # Looking a labelled counter up costs more than counting: each is looked up once.
        self._known: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def watch(self, hub: Hub) -> None:
        """Show the state of a hub too."""
        self._registry.register(_HubCollector(hub))

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one answered request."""
        route = getattr(scope.get("route"), "path", "unmatched")
        # A client may send any word as a method, and each would stay here for ever.
        method = scope["method"] if route != "unmatched" and scope["method"] in _METHODS else "any"
        key = (method, route, status)
        if key not in self._known:
            self._known[key] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(method, route),
            )
        requests, duration = self._known[key]
        requests.inc()
        duration.observe(seconds)

    def count_hook(self, host: str, event: str, tokens: int, *, is_late: bool) -> None:
        """Count one answered hook, and the tokens that it has shown."""
        if tokens:
            self._hook_tokens.labels(host, event).inc(tokens)
        if is_late:
            self._hooks_late.labels(host, event).inc()

    def count_tool_call(self, tool: str, *, is_error: bool) -> None:
        """Count one answered call of a tool over MCP."""
        self._tool_calls.labels(tool, "error" if is_error else "ok").inc()

    def render(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)


class _HubCollector:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        status = self._hub.store.status()
        yield GaugeMetricFamily("knowhub_writable", "1 while writes are taken.", value=float(status.writable))
        yield GaugeMetricFamily("knowhub_log_sequence", "Operations acknowledged so far.", value=status.last_seq)
        yield GaugeMetricFamily("knowhub_index_lag", "Rows not yet in an index.", value=self._hub.indexes.lag)
        yield _describe_outbox(self._hub.memories.outbox.counts)
        yield GaugeMetricFamily(
            "knowhub_keeper", "1 in the keeper process.", value=float(self._hub.maintenance.is_leader)
        )
        yield CounterMetricFamily(
            "knowhub_showings_dropped",
            "Times that what a search showed could not be noted in the log.",
            value=self._hub.knowledge.impressions.dropped + self._hub.knowledge.impressions.failed,
        )
        chat, decisions = self._hub.chat, self._hub.decisions
        if (counted := get_counted(chat)) is not None:
            yield from _describe_model(counted.usage)
        if (counted := get_counted(self._hub.embedder)) is not None:
            yield from _describe_calls("embedder", "Calls of the embedder", counted.usage)
            tokens = counted.usage.prompt_tokens
            yield CounterMetricFamily("knowhub_embedder_tokens", "Tokens of embedded texts.", value=tokens)
        if (counted := get_counted(self._hub.reranker)) is not None:
            yield from _describe_calls("reranker", "Calls of the reranker", counted.usage)
        if chat is not None:
            yield CounterMetricFamily(
                "knowhub_agent_decisions_dropped",
                "Decisions made in reads that could not be noted in the log.",
                value=decisions.dropped + decisions.failed,
            )


def _describe_outbox(counts: Mapping[EventStatus, int]) -> Metric:
    failed = GaugeMetricFamily("knowhub_outbox_events", "Memories that failed to be embedded.", labels=["status"])
    for status in (EventStatus.FAILED, EventStatus.DEAD):
        failed.add_metric([status.value], counts.get(status, 0))
    return failed


def _describe_model(usage: Usage) -> Iterator[Metric]:
    yield from _describe_calls("llm", "Questions to the language model", usage)
    tokens = CounterMetricFamily("knowhub_llm_tokens", "Tokens of questions and answers.", labels=["kind"])
    tokens.add_metric(["prompt"], usage.prompt_tokens)
    tokens.add_metric(["completion"], usage.completion_tokens)
    yield tokens


def _describe_calls(name: str, what: str, usage: Usage) -> Iterator[Metric]:
    yield CounterMetricFamily(f"knowhub_{name}_calls", f"{what}.", value=usage.calls)
    yield CounterMetricFamily(f"knowhub_{name}_failures", f"{what} without a usable answer.", value=usage.failures)
