import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from engines.base import FinishReason, Sampling, SpeechRequest, Ticket, TokenDelta
from engines.errors import AntiphonError, BadRequest, Unsupported
from engines.torch.loader import load_whisper
from engines.torch.models.whisper import Whisper
from engines.torch.whisper_engine import FRAME_SAMPLES, WhisperRunner, WhisperRunnerConfig
from tests.support.checkpoints import tiny_whisper
from tests.support.models import model_path
from tests.support.speech import read_speech

START, NO_SPEECH = 100, 7
ONE_SECOND = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
REQUEST = SpeechRequest(
    Ticket("a"), ONE_SECOND, (START, 101), max_tokens=12, begin_suppress_ids=(5,)
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Whisper:
    directory: Path = tmp_path_factory.mktemp("whisper")
    tiny_whisper(directory)
    return load_whisper(directory)


@pytest.fixture
def runner(model: Whisper) -> WhisperRunner:
    return WhisperRunner(model)


def _change(**changes: object) -> SpeechRequest:
    return dataclasses.replace(REQUEST, **changes)  # type: ignore[arg-type]  # one helper for all fields


def _deltas(runner: WhisperRunner, request: SpeechRequest) -> list[TokenDelta]:
    runner.check(request)
    return [delta for delta in runner.run(request) if delta is not None]


def _ids(deltas: list[TokenDelta]) -> list[int]:
    return [token for delta in deltas for token in delta.ids]


def test_request_ends_with_one_closing_delta(runner: WhisperRunner) -> None:
    *deltas, last = _deltas(runner, REQUEST)
    assert len(deltas) == 12 and all(len(delta.ids) == 1 for delta in deltas)
    assert all(delta.finish is None and delta.logprob is not None for delta in deltas)
    assert last == TokenDelta("a", finish=FinishReason.LENGTH, prompt_tokens=2)


def test_stop_id_ends_the_request_undelivered_with_its_log_probability(
    runner: WhisperRunner,
) -> None:
    free = _deltas(runner, REQUEST)
    ids = _ids(free)
    stop = next(token for token in ids[2:] if token not in ids[:2])
    *deltas, last = _deltas(runner, _change(stop_ids=(stop,)))
    at = ids.index(stop)
    assert _ids(deltas) == ids[:at]
    assert last.finish is FinishReason.STOP
    assert last.logprob == free[at].logprob


def test_no_speech_probability_comes_with_the_first_delta_only(runner: WhisperRunner) -> None:
    first, *others = _deltas(runner, _change(no_speech_id=NO_SPEECH))
    assert first.no_speech_prob is not None and 0 < first.no_speech_prob < 1
    assert all(delta.no_speech_prob is None for delta in others)


def test_no_speech_is_read_after_start_of_transcript_wherever_it_stands(
    model: Whisper, runner: WhisperRunner
) -> None:
    prefix = (3, 4, START, 101, 102)
    (first, *_) = _deltas(runner, _change(prefix_ids=prefix, no_speech_id=NO_SPEECH))
    with torch.inference_mode():
        state = model.decoder.new_state(8)
        mel = runner._log_mel(torch.from_numpy(ONE_SECOND), 32_000)
        model.decoder.read_audio(state, model.encoder(mel))
        logits = model.decoder(torch.tensor([prefix]), state)[0, 2]
    assert first.no_speech_prob == pytest.approx(float(logits.softmax(-1)[NO_SPEECH]), rel=1e-4)


def test_immediate_stop_carries_no_speech_in_the_closing_delta(runner: WhisperRunner) -> None:
    stop = _ids(_deltas(runner, REQUEST))[0]
    (only,) = _deltas(runner, _change(stop_ids=(stop,), no_speech_id=NO_SPEECH))
    assert only.ids == () and only.finish is FinishReason.STOP
    assert only.no_speech_prob is not None


@pytest.mark.parametrize("right", [0, 1, 5, 11, 12])
def test_draft_gives_the_same_ids_in_fewer_steps(runner: WhisperRunner, right: int) -> None:
    alone = _deltas(runner, REQUEST)
    ids = _ids(alone)
    wrong = (ids[right] + 1) % 120 if right < 12 else 0
    drafted = _deltas(runner, _change(draft_ids=(*ids[:right], wrong, 3, 4, 5)))
    assert _ids(drafted) == ids
    assert len(drafted[0].ids) == min(right + 1, 12)
    assert len(drafted) == len(alone) - len(drafted[0].ids) + 1
    total = sum(delta.logprob or 0.0 for delta in alone)
    assert sum(delta.logprob or 0.0 for delta in drafted) == pytest.approx(total, abs=1e-3)


def test_draft_obeys_the_rules_for_the_first_id(runner: WhisperRunner) -> None:
    first = _ids(_deltas(runner, REQUEST))[0]
    rules = {"begin_suppress_ids": (first,)}
    expected = _ids(_deltas(runner, _change(**rules)))
    assert expected[0] != first
    assert _ids(_deltas(runner, _change(**rules, draft_ids=(first, 3)))) == expected


def test_draft_is_ignored_when_ids_are_drawn(runner: WhisperRunner) -> None:
    sampling = Sampling(temperature=1.0, seed=3)
    expected = _deltas(runner, _change(sampling=sampling))
    assert _deltas(runner, _change(sampling=sampling, draft_ids=(1, 2, 3))) == expected


def test_stop_id_inside_the_draft_ends_the_request(runner: WhisperRunner) -> None:
    ids = _ids(_deltas(runner, REQUEST))
    stop = next(token for token in ids[2:] if token not in ids[:2])
    deltas = _deltas(runner, _change(stop_ids=(stop,), draft_ids=tuple(ids)))
    assert _ids(deltas) == ids[: ids.index(stop)]
    assert deltas[-1].finish is FinishReason.STOP


def test_encoder_is_cut_into_steps_when_it_is_long(model: Whisper) -> None:
    whole = list(WhisperRunner(model).run(REQUEST))
    small = WhisperRunner(model, WhisperRunnerConfig(step_gflop=1e-9))
    cut = list(small.run(REQUEST))
    assert whole.count(None) == 1
    assert cut.count(None) == 1 + 3 + 1  # stem, three layers, cross-attention
    assert [delta for delta in cut if delta] == [delta for delta in whole if delta]


def test_closed_request_leaves_nothing_behind(runner: WhisperRunner) -> None:
    expected = _deltas(runner, REQUEST)
    for steps in range(4):
        running = runner.run(REQUEST)
        for _ in range(steps):
            next(running)
        assert (runner.cache_bytes() > 0) == (steps > 0)
        running.close()  # type: ignore[attr-defined]  # run is a generator
        assert runner.cache_bytes() == 0
    assert _deltas(runner, REQUEST) == expected


def test_finished_request_leaves_nothing_behind(runner: WhisperRunner) -> None:
    _deltas(runner, REQUEST)
    assert runner.cache_bytes() == 0


def test_interleaved_requests_do_not_disturb_each_other(runner: WhisperRunner) -> None:
    other = _change(ticket=Ticket("b"), samples=ONE_SECOND[::-1].copy())
    expected = [_deltas(runner, REQUEST), _deltas(runner, other)]
    pairs = list(zip(runner.run(REQUEST), runner.run(other), strict=True))
    for index in range(2):
        assert [pair[index] for pair in pairs if pair[index] is not None] == expected[index]


def test_steps_do_not_leave_the_thread_in_inference_mode(runner: WhisperRunner) -> None:
    for _ in runner.run(REQUEST):
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("window_s", "frames"),
    [(None, 100), (1.0, 50), (0.2, 50), (1.001, 51), (1.02, 51), (1.9801, 100), (2.0, 100)],
)
def test_window_is_rounded_up_to_whole_frames(
    runner: WhisperRunner, window_s: float | None, frames: int
) -> None:
    request = _change(window_s=window_s, samples=ONE_SECOND[:1000])
    assert runner._new_job(request).frames == frames


