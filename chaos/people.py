"""People: they upload, submit, replace, edit, delete and retry, through a proxy that may fail them like any other."""

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import psycopg
from attrs import define, field
from psycopg.sql import SQL

from chaos.models import described
from chaos.plan import AGENT_LANE, QUOTA, RATIONED, SCOPES, Plan
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.system import SystemIds
from imgproc_domain.context import Description
from imgproc_domain.errors import ImgprocError
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.submit import Submitted, submit

log = logging.getLogger(__name__)

BATCH: Final = 20
"""Pictures that are submitted together; some of every batch are changed later on."""

_MEMES: Final = SQL(
    "INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,"
    " storage_key, created_at, updated_at)"
    " VALUES (%s, %s, %s, %s, 'image/png', 1, 1, 1, 1, %s, now(), now()) ON CONFLICT DO NOTHING"
)
_NOW: Final = SQL("SELECT clock_timestamp()")
_COUNT: Final = SQL(
    "SELECT count(*), count(*) FILTER (WHERE status IN ('queued', 'running')) FROM image_processing_jobs"
)
_RETRYABLE: Final = SQL(
    "SELECT job_id FROM image_processing_jobs WHERE scope_id = %s"
    " AND status IN ('failed', 'blocked', 'unknown_execution') ORDER BY random() LIMIT 1"
)
_REVISION: Final = SQL("SELECT revision FROM meme_contexts WHERE scope_id = %s AND meme_id = %s")


@define(eq=False)
class People:
    """``direct`` is the database without a proxy: for what is put in place and looked up, not for what is under test.

    ``promised`` are the jobs that somebody was told of, ``texts`` what people wrote, and ``pictures`` the digest of
    every picture that may ever have been stored.
    """

    plan: Plan
    deployment: Deployment
    direct: Callable[[], str]
    dice: random.Random
    ids: SystemIds = field(factory=SystemIds)
    promised: dict[JobId, Scope] = field(factory=dict)
    pictures: set[tuple[Scope, str]] = field(factory=set)
    texts: set[str] = field(factory=set)
    memes: list[tuple[Scope, MemeId]] = field(factory=list)
    acts: dict[str, int] = field(factory=dict)
    _made: int = 0

    async def settle_in(self) -> None:
        """Open scopes, slots and quotas."""
        for scope in SCOPES:
            async with self.deployment.uow.begin(scope) as tx:
                await tx.slots.resize(Lane.AGENT, AGENT_LANE)
        if self.plan.policy == QUOTA and isinstance(self.deployment.policy, QuotaPolicy):
            quota = Quota(max(1, self.plan.jobs * SCOPES[RATIONED] // sum(SCOPES.values()) * 2 // 3), Period.DAY)
            await self.deployment.policy.set_quota(RATIONED, Operation.ANALYSIS_AGENT, quota)

    async def count(self) -> tuple[int, int]:
        """Return how many jobs there are, and how many of them are live."""
        row = await self._row(_COUNT)
        return (int(row[0]), int(row[1])) if row else (0, 0)

    async def submit_more(self) -> None:
        """Put a batch of new pictures in place and submit them until that is known to have happened."""
        scope = self.dice.choices(list(SCOPES), list(SCOPES.values()))[0]
        memes = await self._put_in_place(scope)
        policy = self.dice.choice(list(ReverseImagePolicy))
        wanted = [Submission(meme, policy, Mode.AUTOMATIC) for meme in memes]
        while True:
            try:
                answers = await submit(self.deployment, scope, wanted)
            except ImgprocError as error:
                log.warning("submit again: %s", error.message)
                await asyncio.sleep(0.1)
            else:
                break
        self.promised |= {answer.job.job_id: scope for answer in answers if isinstance(answer, Submitted)}
        self.memes += [(scope, meme) for meme in memes]

    async def act(self) -> None:
        """Do one of the things that people do to a picture, and take no for an answer."""
        scope, meme = self.dice.choice(self.memes)
        acts = {self._replace: 3, self._edit: 3, self._delete: 1, self._retry: 5}
        (work,) = self.dice.choices(list(acts), list(acts.values()))
        try:
            await work(scope, meme)
        except ImgprocError as error:
            self._note(f"{work.__name__.lstrip('_')}: {error.code}")
        else:
            self._note(work.__name__.lstrip("_"))

    def _note(self, what: str) -> None:
        self.acts[what] = self.acts.get(what, 0) + 1

    async def _replace(self, scope: Scope, meme: MemeId) -> None:
        data = self._new_content(scope)
        self.pictures.add((scope, hashlib.sha256(data).hexdigest()))
        _, job = await replace_picture(self.deployment, scope, meme, None, _chunks(data))
        if job is not None:
            self.promised[job.job_id] = scope

    async def _edit(self, scope: Scope, meme: MemeId) -> None:
        row = await self._row(_REVISION, scope, meme)
        description = Description(title=f"words {self._next()} of a person", summary=f"about {meme} in {scope}")
        self.texts.add(description.embeddable_text())
        await edit_context(self.deployment, scope, meme, row[0] if row else 0, description)

    async def _delete(self, scope: Scope, meme: MemeId) -> None:
        await delete_meme(self.deployment, scope, meme)

    async def _retry(self, scope: Scope, _meme: MemeId) -> None:
        row = await self._row(_RETRYABLE, scope)
        if row is not None:
            job = await retry_job(self.deployment, scope, JobId(row[0]))
            self.promised[job.job_id] = scope

    def known_texts(self) -> set[str]:
        """Return every text that may rightly have been embedded."""
        said = {
            described(sha256, scope, policy).embeddable_text()
            for scope, sha256 in self.pictures
            for policy in ReverseImagePolicy
        }
        return said | self.texts

    async def _put_in_place(self, scope: Scope) -> list[MemeId]:
        row = await self._row(_NOW)
        rows = []
        for _ in range(BATCH):
            sha256 = hashlib.sha256(self._new_content(scope)).hexdigest()
            self.pictures.add((scope, sha256))
            rows.append((scope, self.ids.ordered(row[0]), "chaos.png", sha256, sha256))

        def put() -> None:
            with psycopg.connect(self.direct(), autocommit=True) as connection:
                connection.cursor().executemany(_MEMES, rows)

        await patiently(asyncio.to_thread, put)
        return [MemeId(row[1]) for row in rows]

    def _new_content(self, scope: Scope) -> bytes:
        return f"{self.plan.seed}/{scope}/{self._next()}".encode()

    def _next(self) -> int:
        self._made += 1
        return self._made

    async def _row(self, query: SQL, *values: Any) -> Any:
        def look() -> Any:
            with psycopg.connect(self.direct(), autocommit=True) as connection:
                return connection.execute(query, values).fetchone()

        return await patiently(asyncio.to_thread, look)


async def patiently(work: Any, *arguments: Any) -> Any:
    """Return what ``work`` returns, once the database answers."""
    while True:
        try:
            made: Awaitable[Any] = work(*arguments)
            return await made
        except psycopg.OperationalError:
            await asyncio.sleep(0.1)


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data
