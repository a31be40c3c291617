"""Pictures to descriptions."""

from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_domain.attempt import Replay
from imgproc_domain.context import USABLE
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import Agent, AgentAnswer, AgentCall, Lost, NotStarted


class AgentContract:
    """Needs ``agent``, and ``call``: a call of a good picture that was not made before."""

    pytestmark = pytest.mark.asyncio

    async def test_a_good_picture_is_described(self, agent: Agent, call: AgentCall) -> None:
        answer = await agent.describe(call)
        assert isinstance(answer, AgentAnswer)
        assert answer.status in USABLE

    async def test_the_agent_names_what_it_is(self, agent: Agent) -> None:
        assert agent.fingerprint
        assert agent.fingerprint == agent.fingerprint.strip()

    async def test_a_finished_attempt_is_found_again_if_the_agent_says_so(self, agent: Agent, call: AgentCall) -> None:
        described = await agent.describe(call)
        found = await agent.look_up(call)
        assert found == described if agent.replay is Replay.LOOKUP else isinstance(found, Lost)

    async def test_an_attempt_that_was_never_made_has_no_result(self, agent: Agent, call: AgentCall) -> None:
        await agent.describe(call)
        never = evolve(call, attempt_id=AttemptId("f" * 32), request_id="e" * 32, session_id="d" * 32)
        assert isinstance(await agent.look_up(never), NotStarted | Lost)

    async def test_a_call_ends_some_time(self, agent: Agent) -> None:
        assert agent.hard_deadline > timedelta(0)
