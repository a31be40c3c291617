"""What is claimed in the transaction that opens it, and what a claim may start."""

from typing import Final

from mutants.kinds import Mutant

_HANDOVER: Final = "src/imgproc_domain/usecases/handover.py"
_CLAIM: Final = "src/imgproc_domain/usecases/claim.py"
_ADVANCE: Final = "src/imgproc_domain/usecases/advance.py"
_SETTLE: Final = "src/imgproc_domain/usecases/settle.py"
_PERMISSION: Final = "src/imgproc_domain/usecases/permission.py"
_LANE: Final = "src/imgproc_app/worker/lane.py"
_WORKER: Final = "src/imgproc_app/worker/worker.py"

_CONTRACT: Final = ("tests/unit/adapters/memory/test_contracts.py::TestHandover",)
_FENCES: Final = ("tests/unit/usecases/test_fences.py",)
_WORKER_TESTS: Final = ("tests/unit/worker/test_handover.py", "tests/unit/worker/test_who_goes_first.py")

MUTANTS: Final = (
    Mutant(
        name="HANDED_OVER_SUPERSEDED",
        breaks="I13",
        wrong="a deployment that is not in force any more claims what it opens",
        file=_HANDOVER,
        before="    if not plan.tasks or await deployment.is_superseded(tx):\n",
        after="    if not plan.tasks:\n",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_WITHOUT_SLOT",
        breaks="I18",
        wrong="an agent task is claimed with the transaction that opens it although no slot is free",
        file=_HANDOVER,
        before=(
            "        if task.lane is Lane.AGENT and len(holding) == len(slots):\n"
            "            continue\n"
            "        taken[task.task_id] = tasks.claim(task, handover.owner, now, deployment.limits.lease)\n"
            "        if task.lane is Lane.AGENT:\n"
        ),
        after=(
            "        taken[task.task_id] = tasks.claim(task, handover.owner, now, deployment.limits.lease)\n"
            "        if task.lane is Lane.AGENT and len(holding) < len(slots):\n"
        ),
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_SLOT_NOT_HELD",
        breaks="I18",
        wrong="the slot of a task that was handed over stays free for others",
        file=_HANDOVER,
        before="    if holding:\n        await tx.slots.hold(holding)\n",
        after="",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_WITHOUT_PLACE",
        breaks="I18",
        wrong="more is claimed with the transaction that opens it than the worker has places for",
        file=_HANDOVER,
        before="            left[task.task_type] -= 1\n",
        after="",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_UNASKED",
        breaks="I7",
        wrong="the grant of a task that was handed over is committed although the policy did not say so",
        file=_HANDOVER,
        before="        if grant_id is not None and isinstance(commit_now(policy, *asked(execution)), Granted):\n",
        after="        if grant_id is not None and isinstance(commit_now(policy, *asked(execution)), object):\n",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_GRANT_UNWRITTEN",
        breaks="I7",
        wrong="an attempt says that its grant is committed, and the grant does not",
        file=_HANDOVER,
        before="    plan.grants = [grants.commit(grant, now) if grant.grant_id in spent else grant for grant in plan.grants]\n",
        after="",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_UNREAD",
        breaks="I5",
        wrong="a text is claimed whose words the transaction has not read",
        file=_HANDOVER,
        before="        readable = task.task_type is not TaskType.TEXT or (",
        after="        readable = task.task_type in TaskType or (",
        tests=_CONTRACT,
    ),
    Mutant(
        name="HANDED_OVER_WITHOUT_ATTEMPT",
        breaks="I6",
        wrong="a task that was handed over has no attempt",
        file=_SETTLE,
        before="    plan.attempts.extend(map(attempt_of, batch.executions))\n",
        after="",
        tests=_CONTRACT,
    ),
    Mutant(
        name="AGENT_STARTED_BY_ITS_CLAIM",
        breaks="I7",
        wrong="the claim of an agent task says that its call may have been made, before the grant is committed",
        file=_CLAIM,
        before="    local = task.task_type is not TaskType.CONTEXT and deployment",
        after="    local = deployment",
        tests=_FENCES,
    ),
    Mutant(
        name="UNREPEATABLE_STARTED_BY_ITS_CLAIM",
        breaks="I9",
        wrong="a claim starts a call that could not be repeated if the claim were lost",
        file=_CLAIM,
        before="deployment.replay(task.task_type) is Replay.SAFE\n    if not local",
        after="deployment.replay(task.task_type) in Replay\n    if not local",
        tests=_FENCES,
    ),
    Mutant(
        name="STARTED_BY_ITS_CLAIM_FOR_NOTHING",
        breaks="I11",
        wrong="a claim starts the call of a task that it has decided without one",
        file=_CLAIM,
        before="    if not local or execution.outcome is not None:\n",
        after="    if not local:\n",
        tests=_FENCES,
    ),
    Mutant(
        name="STARTED_BY_ITS_CLAIM_WITHOUT_BEGINNING",
        breaks="I18",
        wrong="the time that a worker stood still behind its claim does not count against its deadline",
        file=_CLAIM,
        before="    return evolve(execution, attempt=started, begun=begun)\n",
        after="    return evolve(execution, attempt=started, begun=begun + 86_400.0)\n",
        tests=_CONTRACT,
    ),
    Mutant(
        name="ROOM_IGNORED",
        breaks="I12",
        wrong="a settling opens agent tasks above the backpressure limit",
        file=_ADVANCE,
        before="    if permit is None and plan.room > 0 and deployment",
        after="    if permit is None and deployment",
        tests=_CONTRACT,
    ),
    Mutant(
        name="ROOM_NEVER_USED_UP",
        breaks="I12",
        wrong="a batch opens more agent tasks than backpressure leaves room for",
        file=_ADVANCE,
        before="        plan.room -= 1\n",
        after="",
        tests=_CONTRACT,
    ),
    Mutant(
        name="BACKPRESSURE_UNSEEN",
        breaks="I12",
        wrong="a worker does not look how many agent tasks are queued before it opens others",
        file=_WORKER,
        before="        return most - await self._dispatch.queued(TaskType.CONTEXT, most)\n",
        after="        return most - 0 * await self._dispatch.queued(TaskType.CONTEXT, most)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="BROKEN_IMMEDIATE_POLICY_CONSENTS",
        breaks="I7",
        wrong="a policy that raises when asked at once counts as one that grants",
        file=_PERMISSION,
        before=(
            "        return _parsed(policy.acquire_now(request))\n"
            "    except Exception as error:\n"
            '        log.exception("the operation policy failed to acquire")\n'
            "        return _unavailable(error)\n"
        ),
        after=(
            "        return _parsed(policy.acquire_now(request))\n"
            "    except Exception as error:\n"
            '        log.exception("the operation policy failed to acquire")\n'
            "        return Granted(str(error))\n"
        ),
        tests=_CONTRACT,
    ),
    Mutant(
        name="PLACES_OF_OTHERS",
        breaks="I12",
        wrong="what a worker opens takes places that other scopes wait for",
        file=_LANE,
        before="        if asyncio.get_running_loop().time() >= self._nobody_waits_until:\n            return 0\n",
        after="",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="SLOTS_OF_OTHERS",
        breaks="I12",
        wrong="an agent lane that got fewer slots than places takes it that nobody waits for the next one",
        file=_CLAIM,
        before=(
            "        limit = len(slots)\n"
            "    tasks = await tx.claims.claim(task_type, limit, owner, deployment.limits.lease) if limit else ()\n"
            "    none_left = len(tasks) < limit\n"
        ),
        after=(
            "        wanted, limit = limit, len(slots)\n"
            "    else:\n"
            "        wanted = limit\n"
            "    tasks = await tx.claims.claim(task_type, limit, owner, deployment.limits.lease) if limit else ()\n"
            "    none_left = len(tasks) < wanted\n"
        ),
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="PLACES_TAKEN_TWICE",
        breaks="I18",
        wrong="a lane claims for places that were taken during its scan",
        file=_LANE,
        before="            places = max(min(share, self._limit - self.busy), 0)\n",
        after="            places = share\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="CLAIM_UNDER_WAY_HAS_NO_PLACES",
        breaks="I18",
        wrong="places that are being claimed for are kept for others as well",
        file=_LANE,
        before=(
            "        self._kept += places\n"
            "        try:\n"
            "            claimed = await claim_and_look(\n"
            "                self._deployment, scope, self.task_type, places, self._owner, ask_first=self._superseded\n"
            "            )\n"
            "        finally:\n"
            "            self._kept -= places\n"
        ),
        after=(
            "        claimed = await claim_and_look(self._deployment, scope, self.task_type, places, self._owner)\n"
        ),
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="ADOPTED_WITHOUT_HEARTBEAT",
        breaks="I4",
        wrong="nobody renews the lease of what was adopted",
        file=_LANE,
        before="        self._heartbeat.hold(claims)\n        self._adopted.extend(",
        after="        self._adopted.extend(",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="ADOPTED_AND_FORGOTTEN",
        breaks="I6",
        wrong="a lane that ends holds what it adopted and never started",
        file=_LANE,
        before="        self.decline_adopted()\n        running = {",
        after="        running = {",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="STOPPED_WORKER_ADOPTS",
        breaks="I6",
        wrong="a worker that is being stopped begins what is handed to it",
        file=_WORKER,
        before="            (lane.adopt if self._works else lane.decline)(adopted)\n",
        after="            lane.adopt(adopted)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="STOPPED_WORKER_OFFERS",
        breaks="I6",
        wrong="a worker that is being stopped keeps places for what it opens",
        file=_WORKER,
        before=" for t, n in wanted.items() if n > 0} if self._works else {}\n",
        after=" for t, n in wanted.items() if n > 0}\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="SUPERSEDED_WORKER_HOLDS",
        breaks="I18",
        wrong="a superseded worker holds slot and lease of what it adopted and will not start",
        file=_WORKER,
        before="            for lane in self._lanes.values():\n                lane.decline_adopted()\n",
        after="",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="OFFER_NEVER_TAKEN_BACK",
        breaks="I12",
        wrong="places that were kept for what a batch opens stay kept",
        file=_WORKER,
        before="if self._lanes[task_type].give_back(kept)]\n",
        after="if self._lanes[task_type].give_back(0 * kept)]\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="RING_FORGOTTEN_WHILE_KEPT",
        breaks="I12",
        wrong="a lane that was rung while its places were kept sleeps until the next poll",
        file=_LANE,
        before="            self._refused = True\n            return False\n",
        after="            return False\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="RING_IGNORED",
        breaks="I12",
        wrong="what a worker opens goes before those who rang, if its lane was full or has not looked yet",
        file=_LANE,
        before="        self._rings += 1\n        self._nobody_waits_until = _NEVER\n",
        after="        self._rings += 1\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="RING_DURING_THE_LOOK_IGNORED",
        breaks="I12",
        wrong="a look is believed although somebody rang while it was taken",
        file=_LANE,
        before="        seen = nobody_waits and rings == self._rings\n",
        after="        seen = nobody_waits and rings <= self._rings\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="RING_UNHEARD",
        breaks="I12",
        wrong="a worker wakes the lanes it hears of, and does not tell them that somebody waits",
        file=_WORKER,
        before="                    lane.ring()\n",
        after='                    log.debug("%s: rung", task_type)\n',
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="LOOK_BELIEVED_FOR_EVER",
        breaks="I12",
        wrong="a task that comes due, which rings nobody, waits as long as there is something to hand over",
        file=_LANE,
        before="asked + self._look_again if seen else _NEVER\n",
        after="-_NEVER if seen else _NEVER\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="SCOPES_LEFT_UNSEEN",
        breaks="I12",
        wrong="a lane that found as many scopes as it has places takes it that there is no other",
        file=_LANE,
        before="        claimed, nobody_waits = 0, len(scopes) < wanted\n",
        after="        claimed, nobody_waits = 0, len(scopes) <= wanted\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="TASKS_LEFT_UNSEEN",
        breaks="I12",
        wrong="a lane that got as many tasks as it has places takes it that there is no other",
        file=_LANE,
        before="            nobody_waits = nobody_waits and none_left\n",
        after="            nobody_waits = nobody_waits and none_left in (True, False)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="ENDING_COUNTED_TWICE",
        breaks="I18",
        wrong="two tasks are claimed for the place of each execution that ends",
        file=_LANE,
        before="        ours = sum(claim in self._running for claim in ending)\n",
        after="        ours = 2 * sum(claim in self._running for claim in ending)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="ENDING_ELSEWHERE",
        breaks="I18",
        wrong="a lane counts the places of executions that end in others",
        file=_LANE,
        before="        ours = sum(claim in self._running for claim in ending)\n",
        after="        ours = len(ending)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="MORE_KEPT_THAN_OPENED",
        breaks="I12",
        wrong="a batch keeps places for more than it opens, and another finds none",
        file=_LANE,
        before="        kept = min(wanted, max(self._limit - self.busy + ours, 0))\n",
        after="        kept = min(wanted * self._limit, max(self._limit - self.busy + ours, 0))\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="PLACES_FOR_WHAT_BACKPRESSURE_HOLDS_UP",
        breaks="I12",
        wrong="places of the agent lane are kept for what may not be opened",
        file=_WORKER,
        before="{t: min(opened[t], room) if t is TaskType.CONTEXT else opened[t] for t in self._lanes}",
        after="{t: opened[t] for t in self._lanes}",
        tests=_WORKER_TESTS,
    ),
)
