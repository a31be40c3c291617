"""Two pictures, and a cache that the tests of one run share so that the network is converted once."""

from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from imgproc_adapters.models.wire import Setup


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def setup(cache: Path) -> Setup:
    return Setup(cache=str(cache))


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    path = tmp_path / "flag.png"
    image = Image.new("RGB", (64, 40), "white")
    ImageDraw.Draw(image).rectangle((0, 0, 31, 19), fill="red")
    image.save(path)
    return path


@pytest.fixture
def caption(tmp_path: Path) -> Path:
    path = tmp_path / "caption.png"
    image = Image.new("RGB", (640, 240), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(44)
    draw.text((30, 30), "Deploying on Friday", "black", font)
    draw.text((30, 140), "What could go wrong", "black", font)
    image.save(path)
    return path
