"""Claim, lock, expiry, renewal, slots and dispatch: the statements that decide who works on what."""

from typing import Final

from mutants.kinds import Edit, Mutant, Wall

_CLAIMS: Final = "src/imgproc_adapters/postgres/claims.py"
_LANES: Final = "src/imgproc_adapters/postgres/lanes.py"
_HEARTBEAT: Final = "src/imgproc_adapters/postgres/heartbeat.py"
_DISPATCH: Final = "src/imgproc_adapters/postgres/dispatch.py"

_CONTRACTS: Final = "tests/integration/contracts/test_postgres.py"
_CLAIM_TESTS: Final = f"{_CONTRACTS}::TestClaims"
_JOB_TESTS: Final = f"{_CONTRACTS}::TestJobClaims"
_SLOT_TESTS: Final = f"{_CONTRACTS}::TestSlots"
_BEAT_TESTS: Final = f"{_CONTRACTS}::TestHeartbeat"
_DISPATCH_TESTS: Final = f"{_CONTRACTS}::TestDispatch"
_SCOPE_TESTS: Final = f"{_CONTRACTS}::TestScopes"
_UNTOUCHED: Final = f"{_SCOPE_TESTS}::test_what_one_scope_does_changes_nothing_of_another"

_PICK: Final = "WHERE scope_id = %(scope)s AND status = 'queued' AND task_type = '{task_type}'\n"

