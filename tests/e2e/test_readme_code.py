"""The README's Python, run as it stands against the real server."""

import ast
from types import CodeType

import pytest

from antiphon.server_process import ServerProcess
from tests.support.readme import readme_blocks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]

DEFAULT_URL = "http://127.0.0.1:8000"


def runnable(block: str, base_url: str) -> CodeType:
    assert DEFAULT_URL in block
    code = block.replace(DEFAULT_URL, base_url)
    return compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", readme_blocks("python"))
async def test_python_of_the_readme_prints_the_reply(
    block: str, server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    await eval(runnable(block, server.base_url), names)
    assert capsys.readouterr().out.strip()
    await names["client"].close()  # type: ignore[attr-defined]  # the SDK's, by the README's name
