"""What goes between a model process and its owner: length-prefixed MessagePack with fixed types.

The process looks at hostile files, so its owner never unpickles anything from it: every answer is decoded into the
one type the call expects, and its size is bounded.
"""

import struct
from typing import Final, Generic, Literal, TypeVar

import msgspec
from attrs import field, frozen

from imgproc_adapters.agent.describe import Evidence
from imgproc_adapters.imaging import Limits
from imgproc_adapters.text.encoders import DEFAULT_TEXT_MODEL, TextModelName
from imgproc_domain.ports.models import PictureInfo

HEADER: Final = struct.Struct(">I")
MAX_MESSAGE: Final = 32 * 1024 * 1024

A = TypeVar("A")
R = TypeVar("R")

Part = Literal["decoder", "visual", "reader", "text"]


@frozen
class Setup:
    """The first message to a new process: how it shall work. Paths are absolute."""

    cache: str
    limits: Limits = field(factory=Limits)
    text_model: TextModelName = DEFAULT_TEXT_MODEL
    memory_bytes: int = 4 * 1024**3
    """Cap on its private writable memory (RLIMIT_DATA); beyond it allocations fail and the call with them."""


@frozen
class Problem:
    """Why there is no answer. `code` is a picture's stable code when `kind` is `rejected`, else a class name."""

    kind: Literal["rejected", "missing", "failed"]
    code: str
    message: str


@frozen
class Call:
    """`body` is the MessagePack of the task's argument."""

    task: str
    body: bytes


@frozen
class Answer:
    """Either `body`, the MessagePack of the task's result, or a problem."""

    body: bytes = b""
    problem: Problem | None = None


@frozen
class Task(Generic[A, R]):
    """A function of the model process: its name, and the types that go in and come out."""

    name: str
    argument: type[A]
    result: type[R]


@frozen
class ThumbnailOrder:
    path: str
    longest_side: int


@frozen
class Embedded:
    """One float32 vector in native byte order, or why there is none."""

    vector: bytes = b""
    problem: Problem | None = None


WARM: Final = Task("warm", list[Part], int)
"""Loads the named parts; answers the process id."""
PROBE: Final = Task("probe", str, PictureInfo)
THUMBNAIL: Final = Task("thumbnail", ThumbnailOrder, bytes)
EMBED_PICTURES: Final = Task("embed_pictures", list[str], list[Embedded])
LOOK: Final = Task("look", str, Evidence)
EMBED_DOCUMENTS: Final = Task("embed_documents", list[str], list[bytes])
EMBED_QUERY: Final = Task("embed_query", str, bytes)


def framed(message: object) -> bytes:
    """`message` as it goes over the socket."""
    body = msgspec.msgpack.encode(message)
    return HEADER.pack(len(body)) + body
