from dataclasses import dataclass

import yaml
from pydantic import BaseModel, Field, SecretStr

from antiphon.config_text import as_yaml, knobs, plain


@dataclass(frozen=True, slots=True)
class Inner:
    """Is a section of a room.

    Attributes:
        speed: faster is sooner and
            costs more.
        low, high: the range.
    """

    speed: float = 1.0
    low: int = 0
    high: int = 9


class Outer(BaseModel):
    name: str = Field(default="a", description="What it is called.")
    secret: SecretStr | None = Field(default=None, description="A key.")
    inner: Inner = Field(default=Inner(), description="Room.")
    maybe: Inner | None = Field(default=None, description="May be left out.")


def test_knobs_are_listed_in_order_with_value_default_and_what_is_said_of_them() -> None:
    listed = {knob.path: knob for knob in knobs(Outer(name="b", inner=Inner(speed=2.0)))}
    assert list(listed) == ["name", "secret", "inner.speed", "inner.low", "inner.high", "maybe"]
    assert (listed["name"].value, listed["name"].default) == ("b", "a")
    speed = listed["inner.speed"]
    assert (speed.value, speed.default) == (2.0, 1.0)
    assert speed.description == "Faster is sooner and costs more."
    assert listed["inner.low"].description == listed["inner.high"].description == "The range."


def test_section_that_is_filled_where_none_is_the_default_lists_its_own_knobs() -> None:
    listed = {knob.path: knob for knob in knobs(Outer(maybe=Inner(low=3)))}
    assert (listed["maybe.low"].value, listed["maybe.low"].default) == (3, 0)
    assert "maybe" not in listed


def test_yaml_reads_back_and_holds_the_comments_but_no_secret() -> None:
    settings = Outer(secret=SecretStr("hunter2"), inner=Inner(speed=3.0))
    text = as_yaml(settings)
    assert "hunter2" not in text
    assert yaml.safe_load(text) == plain(settings)
    assert '# What it is called. Default: "a".' in text
    assert text.index("# Room.") < text.index("inner:") < text.index("  speed: 3.0")


def test_plain_makes_lists_of_tuples_and_masks_secrets_at_any_depth() -> None:
    value = {"keys": ({"key": SecretStr("hunter2")}, 1, None)}
    assert plain(value) == {"keys": [{"key": "**********"}, 1, None]}
