"""The plot of docs/benchmarks.md: ``python -m benchmarks.plot FILE.svg`` with the report's columns on standard input.

Run with the packages of ``benchmarks/peers.lock``. The same figures always give the same file.
"""

# mypy: disable-error-code="import-not-found"
# the library is installed for this script alone

import json
import sys
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_PANELS = (
    (
        "complete 3-step jobs a second (log scale)",
        {
            "empty table": "jobs_per_s",
            "beside finished jobs": "jobs_per_s_1m_finished",
            "beside queued jobs": "jobs_per_s_200k_queued",
        },
    ),
    (
        "CPU a job, us (log scale)",
        {"client": "client_cpu_us_per_job", "server": "server_cpu_us_per_job"},
    ),
    (
        "idle pick-up, ms (log scale)",
        {"median": "idle_pickup_ms_p50", "99th percentile": "idle_pickup_ms_p99"},
    ),
)
_HUES = ("#4477aa", "#ee6677", "#228833")
_LIMIT = "limit_jobs_per_s"


def draw(columns: Mapping[str, Mapping[str, Any]], path: str) -> None:
    """Write an SVG of one panel a kind of figure, one group of bars an engine; what was not measured has no bar."""
    mpl.rcParams.update({"svg.hashsalt": "imgproc", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axes, (title, keys) in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
        width = 0.8 / len(keys)
        for place, (label, key) in enumerate(keys.items()):
            bars = [(n + (place - (len(keys) - 1) / 2) * width, values.get(key)) for n, values in _numbered(columns)]
            shown = [(x, height) for x, height in bars if height]
            drawn = axes.bar([x for x, _ in shown], [y for _, y in shown], width, label=label, color=_HUES[place])
            axes.bar_label(drawn, [f"{y:,.0f}" if y >= 10 else f"{y:.1f}" for _, y in shown], fontsize=6)
        limit = next((found for values in columns.values() if (found := values.get(_LIMIT))), None)
        if limit and "jobs_per_s" in keys.values():
            axes.axhline(limit, color="black", linewidth=0.8, linestyle="--", label="limit (pgbench)")
        axes.set_yscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(len(columns)), list(columns), fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
        axes.margins(y=0.25)
    figure.savefig(path, format="svg", metadata={"Date": None})


def _numbered(columns: Mapping[str, Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    return list(enumerate(columns.values()))


if __name__ == "__main__":
    draw(json.load(sys.stdin), sys.argv[1])
