"""Stores for the bytes of pictures."""

from imgproc_adapters.blobs.local import LocalBlobStore

__all__ = ["LocalBlobStore"]
