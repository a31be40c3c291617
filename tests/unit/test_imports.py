"""Imports point inward only, and the domain needs nothing but the standard library and attrs."""

import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("imgproc_domain", "imgproc_adapters", "imgproc_app")
ALLOWED_IN_DOMAIN = sys.stdlib_module_names | {"attr", "attrs"}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def test_every_import_contract_is_kept() -> None:
    # in a process of its own: the linter replaces the logging configuration of the one it runs in
    program = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    source = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_domain_imports_only_the_standard_library_and_attrs(graph: grimp.ImportGraph) -> None:
    domain = {"imgproc_domain", *graph.find_descendants("imgproc_domain")}
    imported = {target for module in domain for target in graph.find_modules_directly_imported_by(module)}
    outside = {target.partition(".")[0] for target in imported - domain}
    assert outside <= ALLOWED_IN_DOMAIN
    assert "attrs" in outside, "the graph sees external packages"


@pytest.mark.parametrize(
    ("inner", "outer"),
    [("imgproc_domain", "imgproc_adapters"), ("imgproc_domain", "imgproc_app"), ("imgproc_adapters", "imgproc_app")],
)
def test_no_chain_of_imports_leads_outward(graph: grimp.ImportGraph, inner: str, outer: str) -> None:
    assert graph.find_shortest_chains(inner, outer) == set()
