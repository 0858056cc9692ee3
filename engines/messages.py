"""The messages that go into engines and come out of them: frozen, plain data.

Numbers, strings, tuples and numpy arrays only, so that they survive a trip through a
socket. Times are relative (`due_in_s`, `timeout_s`) for the same reason.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono audio, shape (samples,), nominal range -1..1."""


class Tier(IntEnum):
    """Orders traffic by who pays; a lower value is served first."""

    PAID = 0
    FREE = 1
    BATCH = 2


class FinishReason(StrEnum):
    """Says why a generation ended."""

    STOP = "stop"  # a stop id came
    LENGTH = "length"  # max_tokens reached
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Ticket:
    """Names one piece of work and says how urgent it is.

    Attributes:
        request_id: unique among running requests.
        session_id: whose work it is; empty for work without a session.
        tier: paid, free or batch.
        due_in_s: seconds from submission within which the first result is wanted; the
            executor runs the work with the least slack first.
        timeout_s: seconds from submission after which the result is useless; the request
            then ends with `Timeout`.
        admit_within_s: seconds that it may wait to be admitted before it is refused with
            `Overloaded`; None waits for as long as `timeout_s`, except a paced request,
            which waits for `due_in_s`.
    """

    request_id: str
    session_id: str = ""
    tier: Tier = Tier.FREE
    due_in_s: float = 1.0
    timeout_s: float = 30.0
    admit_within_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """Is a playout contract: after the first audio the listener drains 1 s a second.

    Attributes:
        rate: tokens that one second of speech costs.
        low_s: a stream whose lead is below this is urgent.
        high_s: a stream whose lead is at or above this sits out.
    """

    rate: float
    low_s: float = 0.3
    high_s: float = 1.5