MUTANTS: Final = (
    Mutant(
        name="CLAIM_PICKS_ANY_SCOPE",
        breaks="I1",
        wrong="a claim picks its tasks in all scopes",
        file=_CLAIMS,
        before=_PICK,
        after="WHERE status = 'queued' AND task_type = '{task_type}'\n",
        tests=(f"{_SCOPE_TESTS}::test_older_work_of_another_scope_takes_no_place",),
    ),
    Mutant(
        name="CLAIM_TAKES_ANY_SCOPE",
        breaks="I1",
        wrong="a claim takes the tasks of its ids in all scopes",
        file=_CLAIMS,
        before="        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (ARRAY(SELECT task_id FROM picked))\n",
        after="        WHERE t.task_id = ANY (ARRAY(SELECT task_id FROM picked))\n",
        tests=(f"{_UNTOUCHED}[_claim_a_task]",),
    ),
    Mutant(
        name="CLAIM_ANY_STATUS",
        breaks="I6",
        wrong="a claim takes tasks that somebody runs",
        file=_CLAIMS,
        before=_PICK,
        after="WHERE scope_id = %(scope)s AND task_type = '{task_type}'\n",
        tests=(f"{_CLAIM_TESTS}::test_a_running_or_ended_task_is_not_claimed",),
    ),
    Mutant(
        name="CLAIM_ANY_TYPE",
        breaks="I18",
        wrong="a claim takes tasks of another lane",
        file=_CLAIMS,
        before=_PICK,
        after="WHERE scope_id = %(scope)s AND status = 'queued'\n",
        tests=(f"{_CLAIM_TESTS}::test_tasks_of_another_type_or_scope_are_not_claimed",),
    ),
    Mutant(
        name="CLAIM_TOO_EARLY",
        breaks="I6",
        wrong="a claim does not wait for the end of a back-off",
        file=_CLAIMS,
        before="              AND available_at <= statement_timestamp()\n",
        after="",
        tests=(f"{_CLAIM_TESTS}::test_a_task_whose_time_has_not_come_is_not_claimed",),
    ),
    Mutant(
        name="CLAIM_UNLIMITED",
        breaks="I18",
        wrong="a claim takes more tasks than its lane has places",
        file=_CLAIMS,
        before="            ORDER BY available_at, task_id\n            LIMIT %(limit)s\n",
        after="            ORDER BY available_at, task_id\n",
        tests=(f"{_CLAIM_TESTS}::test_tasks_are_claimed_oldest_first_and_no_more_than_asked_for",),
    ),
    Mutant(
        name="CLAIM_WAITS",
        breaks="I6",
        wrong="a claim waits for rows that another one takes, instead of passing them by",
        file=_CLAIMS,
        before="            FOR NO KEY UPDATE SKIP LOCKED\n        )\n        UPDATE tasks t\n",
        after="            FOR NO KEY UPDATE\n        )\n        UPDATE tasks t\n",
        tests=("tests/integration/postgres/test_races.py::test_a_claim_passes_by_what_another_is_claiming",),
    ),
    Mutant(
        name="CLAIM_UNLOCKED",
        breaks="I6",
        wrong="a claim does not lock what it picks: two of them may take one task",
        file=_CLAIMS,
        before="            FOR NO KEY UPDATE SKIP LOCKED\n        )\n        UPDATE tasks t\n",
        after="        )\n        UPDATE tasks t\n",
        tests=("tests/integration/postgres/test_races.py::test_a_claim_passes_by_what_another_is_claiming",),
    ),
    Mutant(
        name="CLAIM_KEEPS_GENERATION",
        breaks="I3",
        wrong="a claim does not raise the stored generation",
        file=_CLAIMS,
        before="SET status = 'running', claim_generation = t.claim_generation + 1,",
        after="SET status = 'running', claim_generation = t.claim_generation,",
        tests=(f"{_CLAIM_TESTS}::test_a_claimed_task_runs_under_the_next_generation_until_its_lease_ends",),
    ),
    Mutant(
        name="LOCK_ANY_SCOPE",
        breaks="I1",
        wrong="a lock reads the tasks of its ids in all scopes",
        file=_CLAIMS,
        before="FROM tasks t WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s)\n    ORDER BY",
        after="FROM tasks t WHERE t.task_id = ANY (%(ids)s)\n    ORDER BY",
        tests=(f"{_SCOPE_TESTS}::test_a_claim_is_locked_as_the_row_of_its_own_scope",),
    ),
    Mutant(
        name="LOCK_WITHOUT_LOCK",
        breaks="I4",
        wrong="a write-back checks its claim without locking the task",
        file=_CLAIMS,
        before="    ORDER BY t.task_id FOR NO KEY UPDATE\n",
        after="    ORDER BY t.task_id\n",
        tests=("tests/integration/postgres/test_races.py::test_a_lease_that_ended_while_its_holder_waited_is_over",),
    ),
    Mutant(
        name="FOREIGN_CLAIM_LOCKED",
        breaks="I17",
        wrong="a claim of one scope is looked up in the scope of the transaction",
        file=_CLAIMS,
        before="Uuids({claim.task_id for claim in claims if claim.scope == self._session.scope})",
        after="Uuids({claim.task_id for claim in claims})",
        tests=(f"{_SCOPE_TESTS}::test_a_claim_is_locked_as_the_row_of_its_own_scope",),
    ),
    Mutant(
        name="EXPIRY_ANY_SCOPE",
        breaks="I1",
        wrong="expiry takes leases of all scopes away",
        file=_CLAIMS,
        before="    WHERE t.scope_id = %(scope)s AND t.status = 'running' AND t.task_type = ANY (%(types)s)\n",
        after="    WHERE t.status = 'running' AND t.task_type = ANY (%(types)s)\n",
        tests=(f"{_SCOPE_TESTS}::test_leases_expire_scope_by_scope",),
    ),
    Mutant(
        name="EXPIRY_ANY_TYPE",
        breaks="I6",
        wrong="a worker takes leases of task types away that another worker owns",
        file=_CLAIMS,
        before=" AND t.status = 'running' AND t.task_type = ANY (%(types)s)\n",
        after=" AND t.status = 'running'\n",
        tests=(f"{_CLAIM_TESTS}::test_only_expired_leases_of_the_given_types_are_locked",),
    ),
    Mutant(
        name="EXPIRY_TOO_EARLY",
        breaks="I4",
        wrong="expiry takes leases away that have not run out",
        file=_CLAIMS,
        before="      AND t.lease_expires_at <= statement_timestamp()\n    ORDER BY t.task_id\n",
        after="    ORDER BY t.task_id\n",
        tests=(f"{_CLAIM_TESTS}::test_only_expired_leases_of_the_given_types_are_locked",),
    ),
    Mutant(
        name="EXPIRY_WAITS",
        breaks="I4",
        wrong="expiry waits for a task that is being settled",
        file=_CLAIMS,
        before='    LIMIT %(limit)s\n    FOR NO KEY UPDATE SKIP LOCKED\n    """,\n    task=TASK,\n',
        after='    LIMIT %(limit)s\n    FOR NO KEY UPDATE\n    """,\n    task=TASK,\n',
        tests=("tests/integration/postgres/test_races.py::test_expiry_passes_by_what_is_being_settled",),
    ),
    Mutant(
        name="HELD_JOB_CLAIMED",
        breaks="I4",
        wrong="a job that somebody reconciles is claimed once more",
        file=_CLAIMS,
        before="          AND (lease_expires_at IS NULL OR lease_expires_at <= statement_timestamp())\n        ORDER",
        after="        ORDER",
        tests=(f"{_JOB_TESTS}::test_a_job_that_somebody_holds_is_not_claimed",),
    ),
    Mutant(
        name="JOB_CLAIMED_TOO_EARLY",
        breaks="I16",
        wrong="a job is claimed before it is due",
        file=_CLAIMS,
        before=" AND due_at IS NOT NULL AND due_at <= statement_timestamp()\n          AND (lease",
        after=" AND due_at IS NOT NULL\n          AND (lease",
        tests=(f"{_JOB_TESTS}::test_a_job_that_waits_or_is_not_due_yet_is_not_claimed",),
    ),
    Mutant(
        name="JOB_CLAIM_KEEPS_GENERATION",
        breaks="I3",
        wrong="a claim on a job does not raise its generation",
        file=_CLAIMS,
        before="    SET claim_generation = j.claim_generation + 1,",
        after="    SET claim_generation = j.claim_generation,",
        tests=(f"{_JOB_TESTS}::test_a_due_job_is_claimed_under_the_next_generation",),
    ),
    Mutant(
        name="JOB_CLAIM_PICKS_ANY_SCOPE",
        breaks="I1",
        wrong="a claim on jobs picks them in all scopes",
        file=_CLAIMS,
        before="        WHERE scope_id = %(scope)s AND due_at IS NOT NULL",
        after="        WHERE due_at IS NOT NULL",
        tests=(f"{_SCOPE_TESTS}::test_older_jobs_of_another_scope_take_no_place",),
    ),
    Mutant(
        name="JOB_CLAIM_UNFENCED",
        breaks="I4",
        wrong="a reconcile decides though its claim on the job is gone",
        file=_CLAIMS,
        before=" if why_not_current(job.lease, by_id[job.job_id], now) is None}",
        after=" if why_not_current(job.lease, by_id[job.job_id], now) is None or now}",
        tests=(_JOB_TESTS,),
    ),
    Mutant(
        name="JOB_CLAIM_TIMED_BEFORE_ITS_LOCK",
        breaks="I4",
        wrong="a reconcile that waited for its lock compares with a time before the wait",
        file=_CLAIMS,
        before=(
            "        rows = await self._session.rows(LOCK_JOBS, ids=Uuids(by_id))\n"
            "        # a statement of its own: one that waited for a lock would compare with a time before the wait\n"
            "        ((now,),) = await self._session.rows(_NOW)\n"
        ),
        after=(
            "        ((now,),) = await self._session.rows(_NOW)\n"
            "        rows = await self._session.rows(LOCK_JOBS, ids=Uuids(by_id))\n"
        ),
        tests=("tests/integration/postgres/test_races.py::test_a_reconcile_whose_lease_ended_while_it_waited_is_over",),
    ),
    Mutant(
        name="SLOT_TAKEN_TWICE",
        breaks="I18",
        wrong="two claims take one free slot",
        file=_LANES,
        before="    ORDER BY number LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED\n",
        after="    ORDER BY number LIMIT %(limit)s\n",
        tests=(f"{_SLOT_TESTS}::test_slots_that_another_transaction_has_taken_are_skipped",),
    ),
    Mutant(
        name="SLOT_FREE_BEFORE_ITS_TIME",
        breaks="I18",
        wrong="a slot is free before the hard deadline of the lost call that holds it",
        file=_LANES,
        before="NOT surplus AND (scope_id IS NULL OR free_at <= statement_timestamp())\n    ORDER BY",
        after="NOT surplus AND (scope_id IS NULL OR free_at IS NOT NULL)\n    ORDER BY",
        tests=(f"{_SLOT_TESTS}::test_a_slot_whose_call_may_still_run_is_free_only_at_its_time",),
    ),
    Mutant(
        name="SURPLUS_SLOT_TAKEN",
        breaks="I18",
        wrong="slots behind the lane's size are taken",
        file=_LANES,
        before="    WHERE lane = %(lane)s AND NOT surplus AND (scope_id IS NULL",
        after="    WHERE lane = %(lane)s AND (scope_id IS NULL",
        tests=(
            "tests/integration/postgres/test_lanes.py::test_a_surplus_slot_is_not_taken_although_its_time_has_passed",
        ),
    ),
    Mutant(
        name="SLOT_OF_ANY_GENERATION",
        breaks="I18",
        wrong="a slot that a later claim holds lets an older one start its call",
        file=_LANES,
        before="return [claim for claim in ours if (claim.task_id, claim.generation) in holders]",
        after="return [claim for claim in ours if claim.task_id in {task_id for task_id, _ in holders}]",
        tests=(f"{_SLOT_TESTS}::test_a_claim_holds_its_slot_under_exactly_its_generation",),
    ),
    Mutant(
        name="SLOT_FREED_BY_ANY_CLAIM",
        breaks="I18",
        wrong="a late claim frees the slot of the present one",
        file=_LANES,
        before="          AND generation = (%(generation)s)[array_position(%(ids)s, task_id)]\n",
        after="",
        tests=(f"{_SLOT_TESTS}::test_a_slot_is_freed_by_its_own_claim_alone",),
    ),
    Mutant(
        name="SLOT_FREED_BY_ANY_SCOPE",
        breaks="I1",
        wrong="a claim of another scope frees a slot",
        file=_LANES,
        before="        WHERE lane = %(lane)s AND scope_id = %(scope)s AND task_id = ANY (%(ids)s)\n          AND generation",
        after="        WHERE lane = %(lane)s AND task_id = ANY (%(ids)s)\n          AND generation",
        tests=(f"{_SLOT_TESTS}::test_a_slot_is_freed_by_its_own_claim_alone",),
    ),
    Mutant(
        name="RENEWED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a heartbeat lengthens leases of other scopes",
        file=_HEARTBEAT,
        before="        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (ARRAY(SELECT task_id FROM locked))\n",
        after="        WHERE t.task_id = ANY (ARRAY(SELECT task_id FROM locked))\n",
        tests=(f"{_SCOPE_TESTS}::test_a_renewal_lengthens_no_lease_of_another_scope",),
    ),
    Mutant(
        name="RENEWED_BY_ANY_CLAIM",
        breaks="I4",
        wrong="the heartbeat of a lost claim lengthens its successor's lease",
        file=_HEARTBEAT,
        before=(
            "          AND t.lease_owner = c.owner AND t.claim_generation = c.generation\n"
            "          AND t.lease_expires_at > statement_timestamp()\n        FOR"
        ),
        after="          AND t.lease_expires_at > statement_timestamp()\n        FOR",
        tests=(_BEAT_TESTS,),
    ),
    Mutant(
        name="EXPIRED_LEASE_REVIVED",
        breaks="I4",
        wrong="a heartbeat revives a lease that has run out",
        file=_HEARTBEAT,
        before="          AND t.lease_expires_at > statement_timestamp()\n        FOR",
        after="        FOR",
        tests=(f"{_BEAT_TESTS}::test_an_expired_claim_is_not_revived",),
    ),
    Mutant(
        name="FIRST_SCOPES_FIRST",
        breaks="I12",
        wrong="every turn begins with the same scopes, and those behind them starve",
        file=_DISPATCH,
        before="after=after or _BEFORE_ALL, limit=limit",
        after="after=_BEFORE_ALL, limit=limit",
        tests=(f"{_DISPATCH_TESTS}::test_every_scope_has_its_turn_behind_the_one_served_last",),
    ),
    Mutant(
        name="FOREIGN_TYPES_SWEPT",
        breaks="I6",
        wrong="a worker looks for lost leases of types that another worker owns",
        file=_DISPATCH,
        before=" AND r.status = 'running' AND r.task_type = ANY (%(types)s)\n",
        after=" AND r.status = 'running'\n",
        tests=(f"{_DISPATCH_TESTS}::test_scopes_with_expired_tasks_of_the_given_types_are_found",),
    ),
)

