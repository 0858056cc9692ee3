from streams.playout import PlayoutClock


def test_nothing_is_played_before_audio_is_routed() -> None:
    playout = PlayoutClock()
    assert playout.played_s(100.0) == 0.0
    assert playout.lead_s(200.0) == 0.0


def test_listener_drains_one_second_a_second() -> None:
    playout = PlayoutClock()
    playout.route(2.0, now_s=10.0)
    assert playout.played_s(10.5) == 0.5
    assert playout.lead_s(11.5) == 0.5
    assert playout.gap_s == 0.0


def test_empty_buffer_stalls_the_playback_and_counts_as_a_gap() -> None:
    playout = PlayoutClock()
    playout.route(1.0, now_s=0.0)
    playout.route(1.0, now_s=1.4)
    assert playout.played_s(1.9) == 1.5
    assert round(playout.gap_s, 6) == 0.4


def test_buffer_that_runs_empty_after_the_end_is_no_gap() -> None:
    playout = PlayoutClock()
    playout.route(1.0, now_s=0.0)
    playout.close()
    assert playout.played_s(9.0) == 1.0
    assert playout.gap_s == 0.0


def test_client_report_corrects_the_estimate_both_ways() -> None:
    playout = PlayoutClock()
    playout.route(4.0, now_s=0.0)
    playout.report(0.6, now_s=1.0)
    assert playout.played_s(1.5) == 1.1
    playout.report(3.0, now_s=1.5)
    assert playout.played_s(1.5) == 3.0


def test_report_beyond_the_routed_audio_is_clamped() -> None:
    playout = PlayoutClock()
    playout.route(1.0, now_s=0.0)
    playout.report(7.0, now_s=0.1)
    assert playout.played_s(0.1) == 1.0
