"""Refuses generate requests that can never run, before anything is kept of them."""

import numpy as np

from engines.base import EmbeddingSpan, GenerateRequest, SpanAttention
from engines.errors import BadRequest, Unsupported
from engines.torch.models.llama import LlamaConfig
from engines.torch.sampler import check_sampling


def check_generate(request: GenerateRequest, config: LlamaConfig) -> None:
    """Checks a request against the sizes of the model that is to run it.

    Raises:
        BadRequest: a value means nothing or does not fit; `param` names it.
        Unsupported: the spans need something that this family does not have.
    """
    check_sampling(request.sampling, config.vocab)
    if not request.prompt_ids:
        raise BadRequest("The prompt is empty.", param="prompt_ids")
    if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < config.vocab:
        raise BadRequest("An id is outside of the vocabulary.", param="prompt_ids")
    if request.max_tokens < 1:
        raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
    if len(request.prompt_ids) + request.max_tokens > config.context:
        raise BadRequest(
            f"Prompt and max_tokens exceed the context of {config.context} ids.",
            param="max_tokens",
        )
    if any(not sequence for sequence in request.stop_sequences):
        raise BadRequest("A stop sequence is empty.", param="stop_sequences")
    _check_pace(request)
    end = 0
    for span in sorted(request.spans, key=lambda span: span.position):
        _check_span(span, end, len(request.prompt_ids), config.width)
        end = span.position + len(span.embeddings)


def _check_pace(request: GenerateRequest) -> None:
    pace = request.pace
    if pace is None:
        return
    if not 0 < pace.rate < float("inf"):
        raise BadRequest("The rate must be above 0 tokens a second.", param="pace.rate")
    if not 0 <= pace.low_s < pace.high_s < float("inf"):
        raise BadRequest("The marks must be 0 <= low_s < high_s.", param="pace.high_s")


def _check_span(span: EmbeddingSpan, start: int, end: int, width: int) -> None:
    if span.attention is not SpanAttention.CAUSAL:
        raise Unsupported("This model attends causally over embedding spans only.")
    if span.position_ids is not None or span.layer_features is not None:
        raise Unsupported("This model takes no position ids or layer features in spans.")
    shape = span.embeddings.shape
    if len(shape) != 2 or shape[1] != width:
        raise BadRequest(f"Span embeddings must be (length, {width}).", param="spans")
    if span.position < start or span.position + shape[0] > end:
        raise BadRequest("Spans overlap or leave the prompt.", param="spans")
    if not np.isfinite(span.embeddings).all():
        raise BadRequest("A span holds values that are not numbers.", param="spans")
