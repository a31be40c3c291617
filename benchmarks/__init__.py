"""Benchmarks: everything compared is measured in one run, on one server."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
"""The top of the source tree."""
