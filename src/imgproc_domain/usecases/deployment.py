"""Everything a use case needs, handed over as one value."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

from attrs import Factory, frozen

from imgproc_domain.attempt import Replay
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.errors import Conflict
from imgproc_domain.lane import LaneLimits
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.blobs import BlobStore
from imgproc_domain.ports.ids import Ids
from imgproc_domain.ports.models import Agent, Decoder, TextModel, VisualModel
from imgproc_domain.ports.observer import Observer
from imgproc_domain.ports.policy import ImmediatePolicy, OperationPolicy
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.similar import NEAR_SCORE
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.asking import Questions
from imgproc_domain.usecases.points import Passed, onwards

T = TypeVar("T")

_TRIES = 5


@frozen
class Limits:
    """Bounds of a deployment. Times are durations; sizes are bytes."""

    lease: timedelta = timedelta(seconds=30)
    job_lease: timedelta = timedelta(seconds=30)
    configuration_lease: timedelta = timedelta(minutes=1)
    look_again: timedelta = timedelta(seconds=1)
    look_again_at_most: timedelta = timedelta(minutes=1)
    upload_bytes: int = 40 * 1024 * 1024
    lanes: LaneLimits = Factory(LaneLimits)
    retry: RetryPolicy = Factory(RetryPolicy)
    near_score: float = NEAR_SCORE
    """The score from which on the visual model's vectors are those of near duplicates."""
    answer_within: timedelta = timedelta(seconds=30)
    """How long a question may wait for a model."""
    near_within: timedelta = timedelta(seconds=2)
    """How long the answer to an upload may wait for near duplicates; zero looks for none."""

    def next_look(self, waiting_since: datetime, now: datetime) -> datetime:
        """Return when a job that waits for others is looked at again: the longer it waits, the less often."""
        waited = now - waiting_since
        return now + min(max(waited, self.look_again), self.look_again_at_most)


@frozen
class Deployment:
    """The ports and settings one process works with."""

    uow: UnitOfWork
    blobs: BlobStore
    decoder: Decoder
    visual: VisualModel
    agent: Agent
    text: TextModel
    policy: OperationPolicy
    ids: Ids
    observer: Observer
    limits: Limits = Factory(Limits)
    passed: Passed = onwards
    more_text: Sequence[TextModel] = ()
    """Further text models, so that a scope can be searched in one space while another one is filled."""
    questions: Questions = Factory(Questions)
    """The calls of models that people wait for; whoever made the deployment closes them."""

    @cached_property
    def config(self) -> ProcessingConfig:
        """What this process executes with; what it decides with may be another one: see `decides_with`."""
        return ProcessingConfig(self.visual.space, self.agent.fingerprint, self.text.space)

    def serving(self, state: SearchState) -> VectorSpace:
        """Return the space that incremental searches of a scope read: the one this process embeds with, if none yet."""
        return state.serving or self.text.space

    def text_model(self, space: VectorSpace | None) -> TextModel | None:
        """Return the model of a space, if this process has it; without a space, the one it embeds with."""
        return next((model for model in (self.text, *self.more_text) if space in (None, model.space)), None)

    async def decides_with(self, tx: Transaction) -> ProcessingConfig:
        """Return the configuration in force: new jobs are opened under it, and it says what is stale."""
        return await tx.configuration.current() or self.config

    async def is_superseded(self, tx: Transaction) -> bool:
        """Whether another configuration than this process's own is in force, so that it must execute nothing."""
        return (await self.decides_with(tx)).fingerprint != self.config.fingerprint

    @cached_property
    def immediate(self) -> ImmediatePolicy | None:
        """The policy, if its answers may be taken where a transaction decides."""
        policy = self.policy
        return policy if isinstance(policy, ImmediatePolicy) and _answers_alike(type(policy)) else None

    def replay(self, task_type: TaskType) -> Replay:
        """What recovery may assume about a lost call of this type; maintenance tasks only write rows."""
        match task_type:
            case TaskType.VISUAL:
                return self.visual.replay
            case TaskType.CONTEXT:
                return self.agent.replay
            case TaskType.TEXT:
                return self.text.replay
            case TaskType.CACHE:
                return Replay.SAFE

    def batch(self, task_type: TaskType) -> int:
        """How many executions of this type one call of the model takes; only calls that may be repeated are shared."""
        if self.replay(task_type) is not Replay.SAFE:
            return 1
        match task_type:
            case TaskType.VISUAL:
                return max(1, self.visual.batch)
            case TaskType.TEXT:
                return max(1, self.text.batch)
            case TaskType.CONTEXT | TaskType.CACHE:
                return 1

    def hard_deadline(self, task_type: TaskType) -> timedelta:
        """How long a call of this type may be in flight."""
        match task_type:
            case TaskType.VISUAL:
                return self.visual.hard_deadline
            case TaskType.CONTEXT:
                return self.agent.hard_deadline
            case TaskType.TEXT:
                return self.text.hard_deadline
            case TaskType.CACHE:
                return timedelta(hours=1)


def _answers_alike(policy: type) -> bool:
    """Whether no subclass changed what is asked and left what answers at once: that would not be its own answer."""

    def depth(name: str) -> int:
        # what no class defines is answered by somebody else, on another's behalf
        return next((i for i, cls in enumerate(policy.__mro__) if name in vars(cls)), len(policy.__mro__))

    return depth("acquire_now") <= depth("acquire") and depth("commit_now") <= depth("commit")


async def decided_again(work: Callable[[], Awaitable[T]]) -> T:
    """Run a transaction; when somebody else was first, read and decide again, a bounded number of times."""
    for _ in range(_TRIES - 1):
        try:
            return await work()
        except Conflict:
            continue
    return await work()
