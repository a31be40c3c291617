"""The pipeline machine with workers that hand over: what a settling opens is claimed in its transaction.

Also with some of the places and slots only, by workers that end before they have begun what was claimed for them, and
under faults. The policy answers at once, as no other may be asked there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.pipeline import FAULTS, OWNER, PICK, SLOTS, Hand, PipelineMachine, chosen, settling
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_domain.policy import Decision, DenialReason, Denied, OperationRequest
from imgproc_domain.settlement import Fenced, Settled, Settling
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.handover import Handover
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.settle import settle_and_claim

PLACES: Final = st.fixed_dictionaries({TaskType.CONTEXT: st.integers(0, SLOTS), TaskType.TEXT: st.integers(0, 2)})


class AtOncePolicy(RememberingPolicy):
    """Answers at once, from the request alone and from what it was told to deny; it remembers nothing."""

    async def acquire(self, request: OperationRequest) -> Decision:
        return self.acquire_now(request)

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        return self.commit_now(request, reservation)

    def acquire_now(self, request: OperationRequest) -> Decision:
        if self.denying and request.operation in self.denies:
            return Denied(DenialReason.LIMIT_EXCEEDED, "told to deny")
        return AllowAllPolicy().acquire_now(request)

    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:
        return AllowAllPolicy().commit_now(request, reservation)


class HandoverPipelineMachine(PipelineMachine):
    """`PipelineMachine`, and calls that end with a handover, alone and two at a time."""

    def open_policy(self) -> RememberingPolicy:
        return AtOncePolicy()

    @precondition(lambda self: any(hand.running for hand in self.notes.hands))
    @rule(
        picks=st.lists(PICK, min_size=1, max_size=2),
        places=PLACES,
        room=st.integers(0, 2),
        dies=st.booleans(),
        fault=st.just(Fault.NONE) | FAULTS,
    )
    def calls_end_and_what_they_open_is_handed_over(
        self, picks: list[int], places: Mapping[TaskType, int], room: int, dies: bool, fault: Fault
    ) -> None:
        hands = [chosen([hand for hand in self.notes.hands if hand.running], pick) for pick in picks]
        ended = list({hand.execution.claim: hand for hand in hands}.values())
        for hand in ended:
            self.notes.hands.remove(hand)
        self.faulty.plan(fault)
        # one that dies has lost its leases before it begins
        deployment = self.doomed if dies else self.steady
        settled = self.attempt(self._handed_over(deployment, ended, places, room))
        self.faulty.forget()
        if settled is None:
            return
        answers, executions = settled
        for hand, answer in zip(ended, answers, strict=True):
            assert not hand.doomed or isinstance(answer, Fenced), "I4: a lost claim wrote back"
        for execution in executions:
            task_type = execution.task.task_type
            assert (execution.begun is None) == (task_type is TaskType.CONTEXT), "I7: a claim started an agent's call"
            self.notes.hands.append(Hand(execution, dies))
            self.notes.claims.append(execution.claim)
        for task_type, most in places.items():
            assert sum(e.task.task_type is task_type for e in executions) <= most, "a lane has no place for this"

    async def _handed_over(
        self, deployment: Deployment, hands: Sequence[Hand], places: Mapping[TaskType, int], room: int
    ) -> tuple[Sequence[Settled | Fenced], Sequence[Execution]]:
        items = [await self._performed(hand) for hand in hands]
        handover = Handover(OWNER, places, room, asyncio.get_running_loop().time())
        return await settle_and_claim(deployment, self.site.scope, items, handover)

    async def _performed(self, hand: Hand) -> Settling:
        return settling(hand.execution, await perform(self.steady, hand.execution))
