"""What moves jobs along: reconcile, submit, and what people do."""

from typing import Final

from mutants.kinds import Edit, Mutant, Wall

_ADVANCE: Final = "src/imgproc_domain/usecases/advance.py"
_RECONCILE: Final = "src/imgproc_domain/usecases/reconcile.py"
_SUBMIT: Final = "src/imgproc_domain/usecases/submit.py"
_EDIT: Final = "src/imgproc_domain/usecases/edit.py"
_INGEST: Final = "src/imgproc_domain/usecases/ingest.py"
_UNKNOWN: Final = "src/imgproc_domain/usecases/unknown.py"
_RETRY: Final = "src/imgproc_domain/usecases/retry.py"
_MAINTENANCE: Final = "src/imgproc_domain/usecases/maintenance.py"
_PERMISSION: Final = "src/imgproc_domain/usecases/permission.py"
_PERMITTED: Final = "src/imgproc_domain/usecases/permitted.py"
_DEPLOYMENT: Final = "src/imgproc_domain/usecases/deployment.py"

_USECASES: Final = (
    "tests/unit/usecases/test_fences.py",
    "tests/unit/usecases/test_interleavings.py",
    "tests/unit/usecases/test_look_up.py",
    "tests/unit/usecases/test_jobs.py",
    "tests/unit/usecases/test_people.py",
)
_JOBS: Final = "tests/unit/usecases/test_jobs.py"
_UNKNOWN_TESTS: Final = ("tests/unit/usecases/test_unknown.py",)
_PERMITTED_TESTS: Final = ("tests/unit/domain/usecases/test_permitted.py",)

