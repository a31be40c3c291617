"""The workers that run it all: lanes, the settler, the sweep."""

from typing import Final

from mutants.kinds import Mutant

_LANE: Final = "src/imgproc_app/worker/lane.py"
_SETTLER: Final = "src/imgproc_app/worker/settler.py"
_WORKER: Final = "src/imgproc_app/worker/worker.py"
_LOOPS: Final = "src/imgproc_app/worker/loops.py"
_WORKER_TESTS: Final = ("tests/unit/worker/test_worker_fences.py", "tests/unit/worker/test_worker_survives.py")

MUTANTS: Final = (
    Mutant(
        name="LOST_CLAIM_RUNS_ON",
        breaks="I6",
        wrong="a worker that lost its lease lets its execution run on",
        file=_LANE,
        before="                running.cancel()\n",
        after='                log.debug("%s runs on", claim)\n',
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="STOPPED_CALL_GIVEN_BACK",
        breaks="I6",
        wrong="an external call that was cut off is given back to be made again",
        file=_LANE,
        before="        safe = self._deployment.replay(self.task_type) is Replay.SAFE\n",
        after="        safe = self._deployment.replay(self.task_type) in Replay\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="LANE_WITHOUT_LIMIT",
        breaks="I18",
        wrong="a lane claims as if nothing were running in it",
        file=_LANE,
        before="        return len(self._running) + self._kept\n",
        after="        return self._kept\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="SAME_SCOPE_FIRST",
        breaks="I12",
        wrong="the scopes that were served last are served first again",
        file=_LANE,
        before="                # a scope that got nothing, for want of a slot, keeps its turn\n                self._last_scope = scope\n",
        after="                self._last_scope = None\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="SCOPES_MIXED",
        breaks="I17",
        wrong="an outcome is settled in the scope of whatever came before it",
        file=_SETTLER,
        before="        self._waiting[item.claim.scope].append(item)\n",
        after="        self._waiting[next(iter(self._waiting), item.claim.scope)].append(item)\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="BATCH_OF_OUTCOMES_FAILS_TOGETHER",
        breaks="I12",
        wrong="an outcome that cannot be settled takes its batch with it",
        file=_SETTLER,
        before="                await self._apart(scope, items)\n",
        after="                await self._apart(scope, items[:0])\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="BROKEN_SCOPE_STOPS_ALL",
        breaks="I12",
        wrong="a scope that fails keeps the others from their turn",
        file=_LOOPS,
        before='        except Exception:\n            log.exception("scope %s: a step failed", scope)\n',
        after='        except Exception:\n            log.exception("scope %s: a step failed", scope)\n            break\n',
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="MAINTENANCE_WORKER_TAKES_PICTURES",
        breaks="I6",
        wrong="the worker for maintenance runs image tasks too",
        file=_WORKER,
        before="        if foreign:\n",
        after="        if foreign and not performers:\n",
        tests=_WORKER_TESTS,
    ),
    Mutant(
        name="EVERYBODY_EXPIRES_EVERYTHING",
        breaks="I6",
        wrong="a worker takes leases of types away that it does not run",
        file=_WORKER,
        before="expire_leases(self._deployment, scope, self._types, self._pace.batch)",
        after="expire_leases(self._deployment, scope, frozenset(TaskType), self._pace.batch)",
        tests=_WORKER_TESTS,
    ),
)
