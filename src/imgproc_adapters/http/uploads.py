"""`POST /images`: files stream from the socket into the blob store, one after the other, each for itself."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Final

import msgspec
from attrs import define, evolve, field
from litestar import Response, post
from litestar.params import QueryParameter

from imgproc_adapters.http import convert, wire
from imgproc_adapters.http.convert_similar import near_duplicate
from imgproc_adapters.http.documents import UploadOperation, answers
from imgproc_adapters.http.errors import TooManyFiles, UnknownField
from imgproc_adapters.http.examples import UPLOADED, UPLOADED_AGAIN, UPLOADED_IN_PART
from imgproc_adapters.http.near import Found, known_in_time
from imgproc_adapters.http.parts import Form, Part, body_of, boundary_of, rejection
from imgproc_adapters.http.provided import Served, Within
from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_adapters.http.scopes import Call
from imgproc_domain.errors import (
    DatabaseUnavailable,
    ImgprocError,
    InsufficientStorage,
    InvalidReverseImagePolicy,
    OperationDenied,
    PictureRejected,
)
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.scope import Scope
from imgproc_domain.similar import Likeness, Match
from imgproc_domain.stage import ReverseImagePolicy, parse_policy
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import UploadStatus, upload

FILE_FIELD: Final = "files"
POLICY_FIELD: Final = "reverse_image_policy"

_DESCRIPTION: Final = """\
Send up to 20 files as parts named `files`. Each is stored, and its processing begun, before the next one is read; the
answer has one item a file, in order. A file that is refused never harms its neighbours.

`reverse_image_policy` is a field **in front of** the files, or a query parameter; without it the policy is `forbid`.
Behind a file it may only repeat the policy that already applied.

The status is 201 if every file is a new picture, 200 if some were known already, and 207 if any was rejected or is
being processed under another policy, also if it is the only one. If nothing could be taken because the operation
policy does not permit it, the storage is full or the database does not answer, the whole request fails with that error.

`near_duplicates` names what was there before: for a duplicate the picture with the same bytes, for a new picture those
of which it is by all appearances an edited copy, most alike first. It is null where that did not show within a moment;
the picture is stored, and its processing begun, before anybody looks.

