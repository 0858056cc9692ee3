"""Chooses whose step runs next on a device: least slack first.

Two steps at once on one device slow each other several-fold, so there is one at a time.
"""

from collections.abc import Iterable

from engines.torch.step_engine import Urgency


def most_urgent(waiting: Iterable[tuple[str, Urgency | None]]) -> str | None:
    """Returns the name with the least urgency tuple, the first of equals; None if all idle."""
    ready = [(name, urgency) for name, urgency in waiting if urgency is not None]
    if not ready:
        return None
    return min(ready, key=lambda entry: entry[1])[0]
