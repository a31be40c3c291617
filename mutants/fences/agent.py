"""The agent protocol's use cases up to the call: claim, start, perform."""

from typing import Final

from mutants.kinds import Mutant

_CLAIM: Final = "src/imgproc_domain/usecases/claim.py"
_START: Final = "src/imgproc_domain/usecases/start.py"
_PERFORM: Final = "src/imgproc_domain/usecases/perform.py"

_USECASES: Final = (
    "tests/unit/usecases/test_fences.py",
    "tests/unit/usecases/test_interleavings.py",
    "tests/unit/usecases/test_look_up.py",
    "tests/unit/usecases/test_protocol.py",
    "tests/unit/usecases/test_jobs.py",
)
_SUCCESSION: Final = ("tests/unit/adapters/memory/test_contracts.py::TestSuccession",)

MUTANTS: Final = (
    Mutant(
        name="CLAIM_WITHOUT_SLOT",
        breaks="I18",
        wrong="more agent tasks are claimed than there are slots",
        file=_CLAIM,
        before="        limit = len(slots)\n",
        after="",
        tests=_USECASES,
    ),
    Mutant(
        name="SLOT_NOT_HELD",
        breaks="I18",
        wrong="the slot of a claim stays free for others",
        file=_CLAIM,
        before="    if slots:\n        await tx.slots.hold(",
        after="    if slots and not tasks:\n        await tx.slots.hold(",
        tests=_USECASES,
    ),
    Mutant(
        name="BINDING_UNCHECKED",
        breaks="I6",
        wrong="nobody looks whether a claim got the attempt that it goes on with",
        file=_CLAIM,
        before="    if len(written) != len(changed):\n",
        after="    if len(written) > len(changed):\n",
        tests=_USECASES,
    ),
    Mutant(
        name="ATTEMPT_KEEPS_ITS_CLAIM",
        breaks="I4",
        wrong="an attempt that is continued still belongs to the claim that was lost",
        file=_CLAIM,
        before="            attempt = evolve(kept, generation=task.lease.generation)\n",
        after="            attempt = kept\n",
        tests=_USECASES,
    ),
    Mutant(
        name="REPEATED_ATTEMPT_STAYS_OPEN",
        breaks="I6",
        wrong="a second attempt begins while the lost one counts as running",
        file=_CLAIM,
        before="            changed.append((lost.status, attempts.fail(lost, reason, read.now)))\n",
        after="            changed.append((lost.status, lost if reason else lost))\n",
        tests=_USECASES,
    ),
    Mutant(
        name="GIVEN_UP_AND_CALLED",
        breaks="I9",
        wrong="a task whose call may have been made is run again",
        file=_CLAIM,
        before="    if isinstance(decision, GiveUp):\n        message",
        after="    if isinstance(decision, GiveUp) and meme is None:\n        message",
        tests=_USECASES,
    ),
    Mutant(
        name="LOST_CALL_KEEPS_TWO_SLOTS",
        breaks="I18",
        wrong="one lost call keeps the slot of its own claim and that of the next",
        file=_CLAIM,
        before="return Unknown(Diagnosis(ErrorCode.UNKNOWN_EXECUTION, message), in_flight=False)",
        after="return Unknown(Diagnosis(ErrorCode.UNKNOWN_EXECUTION, message))",
        tests=_USECASES,
    ),
    Mutant(
        name="ANOTHER_AGENT_ASKED",
        breaks="I9",
        wrong="one agent says what became of the lost call of another",
        file=_CLAIM,
        before="        return deployment.replay(task.task_type) if ours else Replay.NEVER\n",
        after="        return deployment.replay(task.task_type) if ours or attempt else Replay.NEVER\n",
        tests=_SUCCESSION,
    ),
    Mutant(
        name="CALLED_FOR_NOTHING",
        breaks="I11",
        wrong="a call is made for a picture or a job that is gone",
        file=_CLAIM,
        before="    if _is_over(task, meme, owners):\n",
        after="    if meme is None:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="CALLED_FOR_A_CLOSED_JOB",
        breaks="I10",
        wrong="a call is made for a job that is over",
        file=_CLAIM,
        before="    return not same or target.job_id not in owners\n",
        after="    return not same or not target.job_id\n",
        tests=_USECASES,
    ),
    Mutant(
        name="CALLED_UNDER_ANOTHER_CONFIGURATION",
        breaks="I13",
        wrong="a task of a former configuration is run with the present models",
        file=_CLAIM,
        before="    if task.target.config_fingerprint != deployment.config.fingerprint:\n",
        after="    if not task.target.config_fingerprint:\n",
        tests=_SUCCESSION,
    ),
    Mutant(
        name="CALLED_BESIDE_A_PERSON",
        breaks="I6",
        wrong="an agent is called for a picture that a person described",
        file=_CLAIM,
        before="    if task.task_type is TaskType.CONTEXT and is_described_by_person(context, task.target.image_sha256):\n",
        after="    if context is not None and context.revision < 0:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="SUPERSEDED_CLAIMS",
        breaks="I13",
        wrong="a deployment that is not in force any more claims tasks",
        file=_CLAIM,
        before="    if superseded:\n        raise _Superseded\n",
        after="",
        tests=_SUCCESSION,
    ),
    Mutant(
        name="POLICY_ANSWER_IGNORED",
        breaks="I7",
        wrong="the policy's answer to commit is not looked at",
        file=_START,
        before="    return [answer if isinstance(answer, Denied) else None for answer in answers]\n",
        after="    return [None for _ in answers]\n",
        tests=_USECASES,
    ),
    Mutant(
        name="POLICY_NOT_ASKED",
        breaks="I7",
        wrong="a call is made that the policy did not commit",
        file=_START,
        before="    answers = await _commit(deployment, waiting)\n",
        after="    answers = [None for _ in waiting]\n",
        tests=_USECASES,
    ),
    Mutant(
        name="STARTED_BEFORE_COMMIT",
        breaks="I7",
        wrong="external_started is persisted before the grant is committed",
        file=_START,
        before=(
            "        going, blocked = await _commit_grants(deployment, scope, going)\n"
            "        decided.extend(blocked)\n"
            "    running = await _start_external(deployment, scope, going) if going else []\n"
        ),
        after=(
            "        going = await _start_external(deployment, scope, going)\n"
            "        going, blocked = await _commit_grants(deployment, scope, going)\n"
            "        return Started((*going, *adopted), (*decided, *blocked))\n"
            "    running = await _start_external(deployment, scope, going) if going else []\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="GRANT_COMMIT_UNWRITTEN",
        breaks="I7",
        wrong="the grant stays acquired although its call is made",
        file=_START,
        before="        if moved:\n            await tx.grants.save(moved)\n",
        after="",
        tests=_USECASES,
    ),
    Mutant(
        name="CALLED_WITHOUT_STARTED",
        breaks="I7",
        wrong="a call is made before external_started is persisted",
        file=_START,
        before="    running = await _start_external(deployment, scope, going) if going else []\n",
        after="    running = list(going)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="START_UNCHECKED",
        breaks="I6",
        wrong="nobody looks whether the attempt was started by this very claim",
        file=_START,
        before="    if len(written) != len(pairs):\n",
        after="    if len(written) > len(pairs):\n",
        tests=_USECASES,
    ),
    Mutant(
        name="START_UNFENCED",
        breaks="I4",
        wrong="a call is started though the claim is gone",
        file=_START,
        before="        fence = why_fenced(locked.get(execution.task.task_id), execution.claim, now)\n",
        after=(
            "        fence = why_fenced(locked.get(execution.task.task_id), execution.claim, now)\n"
            "        fence = None if fence else fence\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="START_WITHOUT_SLOT",
        breaks="I18",
        wrong="a call is started though its slot is gone",
        file=_START,
        before="        if fence is None and execution.task.lane is Lane.AGENT and execution.claim not in slotted:\n",
        after="        if fence is None and execution.task.lane is Lane.AGENT and slotted is None:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="START_TIMED_BEFORE_ITS_LOCK",
        breaks="I4",
        wrong="a start that waited for its lock compares with a time before the wait",
        file=_START,
        before=(
            "    locked, held, now = await tx.together(\n"
            "        tx.claims.lock([e.claim for e in executions]), tx.slots.held(Lane.AGENT, in_lane), tx.now()\n"
            "    )\n"
        ),
        after=(
            "    now, locked, held = await tx.together(\n"
            "        tx.now(), tx.claims.lock([e.claim for e in executions]), tx.slots.held(Lane.AGENT, in_lane)\n"
            "    )\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="NO_HARD_DEADLINE",
        breaks="I18",
        wrong="the hard deadline of a call is the moment of its start",
        file=_START,
        before="now, now + deployment.hard_deadline(e.task.task_type))",
        after="now, now + 0 * deployment.hard_deadline(e.task.task_type))",
        tests=_USECASES,
    ),
    Mutant(
        name="CALLED_AFTER_STANDING_STILL",
        breaks="I6",
        wrong="a worker that stood still for longer than its lease makes its call",
        file=_PERFORM,
        before="    most = min(deployment.limits.lease, deployment.hard_deadline(execution.task.task_type)).total_seconds()\n",
        after="    most = deployment.hard_deadline(execution.task.task_type).total_seconds()\n",
        tests=_USECASES,
    ),
    Mutant(
        name="CALLED_AFTER_THE_DEADLINE",
        breaks="I18",
        wrong="a worker that stood still past the hard deadline makes its call as long as its lease lasts",
        file=_PERFORM,
        before="    most = min(deployment.limits.lease, deployment.hard_deadline(execution.task.task_type)).total_seconds()\n",
        after="    most = deployment.limits.lease.total_seconds()\n",
        tests=_USECASES,
    ),
    Mutant(
        name="ADOPTED_FOR_ANOTHER_PICTURE",
        breaks="I5",
        wrong="an answer that is looked up counts as one about the picture that the meme has by now",
        file=_PERFORM,
        before="    product = ContextProduct(target.meme_id, target.image_sha256,",
        after="    product = ContextProduct(target.meme_id, execution.meme.picture.sha256,",
        tests=_USECASES,
    ),
    Mutant(
        name="DEADLINE_FROM_THE_CALL",
        breaks="I18",
        wrong="a call that began late may outlast the hard deadline that was persisted",
        file=_PERFORM,
        before="asyncio.timeout_at(begun_at(execution, now) + deadline.total_seconds()):",
        after="asyncio.timeout_at(now + deadline.total_seconds()):",
        tests=_USECASES,
    ),
    Mutant(
        name="UNPROVEN_RETRIED",
        breaks="I9",
        wrong="a call whose end nobody saw is made again",
        file=_PERFORM,
        before="    return Retry(diagnosis) if replay is Replay.SAFE else Unknown(diagnosis)\n",
        after="    return Retry(diagnosis) if replay in Replay else Unknown(diagnosis)\n",
        tests=("tests/unit/adapters/memory/test_worker.py", *_USECASES),
    ),
    Mutant(
        name="NOT_STARTED_BELIEVED_EARLY",
        breaks="I6",
        wrong="`not started` is believed while a stopped worker may still make the call",
        file=_PERFORM,
        before="        case NotStarted() if execution.maybe_running_until is not None:\n",
        after="        case NotStarted() if execution.maybe_running_until is not None and execution.meme is None:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="LOST_LOOKUP_DECIDES",
        breaks="I9",
        wrong="a look-up that proves nothing decides while the call may still be running",
        file=_PERFORM,
        before="    if execution.maybe_running_until is not None:\n        return Postponed(diagnosis, execution.maybe_running_until)\n",
        after="",
        tests=_USECASES,
    ),
    Mutant(
        name="LOOKED_UP_BY_CALLING",
        breaks="I6",
        wrong="recovery makes the call again instead of asking for its result",
        file=_PERFORM,
        before="await (agent.look_up(call) if execution.look_up else agent.describe(call))",
        after="await agent.describe(call)",
        tests=_USECASES,
    ),
    Mutant(
        name="UNUSABLE_ANSWER_TAKEN",
        breaks="I14",
        wrong="words that cannot be used are stored as an agent's answer",
        file=_PERFORM,
        before="    if answer.status not in USABLE:\n",
        after="    if not answer.status:\n",
        tests=_USECASES,
    ),
)