An error of the whole request (too many files, too large, not a form, an unknown field) does not undo what was taken
before it: how long the form is shows only at its end. `details.items` has what became of the files so far, as a
complete answer would have it; sending them again answers `duplicate`.
"""


@define
class _Intake:
    """One upload in progress."""

    deployment: Deployment
    scope: Scope
    max_files: int
    policy: ReverseImagePolicy | None
    items: list[wire.UploadItem] = field(factory=list)
    created: list[Meme] = field(factory=list)
    refusals: list[ImgprocError] = field(factory=list)

    async def take(self, part: Part) -> None:
        """Take one part in.

        Raises:
            TooManyFiles, UnknownField, InvalidReverseImagePolicy, InvalidValue: the form as a whole is refused.
        """
        if part.name == POLICY_FIELD and part.filename is None:
            self._settle_policy(parse_policy(await part.text()))
        elif part.name == FILE_FIELD:
            if part.filename is None:
                raise refused(Refusal("body", FILE_FIELD, "a file, that is a part with a file name"))
            if len(self.items) == self.max_files:
                raise TooManyFiles(f"one upload has at most {self.max_files} files", limit=self.max_files)
            self.items.append(await self._store(part))
            await part.skip()
        else:
            raise UnknownField.named("body", [part.name], (FILE_FIELD, POLICY_FIELD))

    def _settle_policy(self, policy: ReverseImagePolicy) -> None:
        in_force = self.policy or (ReverseImagePolicy.FORBID if self.items else policy)
        if policy is in_force:
            self.policy = policy
            return
        if self.items:
            message = f"reverse_image_policy stands behind a file that was taken under '{in_force}': put it first"
            raise InvalidReverseImagePolicy(message)
        raise InvalidReverseImagePolicy("reverse_image_policy is given twice, with different values")

    async def _store(self, part: Part) -> wire.UploadItem:
        policy = self.policy or ReverseImagePolicy.FORBID
        try:
            stored = await upload(self.deployment, self.scope, part.filename, part, policy)
        except (PictureRejected, OperationDenied, InsufficientStorage, DatabaseUnavailable) as error:
            told = rejection(part, error, self.deployment.limits.upload_bytes)
            self.refusals.append(told)
            return convert.rejected(part.filename, told)
        if stored.status is UploadStatus.CREATED:
            self.created.append(stored.meme)
        return convert.uploaded(stored)

    def stopped(self, error: ImgprocError) -> None:
        """Let the error that ends the form name what was taken before it."""
        if self.items:
            error.details = {**error.details, "items": msgspec.to_builtins(self.items)}

    async def answer(self, links: convert.Links) -> Response[wire.UploadResult]:
        """Return what became of the files, and which of them the library had in another form.

        Raises if there were none, or if none was taken for a reason of our own.
        """
        if not self.items:
            raise refused(Refusal("body", FILE_FIELD, "at least one file"))
        ours = [error for error in self.refusals if not isinstance(error, PictureRejected)]
        if len(ours) == len(self.items):
            raise ours[-1]
        known = await known_in_time(self.deployment, self.scope, self.created)
        self.items = [_with_duplicates(item, known, links) for item in self.items]
        return Response(wire.UploadResult(self.items), status_code=_status(self.items))


def _with_duplicates(item: wire.UploadItem, known: Found, links: convert.Links) -> wire.UploadItem:
    """Name what was there before: the picture itself if its bytes were, the near duplicates of a new one."""
    if item.meme_id is None:
        return item
    meme_id = MemeId(item.meme_id)
    if item.status == "duplicate":
        return evolve(item, near_duplicates=[near_duplicate(Match(meme_id, 1.0, Likeness.EXACT), links)])
    if meme_id not in known:
        return item
    return evolve(item, near_duplicates=[near_duplicate(match, links) for match in known[meme_id]])


def _status(items: Sequence[wire.UploadItem]) -> int:
    if any(item.status == "rejected" or item.error for item in items):
        return 207
    return 201 if all(item.status == "created" for item in items) else 200


@post(
    "/images",
    operation_id="upload_images",
    operation_class=UploadOperation,
    summary="Upload pictures",
    description=_DESCRIPTION,
    tags=["images"],
    responses=answers(
        {
            201: (wire.UploadResult, UPLOADED, "Every file is a new picture"),
            200: (wire.UploadResult, UPLOADED_AGAIN, "Every file was taken; some were known already"),
            207: (wire.UploadResult, UPLOADED_IN_PART, "Some files were rejected, or got no job of their own"),
        },
        errors=(
            "invalid_reverse_image_policy",
            "unknown_field",
            "payload_too_large",
            "too_many_files",
            "unsupported_media",
            "validation_error",
            "operation_forbidden",
            "operation_limit_exceeded",
            "operation_policy_unavailable",
            "insufficient_storage",
        ),
    ),
)
async def upload_images(
    deployment: Served,
    limits: Within,
    request: Call,
    policy: Annotated[str | None, QueryParameter(name=POLICY_FIELD, description="The same as the field.")] = None,
) -> Response[wire.UploadResult]:
    given = None if policy is None else parse_policy(policy)
    boundary = boundary_of(request.headers.get("content-type", ""))
    intake = _Intake(deployment, request.auth, limits.files, given)
    async with aclosing(body_of(request, limits.upload_bytes(deployment.limits.upload_bytes))) as body:
        # one part more than a full form may have, so that the last file is counted as one too many
        try:
            async for part in Form(body, boundary, limits.files + limits.fields + 1):
                await intake.take(part)
        except ImgprocError as error:
            intake.stopped(error)
            raise
    return await intake.answer(convert.Links.of(request))
