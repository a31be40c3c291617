"""Attempts, grants, the release outbox, and lane slots."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from imgproc_adapters.memory.schema import ATTEMPTS, GRANTS, LANES, RELEASES, SLOTS, LaneSize
from imgproc_adapters.memory.session import Session
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Claim
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.policy import Operation
from imgproc_domain.ports.execution import Release
from imgproc_domain.stage import Lane


@frozen
class MemoryAttempts:
    _session: Session

    async def add(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            assert attempt.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.insert(ATTEMPTS, attempt)

    async def last(self, task_ids: Collection[TaskId]) -> Mapping[TaskId, Attempt]:
        wanted = set(task_ids)
        found = (attempt for attempt in self._session.rows(ATTEMPTS) if attempt.task_id in wanted)
        return {attempt.task_id: attempt for attempt in sorted(found, key=lambda attempt: attempt.attempt_no)}

    async def save(self, changes: Sequence[tuple[AttemptStatus, Attempt]]) -> Collection[AttemptId]:
        by_id = {attempt.attempt_id: (expected, attempt) for expected, attempt in changes}
        locked = await self._session.lock(ATTEMPTS, sorted(by_id))
        written: set[AttemptId] = set()
        for attempt_id, old in locked.items():
            expected, new = by_id[attempt_id]
            if old.status is expected:
                await self._session.update(ATTEMPTS, _changed(old, new))
                written.add(attempt_id)
        return written


def _changed(old: Attempt, new: Attempt) -> Attempt:
    return evolve(
        old,
        status=new.status,
        generation=new.generation,
        external_started_at=new.external_started_at,
        hard_deadline_at=new.hard_deadline_at,
        completed_at=new.completed_at,
        error=new.error,
    )


@frozen
class MemoryGrants:
    _session: Session

    async def add(self, grants: Sequence[Grant]) -> None:
        for grant in grants:
            assert grant.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.insert(GRANTS, grant)

    async def by_key(self, operation: Operation, keys: Collection[str]) -> Mapping[str, Grant]:
        wanted = set(keys)
        found = (grant for grant in self._session.rows(GRANTS) if grant.operation is operation)
        return {grant.logical_request_key: grant for grant in found if grant.logical_request_key in wanted}

    async def get(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        return self._session.pick(GRANTS, grant_ids)

    async def lock(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        return await self._session.lock(GRANTS, sorted(set(grant_ids)))

    async def save(self, grants: Sequence[Grant]) -> None:
        for grant in grants:
            old = self._session.get(GRANTS, grant.grant_id)
            if old is None:
                raise self._session.conflict("a grant to be written is gone")
            await self._session.update(GRANTS, evolve(old, status=grant.status, updated_at=grant.updated_at))


@frozen
class MemoryReleases:
    _session: Session

    async def add(self, releases: Sequence[Release]) -> None:
        for release in releases:
            await self._session.insert_absent(RELEASES, release)

    async def pending(self, limit: int) -> Sequence[Release]:
        waiting = [release for release in self._session.rows(RELEASES) if release.done_at is None]
        taken: list[Release] = []
        for release in sorted(waiting, key=lambda r: (r.created_at, r.operation, r.logical_request_key)):
            if len(taken) < limit and self._session.try_lock(RELEASES, release):
                taken.append(release)
        return taken

    async def finish(self, keys: Collection[tuple[Operation, str]]) -> None:
        locked = await self._session.lock(RELEASES, sorted(set(keys)))
        now = self._session.now()
        for release in locked.values():
            if release.done_at is None:
                await self._session.update(RELEASES, evolve(release, done_at=now))

    async def tombstones(self, operation: Operation, keys: Collection[str]) -> Collection[str]:
        found = self._session.pick(RELEASES, [(operation, key) for key in keys])
        return {release.logical_request_key for release in found.values()}


@frozen
class MemorySlots:
    """Slots behind the lane's size are surplus: never taken, and deleted once nobody holds them."""

    _session: Session

    async def take(self, lane: Lane, limit: int) -> Sequence[Slot]:
        now = self._session.now()
        taken: list[Slot] = []
        for slot in self._slots(lane):
            free = slot.number <= self._size(lane) and _is_free(slot, now)
            if free and len(taken) < limit and self._session.try_lock(SLOTS, slot):
                taken.append(slot)
        return taken

    async def hold(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            assert slot.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.update(SLOTS, slot)

    async def held(self, lane: Lane, claims: Collection[Claim]) -> Collection[Claim]:
        return [claim for claim in claims if any(self._holds(slot, claim) for slot in self._slots(lane))]

    async def free(self, lane: Lane, claims: Collection[Claim], at: Mapping[TaskId, datetime]) -> None:
        ours = [slot for slot in self._slots(lane) if any(self._holds(slot, claim) for claim in claims)]
        locked = await self._session.lock(SLOTS, [(slot.lane, slot.number) for slot in ours])
        for slot in locked.values():
            if not any(self._holds(slot, claim) for claim in claims):
                continue
            later = at.get(slot.task_id) if slot.task_id is not None else None
            if later is not None:
                await self._session.update(SLOTS, evolve(slot, free_at=later))
            elif slot.number <= self._size(lane):
                await self._session.update(SLOTS, Slot(lane, slot.number))
            else:
                await self._session.delete(SLOTS, (lane, slot.number))

    async def resize(self, lane: Lane, size: int) -> None:
        await self._session.upsert(LANES, LaneSize(lane, size))
        for number in range(1, size + 1):
            await self._session.insert_absent(SLOTS, Slot(lane, number))
        surplus = [(lane, slot.number) for slot in self._slots(lane) if slot.number > size]
        now = self._session.now()
        for slot in (await self._session.lock(SLOTS, surplus)).values():
            if _is_free(slot, now):
                await self._session.delete(SLOTS, (lane, slot.number))

    def _slots(self, lane: Lane) -> list[Slot]:
        slots = (slot for slot in self._session.rows(SLOTS) if slot.lane is lane)
        return sorted(slots, key=lambda slot: slot.number)

    def _size(self, lane: Lane) -> int:
        row = self._session.get(LANES, lane)
        return row.size if row else 0

    def _holds(self, slot: Slot, claim: Claim) -> bool:
        """Whether the claim, of this scope, holds the slot under exactly its generation."""
        holder = (slot.scope, slot.task_id, slot.generation)
        return claim.scope == self._session.scope and holder == (claim.scope, claim.task_id, claim.generation)


def _is_free(slot: Slot, now: datetime) -> bool:
    return slot.scope is None or (slot.free_at is not None and slot.free_at <= now)
