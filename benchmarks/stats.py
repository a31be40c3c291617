"""The statistics that are reported."""

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """Return the median; one value is its own."""
    return float(statistics.median(values))


def percentiles_ms(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile of durations in seconds, in milliseconds.

    Raises:
        statistics.StatisticsError: fewer than two values.
    """
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000
