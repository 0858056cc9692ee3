"""Every Prometheus series of the server: names, help texts and buckets in one list.

Rooms below know nothing of Prometheus. Sessions report through `streams.observer.Observer`,
which `Metrics` implements; engines are asked for a snapshot when somebody scrapes.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from engines.base import EngineStats

CONTENT_TYPE = CONTENT_TYPE_LATEST

STAGES = ("endpoint", "final", "first_text", "first_audio", "voice_to_voice")
"""Stages of a turn, as sessions name them; present from the start so that dashboards and
alerts see zeros instead of nothing."""

# Fine where a listener begins to notice (0.2-1 s), coarse above.
_STAGE_BUCKETS_S = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)

_ENGINE_GAUGES = {
    "running": "Requests admitted and not finished.",
    "waiting": "Requests queued for admission.",
    "cache_bytes": "Bytes of KV and other per-request state.",
    "cache_limit_bytes": "The budget for that; 0 where there is none.",
    "mismatch_position": "Index into the prompt where a cached prefix last stopped matching.",
}
_ENGINE_COUNTERS = {
    "steps": "Steps run.",
    "tokens": "Token ids delivered.",
    "finished": "Requests that came to their end.",
    "aborted": "Requests ended early: barge-in, cancel, disconnect.",
    "failed": "Requests that ended in an error.",
    "refused": "Requests turned away because the engine was full.",
    "preempted": "Times that batch work gave its place back.",
    "restarts": "Times that the engine, or the process it lives in, was started anew.",
    "busy_s": "Seconds spent in steps.",
    "wait_s": "Seconds in which a step was ready and another engine had the device.",
    "batch_rows": "Sequences in all steps together; by steps, the mean batch.",
    "prompt_tokens": "Prompt positions of admitted requests.",
    "cached_tokens": "How many of them came from the prefix cache.",
    "mismatched": "Prompts that departed from a cached prefix before its end.",
    "drafted_tokens": "Token ids proposed by speculation.",
    "accepted_tokens": "How many of them the model agreed with.",
    "underruns": "Times that a paced stream ran dry.",
}
_NAMES_WITH_UNITS = {"busy_s": "busy_seconds", "wait_s": "wait_seconds"}


class _EngineCollector(Collector):
    """Turns engines' snapshots into series at the time of the scrape."""

    def __init__(self) -> None:
        self.engines: dict[str, Callable[[], EngineStats]] = {}

    def collect(self) -> Iterable[Metric]:
        """Yields one family for each figure, with one sample for each engine."""
        snapshots = {name: stats() for name, stats in self.engines.items()}
        for figure, text in _ENGINE_GAUGES.items():
            gauge = GaugeMetricFamily(f"antiphon_engine_{figure}", text, labels=("engine",))
            for name, stats in snapshots.items():
                gauge.add_metric((name,), getattr(stats, figure))
            yield gauge
        for figure, text in _ENGINE_COUNTERS.items():
            series = f"antiphon_engine_{_NAMES_WITH_UNITS.get(figure, figure)}"
            counter = CounterMetricFamily(series, text, labels=("engine",))
            for name, stats in snapshots.items():
                counter.add_metric((name,), getattr(stats, figure))
            yield counter


class Metrics:
    """Is the server's registry, and the sessions' observer."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._sessions = Gauge(
            "antiphon_sessions", "Open sessions.", ("protocol",), registry=registry
        )
        self._opened = Counter(
            "antiphon_sessions_opened", "Sessions opened.", ("protocol",), registry=registry
        )
        self._closed = Counter(
            "antiphon_sessions_closed",
            "Sessions closed; code is 'ok' or what ended them (idle, slow_consumer, ...).",
            ("protocol", "code"),
            registry=registry,
        )
        self._refused = Counter(
            "antiphon_sessions_refused",
            "Sessions that were not let in.",
            ("reason",),
            registry=registry,
        )
        self._stages = Histogram(
            "antiphon_stage_seconds",
            "Latency of a turn's stages: endpoint (end of speech to the decision), final "
            "(to the final transcript), first_text, first_audio, and voice_to_voice over all.",
            ("stage",),
            buckets=_STAGE_BUCKETS_S,
            registry=registry,
        )
        self._responses = Counter(
            "antiphon_responses", "Replies by how they ended.", ("status",), registry=registry
        )
        self._barge_ins = Counter(
            "antiphon_barge_ins", "Replies that a speaker interrupted.", registry=registry
        )
        self._dropped = Counter(
            "antiphon_dropped",
            "What was thrown away, in its own unit.",
            ("what",),
            registry=registry,
        )
        for stage in STAGES:
            self._stages.labels(stage)
        self._engines = _EngineCollector()
        registry.register(self._engines)

    def watch_engine(self, name: str, stats: Callable[[], EngineStats]) -> None:
        """Shows an engine's snapshots under the label `name`."""
        self._engines.engines[name] = stats

    def render(self) -> bytes:
        """Returns all series in Prometheus' text format, of type `CONTENT_TYPE`."""
        return generate_latest(self.registry)

    def session_opened(self, protocol: str) -> None:
        """Counts a session in."""
        self._sessions.labels(protocol).inc()
        self._opened.labels(protocol).inc()

    def session_closed(self, protocol: str, code: str) -> None:
        """Counts it out."""
        self._sessions.labels(protocol).dec()
        self._closed.labels(protocol, code).inc()

    def session_refused(self, reason: str) -> None:
        """Counts one that was not let in."""
        self._refused.labels(reason).inc()

    def stage(self, name: str, seconds: float) -> None:
        """Times a stage of a turn."""
        self._stages.labels(name).observe(seconds)

    def response_done(self, status: str) -> None:
        """Counts a reply."""
        self._responses.labels(status).inc()

    def barge_in(self) -> None:
        """Counts an interruption."""
        self._barge_ins.inc()

    def dropped(self, what: str, amount: int) -> None:
        """Counts what was thrown away."""
        self._dropped.labels(what).inc(amount)
