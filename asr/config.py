"""Every knob of the speech-to-text room, with its default and its trade-off."""

from dataclasses import dataclass, field

SAMPLE_RATE_HZ = 16_000
CHUNK_SAMPLES = 512  # what Silero scores at once: 32 ms at 16 kHz
CHUNK_MS = 1000 * CHUNK_SAMPLES // SAMPLE_RATE_HZ
MAX_WINDOW_S = 30.0  # Whisper's encoder was trained on this length


@dataclass(frozen=True, slots=True)
class EndpointingConfig:
    """Says when speech begins and ends, from one speech probability per chunk.

    Attributes:
        threshold: probability from which a chunk can begin speech or end a pause, 0..1.
            Higher is deaf to noise and to soft voices alike.
        hysteresis: speech that has begun goes on while the probability is above
            `threshold - hysteresis`, so that soft syllables do not end it.
        start_chunks: chunks of 32 ms in a row that begin a turn. More lets fewer clicks
            through and answers an interruption later; no audio is lost either way, since
            the turn starts at the first of them.
        prefix_padding_ms: audio kept from before the first voiced chunk (first words).
        pause_ms: silence inside a turn that is reported, so that work can start early.
        silence_ms: silence that ends a turn. Shorter answers faster and cuts off people
            who think while they speak.
    """

    threshold: float = 0.5
    hysteresis: float = 0.15
    start_chunks: int = 2
    prefix_padding_ms: int = 300
    pause_ms: int = 160
    silence_ms: int = 500


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Says which output of the recogniser is believed.

    Attributes:
        tokens_per_s: fastest believable output. Fast English is about 6 a second; scripts
            that are spelt in bytes need more, and get it in the retry.
        tokens_floor: tokens allowed whatever the duration.
        max_compression_ratio: text that zlib packs better than this is a loop
            (2.4 in Whisper's own transcribe.py).
        min_loop_ids: a repetition is a loop from this many ids on, so that "no, no, no"
            is believed.
        min_loop_repeats: and from this many turns on.
        min_avg_logprob: below it a decode is tried again (-1.0 in transcribe.py, which
            never sees single words; "Stop." alone is at -1.05).
        silent_amplitude: a clip that never exceeds it (-80 dBFS) is not decoded.
        silent_peak: a clip whose speech probability never reaches this is not decoded.
            White noise of any level stays below 0.1; the words of short answers reach 0.99.
        sure_voiced_ms: voiced audio from which the voice counts as heard.
        no_speech_prob: above it the model doubts that there is speech (0.6 in
            transcribe.py).
        doubtful_avg_logprob: below it doubted text counts as silence where a voice was
            heard (-1.0 in transcribe.py).
        sure_avg_logprob: below it doubted text counts as silence where none was heard.
        hopeless_avg_logprob: below it text counts as silence where no voice was heard,
            whatever else the model says. Noise gives -1.5 to -3; the words of short answers
            are above -1.1.
    """

    tokens_per_s: float = 12.0
    tokens_floor: int = 16
    max_compression_ratio: float = 2.4
    min_loop_ids: int = 12
    min_loop_repeats: int = 4
    min_avg_logprob: float = -1.2
    silent_amplitude: float = 1e-4
    silent_peak: float = 0.15
    sure_voiced_ms: float = 192.0
    no_speech_prob: float = 0.6
    doubtful_avg_logprob: float = -1.0
    hopeless_avg_logprob: float = -1.3
    sure_avg_logprob: float = -0.5


@dataclass(frozen=True, slots=True)
class TranscriberConfig:
    """Says how one utterance of up to 30 s is decoded.

    Attributes:
        window_margin_s: the encoder sees the audio and this much silence after it, where
            the back end can. More is closer to the full window and slower.
        min_window_s: shortest window. Below 6 s whisper-base repeats one-word answers
            ("Yes. Yes. Yes.") until its budget ends; 6 s cost it 26 to 67 ms on two cores.
        window_step_s: windows are rounded up to this, so that utterances share batches.
        min_audio_s: shorter audio is padded to this with silence.
        tail_padding_s: silence added after the audio (last words); part of the margin.
        max_tokens: longest output; half of Whisper's text context, as in decoding.py.
        retry_temperatures: tried in turn where greedy decoding at the full window loops.
            Each costs a decode.
        detect_s: audio looked at to find the language.
        fallback_language: used where the language is found with less than
            `min_language_prob`.
        min_language_prob: 0..1; higher trusts short clips less.
        prompt_tokens: longest prompt of expected words; the end of it counts.
        guard: what output is believed.
    """

    window_margin_s: float = 1.0
    min_window_s: float = 6.0
    window_step_s: float = 0.5
    min_audio_s: float = 0.5
    tail_padding_s: float = 0.5
    max_tokens: int = 224
    retry_temperatures: tuple[float, ...] = (0.2, 0.4, 0.8)
    detect_s: float = 10.0
    fallback_language: str = "en"
    min_language_prob: float = 0.5
    prompt_tokens: int = 64
    guard: GuardConfig = field(default_factory=GuardConfig)


@dataclass(frozen=True, slots=True)
class SegmenterConfig:
    """Says how a recording of any length is cut into pieces that can be decoded.

    Attributes:
        threshold, hysteresis: as in `EndpointingConfig`.
        max_segment_s: longest piece; leaves room for the tail in Whisper's 30 s.
        enough_s: a piece this long ends at the next pause of `pause_s`. Longer pieces
            give the model more context and the reader coarser times.
        pause_s: pause that may end a long enough piece.
        break_s: pause that ends any piece.
        padding_s: audio kept around the voiced part, as far as the neighbours allow.
        min_voiced_s: a piece with less voice than this is dropped.
    """

    threshold: float = 0.5
    hysteresis: float = 0.15
    max_segment_s: float = 28.0
    enough_s: float = 8.0
    pause_s: float = 0.4
    break_s: float = 2.0
    padding_s: float = 0.3
    min_voiced_s: float = 0.064


@dataclass(frozen=True, slots=True)
class LongAudioConfig:
    """Says how files are worked through.

    Attributes:
        segmenter: where the audio is cut.
        vad_batch_chunks: chunks scored by one call; more is faster and holds others up
            for longer (64 are 2 s of audio).
        parallel: segments decoded at once; more fills a batching engine.
        timeout_s: time allowed for each segment.
    """

    segmenter: SegmenterConfig = field(default_factory=SegmenterConfig)
    vad_batch_chunks: int = 64
    parallel: int = 2
    timeout_s: float = 300.0
