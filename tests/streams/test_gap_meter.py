"""What a listener hears of a reply: cases, and a simulation that plays 1 ms at a time."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.gap_meter import GapMeter, GapReport

SMOOTH_MS = (200, 1000, 1800, 2600)
BURSTY_MS = (200, 2300, 2400, 2600)


def heard(ready_ms: tuple[int, ...], chunk_s: float = 1.0) -> GapReport:
    meter = GapMeter(asked_s=0.0)
    for at_ms in ready_ms:
        meter.route(chunk_s, at_ms / 1000)
    meter.end()
    return meter.report(now_s=60.0)


def test_smooth_and_bursty_replies_of_one_speed_are_told_apart() -> None:
    smooth, bursty = heard(SMOOTH_MS), heard(BURSTY_MS)
    assert smooth.ttfa_s == bursty.ttfa_s == 0.2
    assert smooth.routed_s == bursty.routed_s == 4.0  # and both ready at 2.6 s: equal RTF
    assert (smooth.gaps, smooth.worst_gap_s, smooth.startup_delay_s) == (0, 0.0, 0.0)
    assert bursty.gaps == 1
    assert bursty.worst_gap_s == pytest.approx(1.1)
    assert bursty.startup_delay_s == pytest.approx(1.1)
    assert (smooth.good, bursty.good) == (True, False)


def test_reply_of_one_chunk_is_not_applicable_rather_than_good() -> None:
    assert heard((200,)).good is None


def test_reply_without_a_sound_is_not_applicable() -> None:
    report = GapMeter(asked_s=3.0).report(now_s=9.0)
    assert (report.ttfa_s, report.chunks, report.good) == (None, 0, None)


@pytest.mark.parametrize(("late_ms", "good"), [(100, True), (101, False)])
def test_worst_gap_of_a_good_reply_is_a_hundred_milliseconds(late_ms: int, good: bool) -> None:
    assert heard((200, 1200 + late_ms)).good is good


def test_two_gaps_add_up_in_the_startup_delay_and_not_in_the_worst_gap() -> None:
    report = heard((0, 1300, 2800))
    assert report.gaps == 2
    assert report.worst_gap_s == pytest.approx(0.5)
    assert report.startup_delay_s == pytest.approx(0.8)
    assert heard((800, 1300, 2800)).gaps == 0  # the same, begun 0.8 s later


def test_silence_after_the_last_chunk_is_no_gap_once_the_end_is_known() -> None:
    meter = GapMeter(asked_s=0.0)
    meter.route(0.5, now_s=1.0)
    assert meter.report(now_s=2.0).worst_gap_s == pytest.approx(0.5)
    meter.end()
    assert meter.report(now_s=2.0).gaps == 0
    assert meter.lead_s(2.0) == 0.0


def test_reply_that_is_cut_off_leaves_the_listener_waiting_until_then() -> None:
    meter = GapMeter(asked_s=0.0)
    meter.route(0.5, now_s=1.0)
    meter.cut(now_s=1.9)
    report = meter.report(now_s=60.0)
    assert report.worst_gap_s == pytest.approx(0.4)
    assert report.good is False


def test_pause_is_no_gap_and_keeps_the_lead() -> None:
    meter = GapMeter(asked_s=0.0)
    meter.route(1.0, now_s=0.0)
    meter.pause(now_s=0.4)
    assert meter.lead_s(5.0) == pytest.approx(0.6)
    meter.resume(now_s=5.0)
    meter.route(1.0, now_s=5.5)
    assert meter.report(now_s=5.5).gaps == 0
    assert meter.lead_s(5.5) == pytest.approx(1.1)


def test_pacer_is_told_pauses_and_gaps_since_the_first_audio() -> None:
    meter = GapMeter(asked_s=0.0)
    meter.pause(now_s=1.0)
    meter.resume(now_s=2.0)
    meter.route(1.0, now_s=3.0)
    assert meter.stood_still_s(3.0) == 0.0
    meter.route(1.0, now_s=4.5)
    meter.pause(now_s=4.6)
    assert meter.stood_still_s(4.8) == pytest.approx(0.5 + 0.2)
    assert meter.lead_s(4.8) == pytest.approx(2.0 - (4.8 - 3.0 - 0.7))


@dataclass
class Listener:
    """Plays what it has one millisecond at a time, and counts the silent ones."""

    buffer_ms: int = 0
    started: bool = False
    paused: bool = False
    gap_ms: int = 0
    gaps_ms: list[int] = field(default_factory=list)

    def take(self, chunk_ms: int) -> None:
        self.started = True
        self.buffer_ms += chunk_ms
        if self.gap_ms:
            self.gaps_ms.append(self.gap_ms)
            self.gap_ms = 0

    def tick(self) -> None:
        if self.paused or not self.started:
            return
        if self.buffer_ms:
            self.buffer_ms -= 1
        else:
            self.gap_ms += 1


Act = tuple[str, int]
ACTS = st.lists(
    st.tuples(
        st.integers(0, 400),  # milliseconds since the act before
        st.one_of(
            st.tuples(st.just("route"), st.integers(1, 500)),
            st.tuples(st.sampled_from(["pause", "resume"]), st.just(0)),
        ),
    ),
    max_size=20,
)


def do(meter: GapMeter, listener: Listener, act: Act, now_s: float) -> None:
    match act:
        case ("route", chunk_ms):
            meter.route(chunk_ms / 1000, now_s)
            listener.take(chunk_ms)
        case ("pause", _):
            meter.pause(now_s)
            listener.paused = True
        case _:
            meter.resume(now_s)
            listener.paused = False


@given(acts=ACTS, cut=st.booleans(), rest_ms=st.integers(0, 600))
def test_meter_agrees_with_playing_millisecond_by_millisecond(
    acts: list[tuple[int, Act]], cut: bool, rest_ms: int
) -> None:
    meter, listener, now_ms = GapMeter(asked_s=-1.0), Listener(), 0
    for wait_ms, act in [*acts, (rest_ms, ("resume", 0))]:
        for _ in range(wait_ms):
            listener.tick()
        now_ms += wait_ms
        do(meter, listener, act, now_ms / 1000)
        open_ms = [listener.gap_ms] if listener.gap_ms else []
        report = meter.report(now_ms / 1000)
        assert report.gaps == len(listener.gaps_ms + open_ms)
        assert report.worst_gap_s * 1000 == pytest.approx(max([0, *listener.gaps_ms, *open_ms]))
        assert report.stalled_s * 1000 == pytest.approx(sum(listener.gaps_ms + open_ms))
        if listener.started:
            lead_ms = listener.buffer_ms - listener.gap_ms
            assert meter.lead_s(now_ms / 1000) * 1000 == pytest.approx(lead_ms, abs=1e-6)
    if cut:
        meter.cut(now_ms / 1000)
        listener.gaps_ms += [listener.gap_ms] if listener.gap_ms else []
    else:
        meter.end()
    assert meter.report(now_ms / 1000 + 9).gaps == len(listener.gaps_ms)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 500)), min_size=1, max_size=20))
def test_startup_delay_is_the_least_that_hides_every_gap(chunks: list[tuple[int, int]]) -> None:
    meter, now_ms, routed_ms, lateness_ms = GapMeter(asked_s=0.0), 0, 0, [0]
    for wait_ms, chunk_ms in chunks:
        now_ms += wait_ms
        if routed_ms == 0:
            first_ms = now_ms
        lateness_ms.append(now_ms - first_ms - routed_ms)
        meter.route(chunk_ms / 1000, now_ms / 1000)
        routed_ms += chunk_ms
    meter.end()
    needed_s = meter.report(now_ms / 1000).startup_delay_s
    assert needed_s * 1000 == pytest.approx(max(lateness_ms), abs=1e-6)
