import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from engines.torch.models.log_mel import FFT_SAMPLES, HOP_SAMPLES, LogMel, mel_filters
from tests.support.speech import read_speech

FULL_WINDOW = 30 * 16_000


@pytest.mark.parametrize("mels", [80, 128])
def test_filters_equal_those_of_transformers(mels: int) -> None:
    theirs = mel_filter_bank(
        FFT_SAMPLES // 2 + 1, mels, 0.0, 8000.0, 16_000, norm="slaney", mel_scale="slaney"
    )
    np.testing.assert_allclose(mel_filters(mels).numpy(), theirs.T, atol=1e-7)


@pytest.mark.parametrize("mels", [80, 128])
def test_full_window_equals_the_feature_extractor(mels: int) -> None:
    samples = read_speech("1221-135766-0002")
    extractor = WhisperFeatureExtractor(feature_size=mels)
    theirs = extractor(samples, sampling_rate=16_000, return_tensors="pt").input_features
    ours = LogMel(mels)(torch.from_numpy(samples), FULL_WINDOW)
    assert ours.shape == (1, mels, 3000)
    assert (ours - theirs).abs().max() < 1e-4


def test_trimmed_window_equals_the_beginning_of_the_full_one() -> None:
    samples = torch.from_numpy(read_speech("1221-135766-0002"))
    window = 6 * 16_000
    log_mel = LogMel(80)
    trimmed = log_mel(samples, window)
    assert trimmed.shape == (1, 80, window // HOP_SAMPLES)
    torch.testing.assert_close(trimmed, log_mel(samples, FULL_WINDOW)[:, :, :600])


def test_digital_silence_gives_finite_frames() -> None:
    frames = LogMel(80)(torch.zeros(16_000), 16_000)
    assert frames.isfinite().all()
