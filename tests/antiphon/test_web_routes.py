import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from antiphon.web_routes import FOLDER, web_routes


@pytest.fixture
def browser() -> TestClient:
    return TestClient(Starlette(routes=web_routes()))


def test_page_comes_with_a_policy_that_allows_only_its_own_files(browser: TestClient) -> None:
    answer = browser.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["permissions-policy"].startswith("microphone=(self)")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [path for path in FOLDER.iterdir() if path.suffix != ".html"],
    ids=lambda path: path.name,
)
def test_every_file_of_the_page_is_served_byte_for_byte(browser: TestClient, path: Path) -> None:
    answer = browser.get(f"/web/{path.name}")
    assert answer.content == path.read_bytes()
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_page_names_only_files_that_exist_and_no_inline_code(browser: TestClient) -> None:
    page = browser.get("/").text
    references = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert {"web/app.js", "web/style.css"} <= set(references)
    for reference in references:
        assert browser.get(f"/{reference}").status_code == 200
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script>", page)


@pytest.mark.parametrize("name", ["none.js", "..%2fweb_routes.py", "index.html"])
def test_other_names_are_not_found(browser: TestClient, name: str) -> None:
    assert browser.get(f"/web/{name}").status_code == 404
