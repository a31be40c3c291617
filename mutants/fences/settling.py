"""The agent protocol's use cases behind the call: settle and recover."""

from typing import Final

from mutants.kinds import Mutant

_SETTLE: Final = "src/imgproc_domain/usecases/settle.py"
_RECOVER: Final = "src/imgproc_domain/usecases/recover.py"

_SUBMIT: Final = "src/imgproc_domain/usecases/submit.py"
_ADVANCE: Final = "src/imgproc_domain/usecases/advance.py"

_UNDECIDED: Final = ("tests/unit/adapters/memory/test_contracts.py::TestUndecided",)
_USECASES: Final = (
    "tests/unit/usecases/test_fences.py",
    "tests/unit/usecases/test_interleavings.py",
    "tests/unit/usecases/test_look_up.py",
    "tests/unit/usecases/test_protocol.py",
    "tests/unit/usecases/test_jobs.py",
)

MUTANTS: Final = (
    Mutant(
        name="SETTLE_TIMED_BEFORE_ITS_LOCK",
        breaks="I4",
        wrong="a write-back that waited for its lock compares with a time before the wait",
        file=_SETTLE,
        before=(
            "    tasks = await tx.claims.lock([item.claim for item in items])\n"
            "    described = {t.target.meme_id for t in tasks.values() if t.target and t.stage is not Stage.VISUAL}\n"
            "    last, memes, contexts, now = await tx.together(\n"
            "        tx.attempts.last(tasks.keys()),\n"
            "        tx.memes.lock({t.target.meme_id for t in tasks.values() if t.target}),\n"
            "        tx.contexts.get(described),\n"
            "        tx.now(),\n"
            "    )\n"
        ),
        after=(
            "    now = await tx.now()\n"
            "    tasks = await tx.claims.lock([item.claim for item in items])\n"
            "    described = {t.target.meme_id for t in tasks.values() if t.target and t.stage is not Stage.VISUAL}\n"
            "    last, memes, contexts = await tx.together(\n"
            "        tx.attempts.last(tasks.keys()),\n"
            "        tx.memes.lock({t.target.meme_id for t in tasks.values() if t.target}),\n"
            "        tx.contexts.get(described),\n"
            "    )\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="SETTLED_ATTEMPT_UNCHECKED",
        breaks="I4",
        wrong="nobody looks whether the attempt was still where it was read",
        file=_SETTLE,
        before="    if len(written) != len(moved):\n",
        after="    if len(written) > len(moved):\n",
        tests=_USECASES,
    ),
    Mutant(
        name="BATCH_BLIND",
        breaks="I5",
        wrong="an item does not see the words that another one of its batch writes",
        file=_SETTLE,
        before="_locked(item.claim, tasks, last, batch.memes, current), now,",
        after="_locked(item.claim, tasks, last, batch.memes, batch.contexts), now,",
        tests=_USECASES,
    ),
    Mutant(
        name="WORDS_BEFORE_VECTORS",
        breaks="I14",
        wrong="a vector that was made from the former words is published behind the new ones",
        file=_SETTLE,
        before=(
            "    if text := [p for p in products if isinstance(p, TextProduct)] + beside:\n"
            "        await tx.products.put_text(text)\n"
            "        await tx.search.publish(text, _words(batch, text))\n"
            "    # after the vectors: a context of the same batch then withdraws what was made from the former one\n"
            "    if described := {p.meme_id for p in products if isinstance(p, ContextProduct)}:\n"
            "        await _write_contexts(tx, batch, described)\n"
        ),
        after=(
            "    if described := {p.meme_id for p in products if isinstance(p, ContextProduct)}:\n"
            "        await _write_contexts(tx, batch, described)\n"
            "    if text := [p for p in products if isinstance(p, TextProduct)] + beside:\n"
            "        await tx.products.put_text(text)\n"
            "        await tx.search.publish(text, _words(batch, text))\n"
        ),
        tests=_USECASES,
    ),
    Mutant(
        name="SLOT_FREED_ON_UNKNOWN",
        breaks="I18",
        wrong="the slot of a call that may still be running is free at once",
        file=_SETTLE,
        before="            and item.outcome.in_flight\n",
        after="            and not item.outcome.in_flight\n",
        tests=_USECASES,
    ),
    Mutant(
        name="SLOT_NEVER_FREED",
        breaks="I18",
        wrong="the slot of a task that ended stays taken",
        file=_SETTLE,
        before="    if held:\n        await tx.slots.free(",
        after="    if held and not pairs:\n        await tx.slots.free(",
        tests=_USECASES,
    ),
    Mutant(
        name="COMMITTED_RELEASED",
        breaks="I8",
        wrong="the grant of a failed call is given back though it was spent",
        file=_SETTLE,
        before="is GrantFate.RELEASE and grant.status is GrantStatus.ACQUIRED:\n            changed.append(grants.release(grant, now))\n",
        after="is GrantFate.RELEASE and grant.status in grants.LIVE:\n",
        tests=_USECASES,
    ),
    Mutant(
        name="RELEASE_OUTSIDE_THE_OUTBOX",
        breaks="I8",
        wrong="a released grant is never told to the policy",
        file=_SETTLE,
        before="            plan.releases.append(release)\n",
        after="            plan.releases.extend([release] if not release else [])\n",
        tests=_USECASES,
    ),
    Mutant(
        name="LOST_GRANT_STAYS_LIVE",
        breaks="I8",
        wrong="the grant of an unknown call stays committed",
        file=_SETTLE,
        before="            changed.append(grants.lose(grant, now))\n",
        after="            changed.extend([] if grant else [grants.lose(grant, now)])\n",
        tests=_USECASES,
    ),
    Mutant(
        name="CLOSED_JOB_SETTLED",
        breaks="I10",
        wrong="a stage of a job that is over is ended once more",
        file=_SETTLE,
        before="    return task if ours and job.live else None\n",
        after="    return task if ours else None\n",
        tests=_USECASES,
    ),
    Mutant(
        name="STAGE_ENDED_BY_ANY_TASK",
        breaks="I11",
        wrong="a stage ends with a task that is not its own",
        file=_SETTLE,
        before=" and task.stage is not None and job.stage(task.stage).task_id == task.task_id\n",
        after=" and task.stage is not None\n",
        tests=_USECASES,
    ),
    Mutant(
        name="WAITING_JOB_CALLS_AGAIN",
        breaks="I9",
        wrong="a job that waited for a call that became unknown makes it again",
        file=_SETTLE,
        before="    return jobs.withhold(job, undecided.get(PictureVersion.of(job)))\n",
        after="    return jobs.withhold(job, None)\n",
        tests=_UNDECIDED,
    ),
    Mutant(
        name="PUT_BACK_CALLS_AGAIN",
        breaks="I9",
        wrong="a picture that is put back opens a job that repeats its unknown call",
        file=_SUBMIT,
        before="    return jobs.withhold(job, withheld)\n",
        after="    return job if withheld is None else jobs.withhold(job, None)\n",
        tests=_UNDECIDED,
    ),
    Mutant(
        name="SUCCESSOR_CALLS_AGAIN",
        breaks="I9",
        wrong="an upload under another configuration closes a job whose call is withheld, and its successor calls",
        file=_SUBMIT,
        before="        elif verdict.closes.withheld is not None:\n",
        after="        elif verdict.closes.withheld is None:\n",
        tests=_UNDECIDED,
    ),
    Mutant(
        name="RENEWAL_CALLS_AGAIN",
        breaks="I9",
        wrong="a job whose call is withheld is renewed for its configuration, and calls",
        file=_ADVANCE,
        before="            plan.open(jobs.withhold(following, job.withheld))\n",
        after="            plan.open(following)\n",
        tests=_UNDECIDED,
    ),
    Mutant(
        name="UNKNOWN_BECOMES_VALID",
        breaks="I9",
        wrong="an unknown execution is forgotten because a person described the picture",
        file=_SETTLE,
        before=" and same and described and not unknown\n",
        after=" and same and described and unknown in (True, False)\n",
        tests=_USECASES,
    ),
    Mutant(
        name="VECTOR_UNPUBLISHED",
        breaks="I14",
        wrong="a vector that was written back is not found",
        file=_SETTLE,
        before="        await tx.search.publish(text, _words(batch, text))\n",
        after="",
        tests=_USECASES,
    ),
    Mutant(
        name="DESCRIBED_WITHOUT_WITHDRAWAL",
        breaks="I14",
        wrong="new words of an agent leave the vector of the old ones in the search",
        file=_SETTLE,
        before="    if changed:\n        await tx.search.refresh(changed)\n",
        after="",
        tests=_USECASES,
    ),
    Mutant(
        name="LATE_RESULT_FORGOTTEN",
        breaks="I4",
        wrong="a fenced write-back leaves no trace",
        file=_SETTLE,
        before="            await tx.evidence.note(batch.late)\n",
        after="",
        tests=("tests/unit/usecases/test_late_results.py",),
    ),
    Mutant(
        name="SLOT_FREED_AT_EXPIRY",
        breaks="I18",
        wrong="the slot of a lost call is free when its lease has run out",
        file=_RECOVER,
        before="            batch.busy_until[task.task_id] = attempt.hard_deadline_at\n",
        after="            batch.busy_until.update({} if attempt else {task.task_id: now})\n",
        tests=_USECASES,
    ),
    Mutant(
        name="RELEASE_TAKEN_FOR_GRANTED",
        breaks="I8",
        wrong="a release is done though the policy did not take it",
        file=_RECOVER,
        before="if await _release(deployment, scope, release)]",
        after="if await _release(deployment, scope, release) or release]",
        tests=_USECASES,
    ),
)
