import dataclasses
import inspect
from typing import get_args

from streams import events
from streams.events import SessionInput, SessionOutput

NOT_EVENTS = {events.Item, events.Part, events.Usage}


def test_every_event_is_in_exactly_one_union_and_cannot_change() -> None:
    inputs, outputs = set(get_args(SessionInput)), set(get_args(SessionOutput))
    declared = {
        kind
        for _, kind in inspect.getmembers(events, dataclasses.is_dataclass)
        if kind.__module__ == events.__name__
    }
    assert not inputs & outputs
    assert inputs | outputs == declared - NOT_EVENTS
    for kind in declared:
        assert kind.__dataclass_params__.frozen, kind
        assert "__slots__" in vars(kind), kind
