"""Every room has a door: `__init__.py` says what it is for, and offers little."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import MAY_IMPORT, ROOT

MAX_NAMES = 20
PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for room in MAY_IMPORT
    for path in (ROOT / room).rglob("__init__.py")
)


def door(package: str) -> ast.Module:
    return ast.parse((ROOT / package / "__init__.py").read_text())


def public_names(tree: ast.Module) -> Iterator[str]:
    """Yields what a door binds at its top level, but for private names."""
    bound: list[str] = []
    for node in tree.body:
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                bound += [alias.asname or alias.name for alias in names]
            case ast.Assign(targets):
                bound += [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(name)):
                bound.append(name)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                bound.append(name)
    return (name for name in bound if not name.startswith("_"))


def test_every_folder_of_code_has_a_door() -> None:
    for room in MAY_IMPORT:
        for folder in {path.parent for path in (ROOT / room).rglob("*.py")}:
            assert (folder / "__init__.py").exists(), folder


@pytest.mark.parametrize("package", PACKAGES)
def test_door_says_in_a_sentence_what_is_behind_it(package: str) -> None:
    said = ast.get_docstring(door(package))
    assert said, f"{package}/__init__.py has no docstring"
    assert said.partition("\n")[0].endswith((".", ":")), said


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_room_says_what_it_refuses_to_know(room: str) -> None:
    said = " ".join((ast.get_docstring(door(room)) or "").split())
    assert "know" in said and any(word in said for word in ("nothing", "no ", "not ")), said


@pytest.mark.parametrize("package", PACKAGES)
def test_door_offers_at_most_twenty_names(package: str) -> None:
    assert len(list(public_names(door(package)))) <= MAX_NAMES


def test_names_of_a_door_are_counted_however_they_are_bound() -> None:
    source = "import a, b.c as d\nfrom e import f as g, _h\nI: int = 1\nj = 2\ndef k(): ...\n"
    assert list(public_names(ast.parse(source))) == ["a", "d", "g", "I", "j", "k"]


def test_rooms_are_those_of_the_distribution() -> None:
    shipped = {path.parent.name for path in Path(ROOT).glob("*/__init__.py")} - {"tests"}
    assert shipped == set(MAY_IMPORT)