WALLS: Final = (
    Wall(
        name="CLAIM_NOT_MATERIALIZED",
        breaks="I6",
        why="PostgreSQL never merges a query that locks its rows into the one around it",
        left_out=Edit(
            _CLAIMS,
            "        WITH picked AS MATERIALIZED (\n            SELECT task_id FROM tasks\n",
            "        WITH picked AS (\n            SELECT task_id FROM tasks\n",
        ),
        other=Edit(
            _CLAIMS,
            "            FOR NO KEY UPDATE SKIP LOCKED\n        )\n        UPDATE tasks t\n",
            "        )\n        UPDATE tasks t\n",
        ),
        tests=("tests/integration/postgres/test_races.py::test_a_claim_passes_by_what_another_is_claiming",),
    ),
    Wall(
        name="RENEWAL_READS_ANY_SCOPE",
        breaks="I1",
        why="what a heartbeat locks in other scopes by the same ids is not what it writes",
        left_out=Edit(
            _HEARTBEAT,
            "    ), locked AS MATERIALIZED (\n        SELECT t.task_id FROM tasks t JOIN claims c ON c.task_id = t.task_id\n"
            "        WHERE t.scope_id = %(scope)s AND t.task_id",
            "    ), locked AS MATERIALIZED (\n        SELECT t.task_id FROM tasks t JOIN claims c ON c.task_id = t.task_id\n"
            "        WHERE t.task_id",
        ),
        other=Edit(
            _HEARTBEAT,
            "        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (ARRAY(SELECT task_id FROM locked))\n",
            "        WHERE t.task_id = ANY (ARRAY(SELECT task_id FROM locked))\n",
        ),
        tests=(f"{_SCOPE_TESTS}::test_a_renewal_lengthens_no_lease_of_another_scope",),
    ),
    Wall(
        name="LOST_CLAIM_UNREPORTED",
        breaks="I6",
        why="what a heartbeat reports is compared with the row's own owner and generation once more",
        left_out=Edit(
            _HEARTBEAT,
            "          AND t.lease_owner = c.owner AND t.claim_generation = c.generation\n"
            "          AND t.lease_expires_at > statement_timestamp()\n    ), locked",
            "          AND t.lease_expires_at > statement_timestamp()\n    ), locked",
        ),
        other=Edit(
            _HEARTBEAT,
            "        SELECT t.task_id, t.lease_owner AS owner, t.claim_generation AS generation\n",
            "        SELECT t.task_id, c.owner, c.generation\n",
        ),
        tests=(f"{_BEAT_TESTS}::test_a_claim_that_was_taken_over_is_reported",),
    ),
)
