from hypothesis import given
from hypothesis import strategies as st

from asr.config import CHUNK_SAMPLES, SegmenterConfig
from asr.segmenter import Piece, Segmenter

CONFIG = SegmenterConfig()
SECOND = 16_000


def chunks(seconds: float) -> int:
    return round(seconds * SECOND / CHUNK_SAMPLES)


def voice(seconds: float) -> list[float]:
    return [0.9] * chunks(seconds)


def quiet(seconds: float) -> list[float]:
    return [0.01] * chunks(seconds)


def cut(probs: list[float], config: SegmenterConfig = CONFIG) -> list[Piece]:
    segmenter = Segmenter(config)
    return [*segmenter.push(probs), *segmenter.flush()]


def seconds(pieces: list[Piece]) -> list[tuple[float, float]]:
    return [
        (round(piece.speech_start / SECOND, 1), round(piece.speech_end / SECOND, 1))
        for piece in pieces
    ]


def test_silence_gives_nothing():
    assert cut(quiet(60)) == []


def test_one_sentence_is_one_piece_with_padding_around_it():
    (piece,) = cut(quiet(1) + voice(3) + quiet(1))
    assert (piece.speech_start, piece.speech_end) == (
        chunks(1) * CHUNK_SAMPLES,
        (chunks(1) + chunks(3)) * CHUNK_SAMPLES,
    )
    assert piece.speech_start - piece.start_sample == 4800
    assert piece.end_sample - piece.speech_end == 4800
    assert piece.evidence.voiced_ms == chunks(3) * 32
    assert piece.evidence.peak_prob == 0.9


def test_padding_stays_inside_the_recording():
    (piece,) = cut(voice(3))
    assert (piece.start_sample, piece.end_sample) == (0, chunks(3) * CHUNK_SAMPLES)


def test_short_sentences_with_short_pauses_are_merged():
    pieces = cut((voice(2) + quiet(1)) * 2 + voice(2))
    assert seconds(pieces) == [(0.0, 7.9)]  # whole chunks of 32 ms


def test_a_piece_that_is_long_enough_ends_at_the_next_pause():
    pieces = cut(voice(9) + quiet(0.5) + voice(2))
    assert len(pieces) == 2
    assert seconds(pieces)[0] == (0.0, 9.0)


def test_a_long_silence_ends_any_piece_at_once():
    segmenter = Segmenter(CONFIG)
    assert segmenter.push(voice(1) + quiet(1.9)) == []
    assert len(segmenter.push(quiet(0.2))) == 1
    assert segmenter.flush() == []


def test_speech_without_end_is_cut_at_its_longest_pause():
    probs = voice(12) + quiet(0.2) + voice(5) + quiet(0.35) + voice(5) + quiet(0.2) + voice(20)
    config = SegmenterConfig(enough_s=60)
    pieces = cut(probs, config)
    assert seconds(pieces)[0][1] == 17.2
    assert all(piece.end_sample - piece.start_sample <= 28.6 * SECOND for piece in pieces)


def test_speech_without_any_pause_is_cut_where_it_is_least_voiced():
    probs = voice(40)
    probs[chunks(20)] = 0.4  # above the lower threshold: still speech
    pieces = cut(probs)
    assert pieces[0].speech_end == chunks(20) * CHUNK_SAMPLES
    assert pieces[1].speech_start == pieces[1].start_sample == pieces[0].end_sample


def test_a_click_is_dropped():
    assert cut([*quiet(1), 0.9, *quiet(3)]) == []


def test_pieces_far_into_a_recording_keep_absolute_times():
    pieces = cut(quiet(600) + voice(2) + quiet(600) + voice(2))
    assert [round(start) for start, _ in seconds(pieces)] == [600, 1202]


def test_audio_before_an_idle_stretch_is_not_needed_any_more():
    segmenter = Segmenter(CONFIG)
    segmenter.push(voice(2) + quiet(100))
    assert segmenter.needed_from >= 101 * SECOND


PROBS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.4, 0.6, 1.0]), st.integers(1, 300)), max_size=30
)


@given(PROBS, st.integers(1, 200))
def test_pieces_are_bounded_in_order_and_hold_every_voiced_chunk(runs, batch):
    config = SegmenterConfig(min_voiced_s=0.0)
    probs = [prob for prob, count in runs for _ in range(count)]
    segmenter = Segmenter(config)
    pieces = []
    needed = 0
    for begin in range(0, len(probs), batch):
        found = segmenter.push(probs[begin : begin + batch])
        assert all(piece.start_sample >= needed for piece in found)
        pieces += found
        assert segmenter.needed_from >= needed
        needed = segmenter.needed_from
    pieces += segmenter.flush()
    covered = set()
    end = 0
    for piece in pieces:
        assert end <= piece.start_sample <= piece.speech_start < piece.speech_end
        assert piece.speech_end <= piece.end_sample <= len(probs) * CHUNK_SAMPLES
        assert piece.end_sample - piece.start_sample <= 28.7 * SECOND
        end = piece.end_sample
        covered.update(
            range(piece.speech_start // CHUNK_SAMPLES, piece.speech_end // CHUNK_SAMPLES)
        )
    assert all(index in covered for index, prob in enumerate(probs) if prob >= 0.5)


def test_batches_of_any_size_give_the_same_pieces():
    probs = (voice(3) + quiet(0.5) + voice(7) + quiet(1) + voice(31) + quiet(3)) * 3
    whole = cut(probs)
    segmenter = Segmenter(CONFIG)
    single = [piece for prob in probs for piece in segmenter.push([prob])]
    assert [*single, *segmenter.flush()] == whole
