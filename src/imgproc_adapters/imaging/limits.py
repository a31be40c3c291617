"""What is accepted."""

from attrs import field, frozen, validators


@frozen
class Limits:
    """Caps on one picture; all of them are checked before anything is decoded."""

    max_bytes: int = field(default=40_000_000, validator=validators.gt(0))
    max_pixels: int = field(default=50_000_000, validator=validators.gt(0))
    """Width times height of one frame."""
    max_side: int = field(default=32_768, validator=validators.gt(0))
    max_frames: int = field(default=1_000, validator=validators.gt(0))
    max_text_bytes: int = field(default=1_000_000, validator=validators.gt(0))
    """Stored bytes of a PNG's text and profile chunks together; they can be compressed a thousandfold."""
    max_verified_pixels: int = field(default=200_000_000, validator=validators.gt(0))
    """Frames of an animation are decoded to prove them sound until this many pixels were decoded."""
