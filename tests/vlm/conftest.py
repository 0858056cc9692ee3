"""The embedded language model's template, read once."""

import pytest

from tests.support.models import model_path
from vlm.chat_template import ChatTemplate


@pytest.fixture(scope="session")
def smollm2() -> ChatTemplate:
    return ChatTemplate.load(model_path("smollm2-135m-instruct"))
