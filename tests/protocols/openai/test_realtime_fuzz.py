"""Whatever a client sends: nothing is raised, and every frame is taken or answered."""

import json
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from protocols.openai import realtime_events, session_models
from protocols.openai.realtime_events import CLIENT_EVENTS
from streams.events import SessionInput
from tests.protocols.realtime_driver import Driver

INPUTS = get_args(SessionInput)
WIRE_CLASSES = [
    kind
    for module in (realtime_events, session_models)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, BaseModel)
]
KEYS = st.sampled_from(sorted({name for kind in WIRE_CLASSES for name in kind.model_fields}))
KINDS = ["realtime", "transcription", "server_vad", "semantic_vad", "audio/pcm", "audio/pcmu"]
CONTENTS = ["message", "user", "assistant", "input_text", "input_audio", "AAAA", "auto", "inf"]
WORDS = st.sampled_from(KINDS) | st.sampled_from(CONTENTS)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["\ud800", "\x00", "a" * 1000])
    | WORDS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.builds(
    lambda name, fields: {**fields, "type": name},
    st.sampled_from(list(CLIENT_EVENTS)),
    st.dictionaries(KEYS | st.text(max_size=5), VALUES, max_size=5),
)


def assert_taken_or_answered(driver: Driver, frame: str) -> None:
    inputs = driver.protocol.receive_text(frame)
    driver.own_rate = True  # a fuzzed rate may be any; other rules stay checked
    events = driver.sent()
    assert all(isinstance(event, INPUTS) for event in inputs)
    assert bool(inputs) != bool(events)
    assert all(event["type"] == "error" for event in events)
    assert len(events) <= 1
    json.dumps(events).encode()
    assert driver.protocol.close is None


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    assert_taken_or_answered(Driver().started(), text)


@given(VALUES)
def test_any_json_is_answered(value: Any) -> None:
    assert_taken_or_answered(Driver().started(), json.dumps(value))


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=6), st.sampled_from([{}, {"intent": "transcription"}]))
def test_any_events_in_any_order_are_taken_or_answered(
    events: list[dict[str, Any]], query: dict[str, str]
) -> None:
    driver = Driver(query).started()
    for event in events:
        assert_taken_or_answered(driver, json.dumps(event))