def test_short_audio_may_have_a_short_window(runner: WhisperRunner) -> None:
    assert len(_ids(_deltas(runner, _change(window_s=1.0)))) == 12


NAN_AUDIO = ONE_SECOND.copy()
NAN_AUDIO[77] = math.nan


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"samples": NAN_AUDIO}, "samples"),
        ({"samples": np.zeros(0, np.float32)}, "samples"),
        ({"samples": np.zeros((2, 100), np.float32)}, "samples"),
        ({"samples": np.zeros(100 * FRAME_SAMPLES + 1, np.float32)}, "samples"),
        ({"window_s": math.nan}, "window_s"),
        ({"window_s": 0.0}, "window_s"),
        ({"window_s": 2.1}, "window_s"),
        ({"window_s": 1.0, "samples": np.zeros(16_001, np.float32)}, "window_s"),
        ({"prefix_ids": ()}, "prefix_ids"),
        ({"prefix_ids": (120,)}, "prefix_ids"),
        ({"draft_ids": (-1,)}, "draft_ids"),
        ({"suppress_ids": (500,)}, "suppress_ids"),
        ({"allowed_first_ids": (500,)}, "allowed_first_ids"),
        ({"no_speech_id": 120}, "no_speech_id"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 39}, "max_tokens"),
        ({"sampling": Sampling(temperature=-1.0)}, "sampling.temperature"),
    ],
)
def test_request_that_can_never_run_is_refused_by_name(
    runner: WhisperRunner, changes: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        runner.check(_change(**changes))
    assert caught.value.param == param


def test_alignment_is_refused_as_the_capabilities_say(runner: WhisperRunner) -> None:
    assert not runner.capabilities.alignment
    with pytest.raises(Unsupported):
        runner.check(_change(want_alignment=True))


def test_step_that_finds_no_id_fails_and_frees(runner: WhisperRunner) -> None:
    request = _change(suppress_ids=tuple(range(120)))
    with pytest.raises(AntiphonError):
        _deltas(runner, request)
    assert runner.cache_bytes() == 0


def test_real_speech_with_a_trimmed_window_and_a_draft_gives_the_same_ids() -> None:
    runner = WhisperRunner(load_whisper(model_path("whisper-base")))
    request = SpeechRequest(
        Ticket("real"),
        read_speech("1221-135766-0002"),
        (50258, 50259, 50359, 50363),
        max_tokens=100,
        window_s=6.0,
        stop_ids=(50257,),
        no_speech_id=50362,
    )
    alone = _deltas(runner, request)
    ids = _ids(alone)
    assert len(ids) > 10 and alone[-1].finish is FinishReason.STOP
    assert alone[0].no_speech_prob is not None and alone[0].no_speech_prob < 0.2
    drafted = _deltas(runner, dataclasses.replace(request, draft_ids=tuple(ids)))
    assert _ids(drafted) == ids and len(drafted) == 2
    hypothesis = (*ids[:8], 1, 2, 3)  # the last words of a partial are often wrong
    drafted = _deltas(runner, dataclasses.replace(request, draft_ids=hypothesis))
    assert _ids(drafted) == ids and drafted[0].ids == tuple(ids[:9])