MUTANTS: Final = (
    Mutant(
        name="FORFEIT_WITHOUT_RELEASE",
        breaks="I8",
        wrong="a job that ends unopened does not give back what it may have reserved",
        file=_ADVANCE,
        before="        if _forfeits(before, after):\n",
        after="        if _forfeits(before, after) and not after.stages:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="WRITTEN_JOB_STAYS_HELD",
        breaks="I4",
        wrong="a reconciler's claim outlives what it decided",
        file=_ADVANCE,
        before="        self.jobs[after.job_id] = after if after.lease.owner is None else evolve(after, lease=drop(after.lease))\n",
        after="        self.jobs[after.job_id] = after\n",
        tests=_USECASES,
    ),
    Mutant(
        name="KEY_PER_ASK",
        breaks="I8",
        wrong="every ask for one agent task is another request to the policy",
        file=_ADVANCE,
        before='    key = f"{made_for.job_id}:{Stage.AGENT}"\n',
        after='    key = f"{made_for.job_id}:{Stage.AGENT}:{type(made_for).__name__}"\n',
        tests=_USECASES,
    ),
    Mutant(
        name="TASK_WITHOUT_GRANT",
        breaks="I7",
        wrong="an agent task is made before the policy was asked",
        file=_ADVANCE,
        before="    if stage is not Stage.AGENT:\n",
        after="    if stage is not Stage.AGENT or permit is None:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="OTHER_TASKS_INVISIBLE",
        breaks="I2",
        wrong="a stage is opened beside a live task of an earlier revision",
        file=_ADVANCE,
        before="evolve(facts, busy=True) if self.busy and _wanted(facts) in self.busy else facts",
        after="evolve(facts, busy=True) if self.busy and _wanted(facts) not in self.busy else facts",
        tests=_USECASES,
    ),
    Mutant(
        name="NEW_JOB_BESIDE_A_LIVE_TASK",
        breaks="I2",
        wrong="a new job of a picture without products begins at once, whoever works on the picture already",
        file=_ADVANCE,
        before="        return not (self.busy or self.products[meme_id].visual)\n",
        after="        return not self.products[meme_id].visual\n",
        tests=_USECASES,
    ),
    Mutant(
        name="NEW_JOB_BEGINS_ANEW",
        breaks="I11",
        wrong="a new job makes again what is valid already",
        file=_ADVANCE,
        before="        return not (self.busy or self.products[meme_id].visual)\n",
        after="        return not (self.busy or meme_id not in self.products)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="SUBMIT_READS_BEFORE_IT_LOCKS",
        breaks="I2",
        wrong="a submit decides on the jobs that were there before it waited for its picture",
        file=_SUBMIT,
        before="memes, stored = await tx.together(tx.memes.lock(meme_ids), _read(tx, deployment, meme_ids))",
        after="stored, memes = await tx.together(_read(tx, deployment, meme_ids), tx.memes.lock(meme_ids))",
        tests=("tests/integration/postgres/test_round_trips.py",),
    ),
    Mutant(
        name="REVISION_BEFORE_THE_END",
        breaks="I2",
        wrong="the next revision is opened before the active job ends",
        file=_ADVANCE,
        before="    if ended:\n        await tx.jobs.save(ended)\n    await tx.together(\n        tx.jobs.add(fresh),\n",
        after=(
            "    await tx.jobs.add(fresh)\n    if ended:\n        await tx.jobs.save(ended)\n"
            "    await tx.together(\n        tx.jobs.add([]),\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="DECIDED_ON_OLD_FACTS",
        breaks="I4",
        wrong="a reconcile decides on the jobs as it claimed them, not as they are under the lock",
        file=_RECONCILE,
        before="            plan = await advance(tx, deployment, held.values(), memes, permits, await tx.now())\n",
        after="            plan = await advance(tx, deployment, claimed if held is not None else (), memes, permits, await tx.now())\n",
        tests=_USECASES,
    ),
    Mutant(
        name="RECONCILE_UNFENCED",
        breaks="I4",
        wrong="a reconcile whose claim is gone decides all the same",
        file=_RECONCILE,
        before="            held = await tx.job_claims.lock([job.claim for job in claimed])\n",
        after="            held = await tx.jobs.lock([job.job_id for job in claimed])\n",
        tests=_USECASES,
    ),
    Mutant(
        name="BATCH_OF_JOBS_FAILS_TOGETHER",
        breaks="I12",
        wrong="a job that cannot be reconciled takes its batch with it",
        file=_RECONCILE,
        before="        await _apart(deployment, scope, claimed, permits)\n",
        after="        await _apart(deployment, scope, claimed[:0], permits)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="BACKPRESSURE_IGNORED",
        breaks="I12",
        wrong="agent tasks are queued without bound",
        file=_RECONCILE,
        before="    admitted = list(requests.items())[: max(room, 0)]\n",
        after="    admitted = list(requests.items())[: max(room, len(requests))]\n",
        tests=_USECASES,
    ),
    Mutant(
        name="SUPERSEDED_RECONCILES",
        breaks="I13",
        wrong="a deployment that is not in force any more decides what the policy is asked for",
        file=_RECONCILE,
        before="        if await deployment.is_superseded(tx):\n            return (), ()\n",
        after="",
        tests=("tests/unit/adapters/memory/test_contracts.py::TestSuccession",),
    ),
    Mutant(
        name="RESOLVED_WHILE_IT_RUNS",
        breaks="I18",
        wrong="an execution whose call may be running is closed on nobody's word",
        file=_UNKNOWN,
        before="    if deadline is not None and not resolution.attested:\n",
        after="    if deadline is None and not task_id:\n",
        tests=_UNKNOWN_TESTS,
    ),
    Mutant(
        name="RESOLVED_TWICE",
        breaks="I9",
        wrong="a second resolution of one execution counts",
        file=_UNKNOWN,
        before="    if not await tx.evidence.resolve(resolved):\n",
        after="    if await tx.evidence.resolve(resolved) is None:\n",
        tests=_UNKNOWN_TESTS,
    ),
    Mutant(
        name="KNOWN_EXECUTION_RESOLVED",
        breaks="I9",
        wrong="an execution that is running or ended is closed as if it were unknown",
        file=_UNKNOWN,
        before="    if last is None or last.status is not AttemptStatus.UNKNOWN:\n",
        after="    if last is None:\n",
        tests=_UNKNOWN_TESTS,
    ),
    Mutant(
        name="EDIT_REVISION_UNCHECKED",
        breaks="I5",
        wrong="a person overwrites words that they have not seen",
        file=_EDIT,
        before="            if found != revision:\n",
        after="            if found < 0:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="EDIT_WITHOUT_WITHDRAWAL",
        breaks="I14",
        wrong="an edited picture is found by its old words",
        file=_EDIT,
        before="            await tx.contexts.put([context])\n            await tx.search.refresh([meme_id])\n",
        after="            await tx.contexts.put([context])\n",
        tests=_USECASES,
    ),
    Mutant(
        name="REPLACED_WITHOUT_WITHDRAWAL",
        breaks="I14",
        wrong="a replaced picture is found by the old one",
        file=_EDIT,
        before="                await tx.memes.save(meme)\n                await tx.search.refresh([meme_id])\n",
        after="                await tx.memes.save(meme)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="DELETED_WITHOUT_WITHDRAWAL",
        breaks="I14",
        wrong="a deleted picture is found",
        file=_EDIT,
        before="deleted_at=now, updated_at=now))\n    await tx.search.refresh([meme_id])\n",
        after="deleted_at=now, updated_at=now))\n",
        tests=_USECASES,
    ),
    Mutant(
        name="DELETION_WAKES_NOBODY",
        breaks="I11",
        wrong="the job of a deleted picture is not due, and waits for a task that may never end",
        file=_EDIT,
        before="    due = [evolve(job, due_at=now) for job in locked.values() if job.live]\n",
        after="    due = [evolve(job, due_at=job.due_at) for job in locked.values() if job.live]\n",
        tests=_USECASES,
    ),
    Mutant(
        name="EDIT_STARTS_NOTHING",
        breaks="I11",
        wrong="a person's words wait for an upload before they are embedded",
        file=_EDIT,
        before="(await _resubmit(tx, deployment, meme, Mode.EXPLICIT))[1]",
        after="(await _resubmit(tx, deployment, meme, Mode.AUTOMATIC))[1]",
        tests=_USECASES,
    ),
    Mutant(
        name="REPLACEMENT_RESTARTS",
        breaks="I16",
        wrong="a replacement by the same bytes restarts a job that failed",
        file=_EDIT,
        before="await _resubmit(tx, deployment, meme, Mode.AUTOMATIC)\n",
        after="await _resubmit(tx, deployment, meme, Mode.EXPLICIT)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="UPLOAD_IS_EXPLICIT",
        breaks="I16",
        wrong="the same upload again restarts a job that failed",
        file=_INGEST,
        before="    submission = Submission(meme.meme_id, policy, Mode.AUTOMATIC)\n",
        after="    submission = Submission(meme.meme_id, policy, Mode.EXPLICIT)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="UPLOAD_MEETS_ANOTHER_PICTURE",
        breaks="I5",
        wrong="an upload is joined to a picture that was just replaced",
        file=_INGEST,
        before="        if not meme.exists or meme.picture.sha256 != picture.sha256:\n",
        after="        if not meme.exists:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="ANYTHING_RETRIED",
        breaks="I10",
        wrong="a job that is active or succeeded is retried",
        file=_RETRY,
        before="    if job.status not in RETRYABLE:\n",
        after="    if not job.status:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="MAINTENANCE_UNFENCED",
        breaks="I4",
        wrong="a maintenance task writes on though its claim is gone",
        file=_MAINTENANCE,
        before="    if fence is not None:\n",
        after="    if fence is not None and not locked:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="NONSENSE_IS_CONSENT",
        breaks="I7",
        wrong="a policy's answer that means nothing counts as a grant",
        file=_PERMISSION,
        before="        return answer\n    return _NONSENSE\n",
        after='        return answer\n    return Granted("")\n',
        tests=(_JOBS,),
    ),
    Mutant(
        name="BROKEN_POLICY_CONSENTS",
        breaks="I7",
        wrong="a policy that raises when asked for a reservation counts as one that grants",
        file=_PERMISSION,
        before=(
            "            return _parsed(await policy.acquire(request))\n"
            "    except Exception as error:\n"
            '        log.exception("the operation policy failed to acquire")\n'
            "        return _unavailable(error)\n"
        ),
        after=(
            "            return _parsed(await policy.acquire(request))\n"
            "    except Exception as error:\n"
            '        log.exception("the operation policy failed to acquire")\n'
            "        return Granted(str(error))\n"
        ),
        tests=(_JOBS,),
    ),
    Mutant(
        name="NOTHING_DONE_IS_SPENT",
        breaks="I8",
        wrong="a reservation for an upload that stored nothing stays",
        file=_PERMITTED,
        before="    except Exception:\n        await _give_back(deployment, request)\n        raise\n",
        after="    except Exception:\n        raise\n",
        tests=_PERMITTED_TESTS,
    ),
    Mutant(
        name="UNCERTAIN_UPLOAD_GIVEN_BACK",
        breaks="I8",
        wrong="an upload that may have been stored costs nothing",
        file=_PERMITTED,
        before="    except CommitOutcomeUnknown:\n        await _spend(deployment, request, reservation)\n        raise\n",
        after="",
        tests=_PERMITTED_TESTS,
    ),
    Mutant(
        name="DENIED_ALL_THE_SAME",
        breaks="I7",
        wrong="what the policy refuses is done",
        file=_PERMITTED,
        before="    raise _refused(request.operation, decision)\n",
        after='    return Granted("")\n',
        tests=_PERMITTED_TESTS,
    ),
    Mutant(
        name="DECIDED_AGAIN_FOR_EVER",
        breaks="I12",
        wrong="a transaction that is never first is tried without end",
        file=_DEPLOYMENT,
        before="    for _ in range(_TRIES - 1):\n",
        after="    while _TRIES:\n",
        tests=("tests/unit/domain/usecases/test_deployment.py",),
        hangs=True,
    ),
    Mutant(
        name="DECIDED_ONCE",
        breaks="I12",
        wrong="whoever was not first gives up at once",
        file=_DEPLOYMENT,
        before="    for _ in range(_TRIES - 1):\n",
        after="    for _ in range(_TRIES - _TRIES):\n",
        tests=("tests/unit/domain/usecases/test_deployment.py",),
    ),
)

WALLS: Final = (
    Wall(
        name="SUBMITTED_UNLOCKED",
        breaks="I2",
        why="of two revisions opened at once the unique key refuses one, which is decided again",
        left_out=Edit(
            _SUBMIT,
            "await tx.together(tx.memes.lock(meme_ids), _read(",
            "await tx.together(tx.memes.get(meme_ids), _read(",
        ),
        other=Edit(_SUBMIT, "await decided_again(once)", "await once()"),
        tests=("tests/unit/usecases/test_people.py::test_two_who_retry_at_once_open_one_revision",),
    ),
)
