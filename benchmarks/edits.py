"""What people do to a picture before they post it again, and pictures that only look alike, drawn with fixed dice."""

import io
import random
from collections.abc import Callable, Mapping
from typing import Final

from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

Edit = Callable[[Image.Image], Image.Image]

LINES: Final = (
    "I have read the meeting invite, my answer is no",
    "deploying on friday evening, what could go wrong",
    "works on my machine",
    "there are only two hard things in computer science",
    "nobody reads the manual",
    "my code has no bugs, it has features",
    "please restart the router",
    "the printer is on fire again",
    "tabs or spaces, choose wisely",
    "one more cup of coffee and then we start",
    "have you tried turning it off and on again",
    "the intern did it",
)


def _encoded(kind: str, quality: int) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        buffer = io.BytesIO()
        image.save(buffer, kind, quality=quality)
        return Image.open(buffer).convert("RGB")

    return edit


def _cropped(share: float) -> Edit:
    def edit(image: Image.Image) -> Image.Image:
        x, y = int(image.width * share / 2), int(image.height * share / 2)
        return image.crop((x, y, image.width - x, image.height - y))

    return edit


def captioned(image: Image.Image, words: str = "me on monday morning") -> Image.Image:
    """Put a white bar with words on top."""
    bar = image.height // 6
    made = Image.new("RGB", (image.width, image.height + bar), "white")
    made.paste(image, (0, bar))
    font = ImageFont.load_default(max(12, bar // 3))
    ImageDraw.Draw(made).text((image.width // 20, bar // 3), words, "black", font)
    return made


def _screenshot(image: Image.Image) -> Image.Image:
    height = max(image.width * 16 // 9, image.height + 100)
    made = Image.new("RGB", (image.width, height), (18, 18, 18))
    made.paste(image, (0, (height - image.height) // 2))
    ImageDraw.Draw(made).text((20, 10), "12:41   87 %", "white", ImageFont.load_default(18))
    return made


def _watermarked(image: Image.Image) -> Image.Image:
    made = image.copy()
    font = ImageFont.load_default(max(12, image.height // 22))
    ImageDraw.Draw(made).text((image.width * 0.6, image.height * 0.9), "@somebody", "white", font)
    return made


EDITS: Final[Mapping[str, Edit]] = {
    "resized to half": lambda image: image.resize((image.width // 2, image.height // 2)),
    "resized to 160 pixels": lambda image: ImageOps.contain(image, (160, 160)),
    "JPEG, quality 30": _encoded("JPEG", 30),
    "WebP, quality 40": _encoded("WEBP", 40),
    "64 colours": lambda image: image.quantize(64).convert("RGB"),
    "cropped by 5 %": _cropped(0.05),
    "cropped by 10 %": _cropped(0.1),
    "brighter by 25 %": lambda image: ImageEnhance.Brightness(image).enhance(1.25),
    "darker by 25 %": lambda image: ImageEnhance.Brightness(image).enhance(0.75),
    "watermark": _watermarked,
    "mirrored": ImageOps.mirror,
    "blurred": lambda image: image.filter(ImageFilter.GaussianBlur(2)),
    "caption bar added": captioned,
    "black border": lambda image: ImageOps.expand(image, max(image.size) // 16, "black"),
    "greyscale": lambda image: ImageOps.grayscale(image).convert("RGB"),
    "phone screenshot": _screenshot,
}


def line_art(seed: int) -> Image.Image:
    """Draw a dozen strokes on white."""
    dice = random.Random(seed)
    made = Image.new("RGB", (640, 480), "white")
    draw = ImageDraw.Draw(made)
    for _ in range(12):
        x, y, w, h = dice.randrange(640), dice.randrange(480), dice.randrange(20, 200), dice.randrange(20, 200)
        if dice.random() < 0.5:
            draw.ellipse((x - w, y - h, x, y), outline="black", width=4)
        else:
            draw.line((x, y, x + w - 100, y + h - 100), "black", 5)
    return made


def window(seed: int) -> Image.Image:
    """Draw a program's window: bars and boxes of other colours at other places."""
    dice = random.Random(seed)

    def colour() -> tuple[int, int, int]:
        return dice.randrange(256), dice.randrange(256), dice.randrange(256)

    made = Image.new("RGB", (900, 600), (245, 246, 248))
    draw = ImageDraw.Draw(made)
    draw.rectangle((0, 0, 900, 60), fill=colour())
    draw.rectangle((0, 60, 200, 600), fill=(230, 232, 236))
    for _ in range(8):
        x, y = dice.randrange(220, 700), dice.randrange(80, 540)
        draw.rectangle((x, y, x + dice.randrange(60, 200), y + dice.randrange(20, 100)), fill=colour())
    return made


def page(number: int) -> Image.Image:
    """Write one of the lines on white."""
    made = Image.new("RGB", (640, 480), "white")
    words = LINES[number % len(LINES)].split()
    draw, font = ImageDraw.Draw(made), ImageFont.load_default(34)
    for row in range(0, len(words), 3):
        draw.text((30, 60 + 16 * row), " ".join(words[row : row + 3]), "black", font)
    return made
