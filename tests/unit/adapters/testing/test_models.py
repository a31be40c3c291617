"""The scripted models are models, too."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from imgproc_adapters.testing.contracts import AgentContract, TextModelContract, VisualModelContract
from imgproc_adapters.testing.ledger import FileLedger, most_in_flight, started
from imgproc_adapters.testing.models import (
    AGENT,
    VISUAL,
    ReplyLost,
    ScriptedAgent,
    ScriptedTextModel,
    ScriptedVisualModel,
    name_answer,
    picture_vector,
)
from imgproc_adapters.testing.script import Held
from imgproc_domain.attempt import Replay
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, NotStarted
from imgproc_domain.stage import ReverseImagePolicy

FAILED = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "no picture"), transient=False)
BUSY = Declined(Diagnosis(ErrorCode.AGENT_FAILED, "busy"), transient=True, retry_after=timedelta(seconds=7))
LOST = Lost(Diagnosis(ErrorCode.AGENT_TIMEOUT, "no answer"))
CALL = AgentCall(AttemptId("a" * 32), "b" * 32, "c" * 32, Path("cat.png"), ReverseImagePolicy.FORBID)


class TestVisual(VisualModelContract):
    @pytest.fixture
    def visual_model(self, bad_picture: Path) -> ScriptedVisualModel:
        model = ScriptedVisualModel()
        dimension = model.space.dimension
        model.script.always(lambda path: FAILED if path == bad_picture else picture_vector(path, dimension))
        return model

    @pytest.fixture
    def pictures(self) -> Sequence[Path]:
        return [Path("cat.png"), Path("dog.png")]

    @pytest.fixture
    def bad_picture(self) -> Path:
        return Path("bad.png")


class TestAgent(AgentContract):
    @pytest.fixture(params=[Replay.NEVER, Replay.LOOKUP])
    def agent(self, request: pytest.FixtureRequest) -> ScriptedAgent:
        return ScriptedAgent(replay=request.param)

    @pytest.fixture
    def call(self) -> AgentCall:
        return CALL

    async def test_planned_answers_come_in_order_and_then_the_usual_one(self) -> None:
        agent = ScriptedAgent()
        agent.script.then(BUSY, LOST, FAILED)
        answers = [await agent.describe(CALL) for _ in range(4)]
        assert answers == [BUSY, LOST, FAILED, name_answer(CALL)]

    async def test_a_planned_exception_is_raised(self) -> None:
        agent = ScriptedAgent()
        agent.script.then(RuntimeError("a bug"))
        with pytest.raises(RuntimeError, match="a bug"):
            await agent.describe(CALL)

    async def test_a_held_call_is_in_flight_until_it_is_released(self) -> None:
        agent = ScriptedAgent()
        held = Held[AgentAnswer | Declined | Lost | ReplyLost](name_answer(CALL))
        agent.script.then(held)
        calling = asyncio.create_task(agent.describe(CALL))
        await held.started.wait()
        assert not calling.done()
        assert [call.phase for call in agent.ledger.calls()] == ["started"]
        held.release()
        assert await calling == name_answer(CALL)

    async def test_an_answer_whose_reply_was_lost_can_be_looked_up(self) -> None:
        agent = ScriptedAgent(replay=Replay.LOOKUP)
        agent.script.then(ReplyLost(LOST, name_answer(CALL)))
        assert await agent.look_up(CALL) == NotStarted()
        assert await agent.describe(CALL) == LOST
        assert await agent.look_up(CALL) == name_answer(CALL)
        assert started(agent.ledger, AGENT) == [CALL.attempt_id]


class TestText(TextModelContract):
    @pytest.fixture
    def text_model(self) -> ScriptedTextModel:
        return ScriptedTextModel()


class TestLedger:
    def test_a_file_is_shared_by_processes_and_counts_calls_in_flight(self, tmp_path: Path) -> None:
        ledgers = [FileLedger(tmp_path / "calls") for _ in range(2)]
        assert ledgers[0].calls() == []
        ledgers[0].note(VISUAL, "cat.png", "started")
        ledgers[1].note(VISUAL, "dog.png", "started")
        ledgers[0].note(VISUAL, "cat.png", "ended")
        ledgers[0].note(VISUAL, "cow.png", "started")
        assert started(ledgers[1], VISUAL) == ["cat.png", "dog.png", "cow.png"]
        assert most_in_flight(ledgers[0], VISUAL) == 2
        assert most_in_flight(ledgers[0], AGENT) == 0

    async def test_every_picture_is_noted(self) -> None:
        model = ScriptedVisualModel()
        await model.embed([Path("cat.png"), Path("dog.png")])
        assert started(model.ledger, VISUAL) == ["cat.png", "dog.png"]
        assert most_in_flight(model.ledger, VISUAL) == 1

    async def test_calls_of_different_attempts_are_told_apart(self) -> None:
        agent = ScriptedAgent()
        other = evolve(CALL, attempt_id=AttemptId("f" * 32))
        await asyncio.gather(agent.describe(CALL), agent.describe(other))
        assert started(agent.ledger, AGENT) == [CALL.attempt_id, other.attempt_id]
