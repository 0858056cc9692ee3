from pathlib import Path

import numpy as np
import pytest
import torch

from engines.torch.models.silero_vad import CHUNK_SAMPLES, SileroVad, VadState, load_silero_vad
from tests.engines.recordings import librispeech_chunks
from tests.support.models import model_path

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def network() -> SileroVad:
    return load_silero_vad(model_path("silero-vad") / "silero_vad.jit")


def score(network, chunks, state=None):
    state = VadState.fresh(1) if state is None else state
    scores = []
    with torch.inference_mode():
        for chunk in chunks:
            probability, state = network(chunk[None], state)
            scores.append(probability.item())
    return np.array(scores), state


def test_real_speech_scores_as_the_published_network_does(network):
    # Recorded once with the package's TorchScript module, chunk by chunk from a fresh state.
    expected = np.load(DATA / "silero_vad_1089-134686-0001.npy")
    scores, _ = score(network, librispeech_chunks())
    assert np.abs(scores - expected).max() < 1e-4
    assert expected.min() < 0.01 and expected.max() > 0.99


def test_streams_in_one_batch_score_as_each_alone(network):
    chunks = librispeech_chunks()[:60]
    streams = [chunks, chunks.flip(0), chunks * 0.1, torch.zeros_like(chunks)]
    state, together = VadState.fresh(len(streams)), []
    with torch.inference_mode():
        for step in range(len(chunks)):
            scores, state = network(torch.stack([s[step] for s in streams]), state)
            together.append(scores)
    for row, stream in enumerate(streams):
        alone, _ = score(network, stream)
        assert np.abs(torch.stack(together)[:, row].numpy() - alone).max() < 1e-5


def test_a_stream_resumes_from_its_state(network):
    chunks = librispeech_chunks()[:40]
    whole, _ = score(network, chunks)
    head, state = score(network, chunks[:17])
    tail, _ = score(network, chunks[17:], state)
    assert np.array_equal(np.concatenate((head, tail)), whole)


def test_silence_and_white_noise_are_not_speech(network):
    noise = torch.randn(100, CHUNK_SAMPLES, generator=torch.Generator().manual_seed(0))
    for chunks in (torch.zeros(100, CHUNK_SAMPLES), 0.05 * noise):
        scores, _ = score(network, chunks)
        assert scores.max() < 0.2
