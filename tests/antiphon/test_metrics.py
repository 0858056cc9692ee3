"""The metrics: what sessions and engines report is what a scrape shows."""

from prometheus_client.parser import text_string_to_metric_families

from antiphon.metrics import STAGES, Metrics
from engines.base import EngineStats
from streams.observer import Observer


def scrape(metrics: Metrics) -> dict[str, float]:
    """Returns every sample as `name{label=value}` to its value."""
    samples = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples


def test_session_events_reach_their_series() -> None:
    metrics = Metrics()
    observer: Observer = metrics
    observer.session_opened("openai")
    observer.session_opened("openai")
    observer.session_closed("openai", "idle")
    observer.session_refused("overloaded")
    observer.response_done("cancelled")
    observer.barge_in()
    observer.dropped("audio_samples", 512)
    shown = scrape(metrics)
    assert shown["antiphon_sessions{protocol=openai}"] == 1
    assert shown["antiphon_sessions_opened_total{protocol=openai}"] == 2
    assert shown["antiphon_sessions_closed_total{code=idle,protocol=openai}"] == 1
    assert shown["antiphon_sessions_refused_total{reason=overloaded}"] == 1
    assert shown["antiphon_responses_total{status=cancelled}"] == 1
    assert shown["antiphon_barge_ins_total{}"] == 1
    assert shown["antiphon_dropped_total{what=audio_samples}"] == 512


def test_stages_are_counted_into_buckets_and_present_before_the_first() -> None:
    metrics = Metrics()
    assert all(f"antiphon_stage_seconds_count{{stage={s}}}" in scrape(metrics) for s in STAGES)
    metrics.stage("final", 0.18)
    shown = scrape(metrics)
    assert shown["antiphon_stage_seconds_bucket{le=0.15,stage=final}"] == 0
    assert shown["antiphon_stage_seconds_bucket{le=0.2,stage=final}"] == 1
    assert shown["antiphon_stage_seconds_count{stage=first_text}"] == 0


def test_engines_are_asked_at_each_scrape() -> None:
    metrics = Metrics()
    stats = EngineStats(running=2, steps=7, tokens=70, aborted=1, busy_s=0.5, cache_bytes=4096)
    current = [stats]
    metrics.watch_engine("lm", lambda: current[0])
    metrics.watch_engine("asr", EngineStats)
    shown = scrape(metrics)
    assert shown["antiphon_engine_running{engine=lm}"] == 2
    assert shown["antiphon_engine_running{engine=asr}"] == 0
    assert shown["antiphon_engine_steps_total{engine=lm}"] == 7
    assert shown["antiphon_engine_tokens_total{engine=lm}"] == 70
    assert shown["antiphon_engine_aborted_total{engine=lm}"] == 1
    assert shown["antiphon_engine_busy_seconds_total{engine=lm}"] == 0.5
    assert shown["antiphon_engine_cache_bytes{engine=lm}"] == 4096
    current[0] = EngineStats(steps=8)
    assert scrape(metrics)["antiphon_engine_steps_total{engine=lm}"] == 8


def test_two_servers_in_one_process_do_not_share_series() -> None:
    first, second = Metrics(), Metrics()
    first.barge_in()
    assert scrape(second)["antiphon_barge_ins_total{}"] == 0
