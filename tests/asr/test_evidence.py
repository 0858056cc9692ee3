from asr.config import CHUNK_SAMPLES
from asr.evidence import EvidenceTrack, VoiceEvidence, evidence_of


def test_voiced_time_counts_chunks_of_at_least_one_half():
    assert evidence_of([0.1, 0.5, 0.9, 0.49]) == VoiceEvidence(voiced_ms=64.0, peak_prob=0.9)


def test_no_chunks_are_no_voice():
    assert evidence_of([]) == VoiceEvidence(voiced_ms=0.0, peak_prob=0.0)


def test_a_stretch_counts_every_chunk_that_it_touches():
    track = EvidenceTrack(max_s=10)
    track.append([0.9, 0.1, 0.8, 0.2])
    assert track.between(0, 4 * CHUNK_SAMPLES) == VoiceEvidence(64.0, 0.9)
    assert track.between(CHUNK_SAMPLES, 2 * CHUNK_SAMPLES) == VoiceEvidence(0.0, 0.1)
    assert track.between(CHUNK_SAMPLES, 2 * CHUNK_SAMPLES + 1) == VoiceEvidence(32.0, 0.8)
    assert track.between(CHUNK_SAMPLES - 1, 2 * CHUNK_SAMPLES) == VoiceEvidence(32.0, 0.9)


def test_a_stretch_beyond_what_is_known_is_no_evidence():
    track = EvidenceTrack(max_s=10, position=5120)
    track.append([0.9])
    assert track.between(0, 5120) is None
    assert track.between(5632, 9999) is None
    assert track.between(5120, 5120) is None
    assert track.between(0, 99_999) == VoiceEvidence(32.0, 0.9)


def test_old_chunks_are_forgotten_at_the_bound():
    track = EvidenceTrack(max_s=0.064)
    track.append([0.9, 0.1, 0.2])
    assert track.between(0, CHUNK_SAMPLES) is None
    assert track.between(0, 3 * CHUNK_SAMPLES) == VoiceEvidence(0.0, 0.2)
