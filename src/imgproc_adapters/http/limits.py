"""Bounds of what the server reads."""

from attrs import frozen


@frozen
class HttpLimits:
    """Sizes are bytes. A whole upload may have ``files`` times the deployment's limit of one file."""

    files: int = 20
    fields: int = 8
    overhead_bytes: int = 1024 * 1024
    json_bytes: int = 64 * 1024
    thumbnail_side: int = 320
    thumbnail_cache_bytes: int = 16 * 1024 * 1024

    def upload_bytes(self, one_file: int) -> int:
        """Return how large a whole upload may be if one file has at most ``one_file`` bytes."""
        return self.files * one_file + self.overhead_bytes


def size_text(size: int) -> str:
    """Return a number of bytes as people say it: ``40 MB`` for 40 times 1024 times 1024."""
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"
