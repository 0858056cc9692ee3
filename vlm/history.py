"""Chooses which turns of a conversation the model still sees."""

from collections.abc import Sequence

STRIDE_SHARE = 0.5
"""Turns are left out in strides of this share of the budget: the cut then stays where it is
for many turns, and with it the cached prefix, which every move of the cut loses."""


def first_kept(roles: Sequence[str], sizes: Sequence[int], budget: int) -> int:
    """Returns the index of the first turn that is kept.

    The answer depends only on the turns themselves, so a conversation that grows keeps its
    cut until another stride is needed.

    Args:
        roles: of the turns after the system prompt, oldest first.
        sizes: their tokens.
        budget: tokens that may be kept. The last turn of the user is always kept.

    Returns:
        0, or the index of a turn of the user, so that no answer stands without its question.
    """
    excess = sum(sizes) - budget
    if excess <= 0:
        return 0
    stride = max(1, int(budget * STRIDE_SHARE))
    wanted = -(-excess // stride) * stride  # whole strides
    dropped, start = 0, 0
    for index, (role, size) in enumerate(zip(roles, sizes, strict=True)):
        if role == "user":
            start = index
            if dropped >= wanted:
                break
        dropped += size
    return start
