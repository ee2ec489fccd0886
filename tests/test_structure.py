"""The structure that ARCHITECTURE.md promises, read from the source: layers, sizes, names, lines of the docs."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "ctmle"
SOURCES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
LONGEST_FUNCTION, MOST_PARAMETERS, WIDEST_LINE = 60, 8, 120


def module_of(path: Path) -> str:
    parts = ["ctmle", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in SOURCES}


def folder_of(module: str) -> str:
    """The unit that may not be part of a cycle: a folder or module of the package, or of lab/."""
    parts = module.split(".")
    if len(parts) > 2 and parts[1] == "lab":
        return f"lab/{parts[2]}"
    return parts[1] if len(parts) > 1 else "ctmle"


def imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in SOURCES.items():
        here = folder_of(module_of(path))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in MODULES else node.module for name in whole]
            found[here] |= {folder_of(name) for name in names if name.split(".")[0] == "ctmle"} - {here}
    return found


def test_no_folder_imports_its_way_back_to_itself():
    uses, placed = imports(), set[str]()
    rest = set(uses) | {there for theirs in uses.values() for there in theirs}
    rest -= {"ctmle"}  # its names are loaded on first use
    while free := {folder for folder in rest if uses[folder] - {"ctmle"} <= placed}:
        placed |= free
        rest -= free
    assert not rest, {folder: sorted(uses[folder] & rest) for folder in rest}


def test_the_library_knows_nothing_of_the_lab():
    for folder, theirs in imports().items():
        if not folder.startswith("lab") and folder not in ("ctmle", "__main__"):
            assert not any(there.startswith("lab") for there in theirs), folder


def test_functions_fit_on_a_screen_and_take_few_parameters():
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, where
                given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                own = [argument for argument in given if argument.arg not in ("self", "cls")]
                assert len(own) <= MOST_PARAMETERS, where


def test_every_class_has_a_name_of_its_own():
    names = Counter(node.name for tree in SOURCES.values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_short_lines_and_links_that_lead_somewhere(page):
    text = page.read_text()
    wide = [line for line in text.splitlines() if len(line) > WIDEST_LINE and not line.startswith("|")]
    assert wide == []
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
