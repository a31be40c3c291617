"""Who submits: everything before the first worker starts, so that there is work for every host all the time."""

import hashlib
from collections.abc import Sequence
from typing import Final

import psycopg
from attrs import define, field
from psycopg.sql import SQL

from chaos.hosts.plan import SCOPES, Plan
from chaos.models import described
from chaos.plan import AGENT_LANE
from imgproc_adapters.system import SystemIds
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.submit import Submitted, submit

BATCH: Final = 100
_POLICY: Final = ReverseImagePolicy.FORBID
_MEMES: Final = SQL(
    "INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,"
    " storage_key, created_at, updated_at)"
    " VALUES (%s, %s, %s, %s, 'image/png', 1, 1, 1, 1, %s, now(), now())"
)


@define(eq=False)
class Crowd:
    """``promised`` are the jobs that were submitted, ``texts`` all that the agent may say of their pictures."""

    plan: Plan
    deployment: Deployment
    dsn: str
    promised: dict[JobId, Scope] = field(factory=dict)
    texts: set[str] = field(factory=set)
    _ids: SystemIds = field(factory=SystemIds)

    async def submit_all(self) -> None:
        for number, scope in enumerate(SCOPES):
            async with self.deployment.uow.begin(scope) as tx:
                await tx.slots.resize(Lane.AGENT, AGENT_LANE)
            share = (self.plan.jobs + number) // len(SCOPES)
            for start in range(0, share, BATCH):
                await self._submit(scope, self._put_in_place(scope, range(start, min(start + BATCH, share))))

    async def _submit(self, scope: Scope, memes: Sequence[MemeId]) -> None:
        answers = await submit(self.deployment, scope, [Submission(m, _POLICY, Mode.AUTOMATIC) for m in memes])
        self.promised |= {answer.job.job_id: scope for answer in answers if isinstance(answer, Submitted)}

    def _put_in_place(self, scope: Scope, numbers: Sequence[int]) -> Sequence[MemeId]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            ((now,),) = connection.execute(b"SELECT clock_timestamp()").fetchall()
            rows = []
            for number in numbers:
                sha256 = hashlib.sha256(f"{self.plan.seed}/{scope}/{number}".encode()).hexdigest()
                self.texts.add(described(sha256, scope, _POLICY).embeddable_text())
                rows.append((scope, self._ids.ordered(now), "hosts.png", sha256, sha256))
            connection.cursor().executemany(_MEMES, rows)
        return [MemeId(row[1]) for row in rows]
