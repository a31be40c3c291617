"""What the installed packages give the local models, and what happens without them."""

import os
import pickle
from pathlib import Path

import pytest

from imgproc_adapters.text.encoders import TextModelCard
from imgproc_adapters.visual.network import cached_network
from imgproc_adapters.visual.weights import read_weights, weights_file


def test_a_missing_package_is_named_with_its_cure() -> None:
    card = TextModelCard("use", "no-such-package-for-imgproc", "m", 1)
    assert card.space_id == "m/no-such-package-for-imgproc-missing/t1"
    assert "imgproc[local]" in (card.missing() or "")


def test_the_network_is_converted_once_and_named_after_its_weights(cache: Path) -> None:
    source = weights_file()
    assert source is not None
    first = cached_network(source, cache)
    stamp = first.stat().st_mtime_ns
    assert cached_network(source, cache) == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in cache.iterdir()] == [first.name]


def test_weights_that_would_run_code_are_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    path = tmp_path / "evil.pth"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match=r"posix\.system"):
        read_weights(path)
    assert not (tmp_path / "ran").exists()
