"""The README's Python, run as a script of its own against the real server."""

import asyncio
import sys
from pathlib import Path

import pytest

from antiphon.server_process import ServerProcess
from tests.support.readme import readme_blocks

pytestmark = pytest.mark.e2e

DEFAULT_URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize("block", readme_blocks("python"))
async def test_python_of_the_readme_prints_the_reply(
    block: str, server: ServerProcess, tmp_path: Path
) -> None:
    assert DEFAULT_URL in block
    script = tmp_path / "snippet.py"
    script.write_text(block.replace(DEFAULT_URL, server.base_url))
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        printed, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    assert "Paris" in printed.decode()