@dataclass(frozen=True, slots=True)
class Sampling:
    """Says how the next token is chosen.

    Attributes:
        temperature: 0 is greedy; above, logits are divided by it.
        top_k: keep the k most likely ids; 0 keeps all.
        top_p: keep the smallest set whose probability reaches this, in (0, 1].
        min_p: drop ids less likely than this share of the likeliest one's probability, in
            [0, 1]; 0 drops none.
        repetition_penalty: above 1 makes ids already present less likely (CTRL, Keskar 2019).
        logit_bias: (id, value) pairs added to the logits; -100 all but forbids an id.
        suppress_ids: ids that are never chosen.
        seed: makes a sampled request reproducible, whatever else is in its batch; None
            draws one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    suppress_ids: tuple[int, ...] = ()
    seed: int | None = None


class SpanAttention(StrEnum):
    """Says how the positions of an embedding span see each other."""

    CAUSAL = "causal"
    BIDIRECTIONAL = "bidirectional"


@dataclass(frozen=True, slots=True)
class EmbeddingSpan:
    """Puts embeddings in the place of prompt ids (vision).

    Attributes:
        position: index in the prompt of the first replaced id.
        embeddings: shape (length, hidden).
        content_hash: identifies the content for prefix reuse.
        position_ids: M-RoPE positions, shape (3, length), where the family needs them.
        layer_features: DeepStack features, shape (layers, length, hidden).
        attention: causal or bidirectional over the span.
    """

    position: int
    embeddings: NDArray[np.float32]
    content_hash: str
    position_ids: NDArray[np.int64] | None = None
    layer_features: NDArray[np.float32] | None = None
    attention: SpanAttention = SpanAttention.CAUSAL


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Asks a decoder-only LM to continue a prompt.

    Attributes:
        ticket: identity and urgency.
        prompt_ids: the prompt, at least one id.
        max_tokens: at most this many frames are generated.
        sampling: how ids are chosen.
        stop_ids: generation ends at any of these; the stop id itself is not delivered.
        stop_sequences: generation ends when the ids generated so far end with any of these;
            ids that begin one are held back until it is clear that they do not complete it.
        spans: embeddings that replace prompt positions.
        pace: playout contract of a stream that is listened to; None runs freely.
        expected_share: share of the device that this session is expected to need, 0..1.
        cache_salt: keeps prefix reuse within one tenant.
    """

    ticket: Ticket
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    stop_ids: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    spans: tuple[EmbeddingSpan, ...] = ()
    pace: Pace | None = None
    expected_share: float = 0.0
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Asks an LM to forget what it keeps for a session between that session's requests."""

    ticket: Ticket
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """Asks an encoder-decoder to write down what is said.

    Attributes:
        ticket: identity and urgency.
        samples: 16 kHz mono, at most 30 s.
        prefix_ids: decoder prefix (start of transcript, language, task, ...).
        max_tokens: at most this many ids are generated after the prefix.
        window_s: encoder window; None is the model's full 30 s. A back end whose
            capabilities say `trimmed_window = False` always uses the full one.
        draft_ids: the last hypothesis, to be verified in one pass where the back end can.
        stop_ids: end-of-text ids.
        suppress_ids: ids that are never generated.
        begin_suppress_ids: ids that may not come first.
        allowed_first_ids: if not empty, the first id is one of these (language detection).
        no_speech_id: id whose probability at the first position is reported.
        sampling: temperature 0 is greedy.
        want_alignment: ask for cross-attention weights.
    """

    ticket: Ticket
    samples: Samples
    prefix_ids: tuple[int, ...]
    max_tokens: int
    window_s: float | None = None
    draft_ids: tuple[int, ...] = ()
    stop_ids: tuple[int, ...] = ()
    suppress_ids: tuple[int, ...] = ()
    begin_suppress_ids: tuple[int, ...] = ()
    allowed_first_ids: tuple[int, ...] = ()
    no_speech_id: int | None = None
    sampling: Sampling = Sampling()
    want_alignment: bool = False


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """Carries what one step made for one request.

    Attributes:
        request_id: whose it is.
        ids: one frame: 1 id for a plain LM, several codebooks for some speech models;
            empty in a closing delta. From a `Seq2SeqEngine` that verified a draft: all ids
            that the draft had right and one more, in order.
        logprob: log-probability of `ids`, all together, where the engine reports it; in a
            closing delta that of the stop id, if one came.
        finish: set in the last delta only.
        no_speech_prob: Whisper's, 0..1, in the first delta.
        prompt_tokens: length of the prompt, in the last delta.
        cached_tokens: how many prompt ids came from a cache, in the last delta.
    """

    request_id: str
    ids: tuple[int, ...] = ()
    logprob: float | None = None
    finish: FinishReason | None = None
    no_speech_prob: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EncodeItem:
    """Is one input of an encoder: `values` in the layout that its family wants."""

    values: NDArray[np.float32]
    content_hash: str


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Is one output of an encoder: shape (length, hidden)."""

    values: NDArray[np.float32]
    content_hash: str


@dataclass(frozen=True, slots=True)
class WaveformRequest:
    """Asks a whole-utterance acoustic model (VITS) to speak phoneme ids.

    Attributes:
        ticket: identity and urgency.
        phoneme_ids: ids of the voice's own inventory, markers and pads included.
        length_scale: above 1 speaks slower.
    """

    ticket: Ticket
    phoneme_ids: tuple[int, ...]
    length_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """States what a back end can do; pipelines ask and degrade openly.

    Attributes:
        name: back end and model, for logs and `doctor`.
        trimmed_window: Whisper's encoder may be shorter than 30 s.
        alignment: cross-attention weights can be had.
        draft: `draft_ids` are verified in one pass.
        spans: embedding spans are taken.
        batch_invariant: results do not change with what else is in the batch.
        max_context: longest prompt plus output in tokens; 0 where it has no meaning.
        sample_rate_hz: rate of the samples that it makes; 0 where it makes none.
    """

    name: str
    trimmed_window: bool = False
    alignment: bool = False
    draft: bool = False
    spans: bool = False
    batch_invariant: bool = True
    max_context: int = 0
    sample_rate_hz: int = 0


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Is a snapshot of an engine's work; counts run from the start of the server.

    Attributes:
        running: requests admitted and not finished.
        waiting: requests queued for admission.
        steps: steps run.
        tokens: ids delivered.
        finished, aborted, failed: requests ended.
        refused: requests turned away because the engine was full.
        preempted: times that batch work gave its place back.
        restarts: times that the engine, or the process it lives in, was started anew.
        busy_s: seconds spent in steps.
        wait_s: seconds in which the engine had a step ready and another one had the device.
        cache_bytes: bytes of KV and other per-request state held now.
        cache_limit_bytes: the budget for that; 0 where there is none.
        batch_rows: sequences in all steps together; divided by `steps`, the mean batch.
        prompt_tokens: prompt positions of all admitted requests.
        cached_tokens: how many of them came from the prefix cache.
        mismatched: prompts whose cached prefix ended at a differing position, not at the
            end of what was cached: one token of difference lost the rest.
        mismatch_position: where that last happened, as an index into the prompt.
        drafted_tokens: ids proposed by speculation.
        accepted_tokens: how many of them the model agreed with.
        underruns: times that a paced stream's lead fell below zero.
    """

    running: int = 0
    waiting: int = 0
    steps: int = 0
    tokens: int = 0
    finished: int = 0
    aborted: int = 0
    failed: int = 0
    refused: int = 0
    preempted: int = 0
    restarts: int = 0
    busy_s: float = 0.0
    wait_s: float = 0.0
    cache_bytes: int = 0
    cache_limit_bytes: int = 0
    batch_rows: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    mismatched: int = 0
    mismatch_position: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    underruns: int = 0
