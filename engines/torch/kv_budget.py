"""How many cache blocks a budget of bytes buys."""

from engines.errors import BadRequest


def blocks_for(budget_bytes: int, position_bytes: int, block_size: int, context: int) -> int:
    """Returns the blocks that fit into a budget.

    Args:
        budget_bytes: for keys and values of all layers.
        position_bytes: what one position takes.
        block_size: positions in a block.
        context: positions of the longest request, which must fit.

    Raises:
        BadRequest: it does not.
    """
    block_bytes = position_bytes * block_size
    longest = -(-context // block_size)
    blocks = budget_bytes // block_bytes
    if blocks < longest:
        raise BadRequest(
            f"A cache of {budget_bytes} bytes holds {blocks * block_size} positions; one request "
            f"of full length needs {longest * block_bytes} bytes."
        )
    return blocks
