"""Rows that are read and written, what can be found, the transaction around them, and the quotas of the policy."""

from typing import Final

from mutants.kinds import Mutant

_UOW: Final = "src/imgproc_adapters/postgres/uow.py"
_ENGINE: Final = "src/imgproc_adapters/postgres/engine.py"
_SESSION: Final = "src/imgproc_adapters/postgres/session.py"
_EXECUTION: Final = "src/imgproc_adapters/postgres/execution.py"
_PROCESSING: Final = "src/imgproc_adapters/postgres/processing.py"
_SQL: Final = "src/imgproc_adapters/postgres/processing_sql.py"
_STAGES: Final = "src/imgproc_adapters/postgres/stages.py"
_SEARCH: Final = "src/imgproc_adapters/postgres/search.py"
_NEAREST: Final = "src/imgproc_adapters/postgres/nearest.py"
_LIBRARY: Final = "src/imgproc_adapters/postgres/library.py"
_CHANGES: Final = "src/imgproc_adapters/postgres/changes.py"
_QUOTA: Final = "src/imgproc_adapters/policy/quota.py"
_RESERVATION: Final = "src/imgproc_adapters/policy/reservation.py"

_CONTRACTS: Final = "tests/integration/contracts/test_postgres.py"
_UOW_TESTS: Final = f"{_CONTRACTS}::TestUnitOfWork"
_SWALLOWED: Final = f"{_UOW_TESTS}::test_a_write_of_a_row_that_is_gone_keeps_nothing_even_if_its_conflict_is_swallowed"
_SCOPE_TESTS: Final = f"{_CONTRACTS}::TestScopes"
_OWN_ROWS: Final = f"{_SCOPE_TESTS}::test_each_scope_reads_its_own_rows"
_UNTOUCHED: Final = f"{_SCOPE_TESTS}::test_what_one_scope_does_changes_nothing_of_another"
_UNTOUCHED_APART: Final = f"{_CONTRACTS}::TestScopesApart::test_what_one_scope_does_changes_nothing_of_another"
_SEARCH_TESTS: Final = f"{_CONTRACTS}::TestSearch"
_TRIPS: Final = "tests/integration/postgres/test_round_trips.py"
_ENGINE_TESTS: Final = "tests/integration/postgres/test_engine.py"
_ROUND_TRIPS: Final = "tests/integration/postgres/test_round_trips.py"
_QUOTA_TESTS: Final = "tests/integration/policy/test_quota.py"

MUTANTS: Final = (
    Mutant(
        name="TRANSACTION_NOT_BEGUN",
        breaks="I4",
        wrong="every statement is a transaction of its own",
        file=_UOW,
        before="            session = Session(connection, scope, _BEGIN)\n",
        after="            session = Session(connection, scope)\n",
        tests=(f"{_TRIPS}::test_a_work_that_refuses_ends_the_others_and_keeps_nothing",),
    ),
    Mutant(
        name="IDLE_TRANSACTION_UNCOUNTED",
        breaks="I4",
        wrong="a stopped worker hides its rows from recovery, because the server does not count how long it stands still",
        file=_ENGINE,
        before="            yield from self._fetch_gen(flush=False)\n",
        after="            yield from self._fetch_gen(flush=True)\n",
        tests=(f"{_ENGINE_TESTS}::test_a_transaction_that_stands_still_is_ended",),
    ),
    Mutant(
        name="ERROR_SWALLOWED",
        breaks="I4",
        wrong="a transaction is kept though a write met nothing, if somebody swallows the error",
        file=_UOW,
        before="                session.check()\n",
        after="",
        tests=(_SWALLOWED,),
    ),
    Mutant(
        name="CONFLICT_FORGOTTEN",
        breaks="I4",
        wrong="a transaction forgets that one of its writes met nothing",
        file=_SESSION,
        before="        return self._fail(Conflict(message))\n",
        after="        return Conflict(message)\n",
        tests=(_SWALLOWED,),
    ),
    Mutant(
        name="EXCEPTION_KEPT",
        breaks="I4",
        wrong="what a block wrote before it raised is kept",
        file=_UOW,
        before="                await _roll_back(connection)\n                raise\n",
        after="                await connection.commit()\n                raise\n",
        tests=(f"{_UOW_TESTS}::test_a_block_that_raises_leaves_nothing",),
    ),
    Mutant(
        name="NEW_ROWS_DROPPED",
        breaks="I6",
        wrong="new rows that nothing else followed are not sent with COMMIT",
        file=_SESSION,
        before="        left, self._later = [*self._later, *asks], []\n",
        after="        left, self._later = [*asks], []\n",
        tests=(f"{_ROUND_TRIPS}::test_many_submits_take_as_few_round_trips_as_one",),
    ),
    Mutant(
        name="NEW_ROWS_BEHIND_WHAT_FOLLOWS",
        breaks="I6",
        wrong="new rows are sent behind the statement that may name or read them",
        file=_SESSION,
        before="            return (await self._pipelined([*later, *asks], begin))[len(later) :]\n",
        after="            return (await self._pipelined([*asks, *later], begin))[: len(asks)]\n",
        tests=(f"{_ROUND_TRIPS}::test_what_is_new_is_read_by_what_follows",),
    ),
    Mutant(
        name="ATTEMPT_MOVED_FROM_ANYWHERE",
        breaks="I6",
        wrong="an attempt is moved whatever its status is: no compare-and-set",
        file=_EXECUTION,
        before=" AND a.attempt_id = n.attempt_id AND a.status = n.expected\n",
        after=" AND a.attempt_id = n.attempt_id\n",
        tests=(f"{_CONTRACTS}::TestAttemptsApart::test_a_step_from_another_status_than_the_stored_one_writes_nothing",),
    ),
    Mutant(
        name="ALIKE_MOVED_FROM_ANYWHERE",
        breaks="I6",
        wrong="attempts that move alike are moved whatever their status is: no compare-and-set",
        file=_EXECUTION,
        before=' AND attempt_id = ANY (%(attempt_ids)s) AND status = %(expected)s"',
        after=' AND attempt_id = ANY (%(attempt_ids)s)"',
        tests=("tests/integration/postgres/test_races.py::test_of_two_that_start_one_attempt_one_may_call",),
    ),
    Mutant(
        name="ROW_CHANGED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="rows that change alike are written in all scopes",
        file=_CHANGES,
        before='"UPDATE {table} SET {settings} WHERE scope_id = %(scope)s AND {where} {returning}",',
        after='"UPDATE {table} SET {settings} WHERE {where} {returning}",',
        tests=(f"{_UNTOUCHED}[_end_a_task]",),
    ),
    Mutant(
        name="ROW_SAVED_NOWHERE",
        breaks="I4",
        wrong="nobody looks whether a row that is saved was still there",
        file=_CHANGES,
        before="    if written != wanted:\n",
        after="    if written > wanted:\n",
        tests=(_SWALLOWED,),
    ),
    Mutant(
        name="ATTEMPT_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="an attempt is moved in all scopes",
        file=_EXECUTION,
        before="    WHERE a.scope_id = %(scope)s AND a.task_id = n.task_id AND",
        after="    WHERE a.task_id = n.task_id AND",
        tests=(f"{_UNTOUCHED_APART}[_fail_an_attempt]",),
    ),
    Mutant(
        name="ATTEMPT_READ_FROM_ANY_SCOPE",
        breaks="I1",
        wrong="the last attempt of a task is looked for in all scopes",
        file=_EXECUTION,
        before="WHERE scope_id = %(scope)s AND task_id = wanted.task_id ORDER BY",
        after="WHERE task_id = wanted.task_id ORDER BY",
        tests=(_OWN_ROWS,),
    ),
    Mutant(
        name="FIRST_ATTEMPT_RESUMED",
        breaks="I6",
        wrong="recovery looks at a task's first attempt instead of its last",
        file=_EXECUTION,
        before="ORDER BY attempt_no DESC LIMIT 1",
        after="ORDER BY attempt_no LIMIT 1",
        tests=(f"{_CONTRACTS}::TestAttempts::test_the_last_attempt_is_that_of_the_highest_number",),
    ),
    Mutant(
        name="GRANT_UNLOCKED",
        breaks="I8",
        wrong="a grant is changed without a lock",
        file=_EXECUTION,
        before="    ORDER BY g.grant_id FOR NO KEY UPDATE\n",
        after="    ORDER BY g.grant_id\n",
        tests=("tests/integration/postgres/test_races.py::test_a_grant_that_is_being_committed_is_waited_for",),
    ),
    Mutant(
        name="GRANT_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a grant is moved in all scopes",
        file=_EXECUTION,
        before="    WHERE g.scope_id = %(scope)s AND g.grant_id = n.grant_id AND",
        after="    WHERE g.grant_id = n.grant_id AND",
        tests=(f"{_UNTOUCHED_APART}[_commit_a_grant]",),
    ),
    Mutant(
        name="RELEASE_SENT_FOR_EVER",
        breaks="I8",
        wrong="releases that the policy took stay pending",
        file=_EXECUTION,
        before="    WHERE scope_id = %(scope)s AND done_at IS NULL\n    ORDER BY created_at",
        after="    WHERE scope_id = %(scope)s\n    ORDER BY created_at",
        tests=(f"{_CONTRACTS}::TestReleases::test_releases_are_pending_oldest_first_until_they_are_done",),
    ),
    Mutant(
        name="RELEASE_FINISHED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a release is done in all scopes",
        file=_EXECUTION,
        before="    WHERE r.scope_id = %(scope)s AND r.operation = n.operation",
        after="    WHERE r.operation = n.operation",
        tests=(f"{_UNTOUCHED}[_finish_a_release]",),
    ),
    Mutant(
        name="JOB_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a job is written in all scopes",
        file=_SQL,
        before="    WHERE j.scope_id = %(scope)s AND j.job_id = n.job_id AND",
        after="    WHERE j.job_id = n.job_id AND",
        tests=(f"{_UNTOUCHED_APART}[_open_a_stage]",),
    ),
    Mutant(
        name="STAGE_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a stage is written in all scopes",
        file=_STAGES,
        before="    WHERE s.scope_id = %(scope)s AND s.job_id = ANY (%(ids)s) AND s.stage = %(stage)s\n",
        after="    WHERE s.job_id = ANY (%(ids)s) AND s.stage = %(stage)s\n",
        tests=(f"{_UNTOUCHED}[_open_a_stage]",),
    ),
    Mutant(
        name="TASK_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a task is written in all scopes",
        file=_SQL,
        before="    WHERE t.scope_id = %(scope)s AND t.task_id = n.task_id AND",
        after="    WHERE t.task_id = n.task_id AND",
        tests=(f"{_UNTOUCHED_APART}[_end_a_task]",),
    ),
    Mutant(
        name="BUSY_IN_ANY_SCOPE",
        breaks="I1",
        wrong="live tasks of a meme are looked for in all scopes",
        file=_SQL,
        before="        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND meme_id IS NOT NULL\n",
        after="        WHERE meme_id = wanted.meme_id AND meme_id IS NOT NULL\n",
        tests=(_OWN_ROWS,),
    ),
    Mutant(
        name="RUNNING_TASK_NOT_BUSY",
        breaks="I2",
        wrong="a running task does not make its meme busy",
        file=_SQL,
        before="          AND status IN ('queued', 'running')\n        OFFSET 0\n",
        after="          AND status IN ('queued')\n        OFFSET 0\n",
        tests=(f"{_CONTRACTS}::TestTasks::test_a_meme_is_busy_while_a_leaf_task_of_it_is_live",),
    ),
    Mutant(
        name="OLDEST_JOB_IS_NEWEST",
        breaks="I10",
        wrong="a meme's first revision counts as its newest",
        file=_SQL,
        before=(
            "        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND revision >= 1\n"
            '        ORDER BY revision DESC LIMIT 1\n    ) j\n    """,\n    job=JOB,\n'
        ),
        after=(
            "        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND revision >= 1\n"
            '        ORDER BY revision LIMIT 1\n    ) j\n    """,\n    job=JOB,\n'
        ),
        tests=(f"{_CONTRACTS}::TestJobs::test_the_newest_job_is_that_of_the_highest_revision_whether_active_or_not",),
    ),
    Mutant(
        name="FIRST_CALL_IS_LAST",
        breaks="I9",
        wrong="the first task of a picture counts as its last, so that a later unknown call is not seen",
        file=_SQL,
        before="        ORDER BY j.revision DESC LIMIT 1\n    ) made\n",
        after="        ORDER BY j.revision LIMIT 1\n    ) made\n",
        tests=(
            f"{_CONTRACTS}::TestTasks::test_the_last_agent_task_of_a_picture_version_is_that_of_its_highest_revision",
        ),
    ),
    Mutant(
        name="MEME_SAVED_NOWHERE",
        breaks="I5",
        wrong="nobody looks whether a meme that is saved was still there",
        file=_LIBRARY,
        before="if await self._session.run(_SAVE, **meme_values(meme)) != 1:",
        after="if await self._session.run(_SAVE, **meme_values(meme)) > 1:",
        tests=(_SWALLOWED,),
    ),
    Mutant(
        name="MEME_SAVED_IN_ANY_SCOPE",
        breaks="I1",
        wrong="a meme is written in all scopes",
        file=_LIBRARY,
        before="    WHERE scope_id = %(scope)s AND meme_id = %(meme_id)s\n",
        after="    WHERE meme_id = %(meme_id)s\n",
        tests=(f"{_UNTOUCHED}[_delete_a_meme]",),
    ),
    Mutant(
        name="MEME_UNLOCKED",
        breaks="I2",
        wrong="submissions of one meme are not serialized by its row",
        file=_LIBRARY,
        before="    ORDER BY m.meme_id FOR NO KEY UPDATE\n",
        after="    ORDER BY m.meme_id\n",
        tests=(f"{_UOW_TESTS}::test_whoever_waits_for_a_lock_sees_what_its_holder_wrote",),
    ),
    Mutant(
        name="DELETED_PICTURE_FOUND",
        breaks="I14",
        wrong="a deleted picture stays in the search",
        file=_SEARCH,
        before=" AND m.deleted_at IS NULL AND c.status = ANY (%(usable)s)\n",
        after=" AND c.status = ANY (%(usable)s)\n",
        tests=(f"{_SEARCH_TESTS}::test_a_deleted_meme_is_not_found_any_more",),
    ),
    Mutant(
        name="UNUSABLE_WORDS_FOUND",
        breaks="I14",
        wrong="a picture whose words need repair stays in the search",
        file=_SEARCH,
        before=" AND m.deleted_at IS NULL AND c.status = ANY (%(usable)s)\n",
        after=" AND m.deleted_at IS NULL\n",
        tests=(f"{_SEARCH_TESTS}::test_a_meme_whose_context_is_not_usable_is_not_found",),
    ),
    Mutant(
        name="OLD_WORDS_FOUND",
        breaks="I14",
        wrong="a picture is found by words that were edited away",
        file=_SEARCH,
        before="e.image_sha256 = m.image_sha256 AND e.metadata_hash = c.metadata_hash\n",
        after="e.image_sha256 = m.image_sha256\n",
        tests=(f"{_SEARCH_TESTS}::test_an_edit_hides_a_vector_and_its_undoing_brings_it_back",),
    ),
    Mutant(
        name="OLD_PICTURE_FOUND",
        breaks="I14",
        wrong="a picture is found by a vector of its former bytes",
        file=_SEARCH,
        before="e.image_sha256 = m.image_sha256 AND e.metadata_hash = c.metadata_hash\n",
        after="e.metadata_hash = c.metadata_hash\n",
        tests=(f"{_SEARCH_TESTS}::test_a_replaced_picture_is_not_found_any_more",),
    ),
    Mutant(
        name="WITHDRAWN_FROM_ANY_SCOPE",
        breaks="I1",
        wrong="a picture is withdrawn from the search of all scopes",
        file=_SEARCH,
        before="    WHERE v.scope_id = %(scope)s AND v.space_id = ANY (ARRAY(SELECT space_id FROM spaces))\n",
        after="    WHERE v.space_id = ANY (ARRAY(SELECT space_id FROM spaces))\n",
        tests=(f"{_UNTOUCHED}[_delete_a_meme]",),
    ),
    Mutant(
        name="ANY_SCOPE_SEARCHED",
        breaks="I1",
        wrong="a search finds the pictures of all scopes",
        file=_NEAREST,
        before="    WHERE scope_id = %(scope)s AND space_id = %(space)s {rows}\n",
        after="    WHERE space_id = %(space)s {rows}\n",
        tests=(f"{_SEARCH_TESTS}::test_other_scopes_are_never_found",),
    ),
    Mutant(
        name="ANY_SPACE_SEARCHED",
        breaks="I15",
        wrong="one query reads vectors of two embedding models",
        file=_NEAREST,
        before="    WHERE scope_id = %(scope)s AND space_id = %(space)s {rows}\n",
        after="    WHERE scope_id = %(scope)s {rows}\n",
        tests=(f"{_SEARCH_TESTS}::test_other_spaces_are_never_found",),
    ),
    Mutant(
        name="ANY_SCOPE_HAS_WORDS",
        breaks="I1",
        wrong="a search for words finds the pictures of all scopes",
        file=_SEARCH,
        before="        WHERE v.scope_id = %(scope)s AND v.space_id = %(space)s AND v.dimension = %(dimension)s\n",
        after="        WHERE v.space_id = %(space)s AND v.dimension = %(dimension)s\n",
        tests=(f"{_SEARCH_TESTS}::test_words_of_other_scopes_are_never_found",),
    ),
    Mutant(
        name="ANY_SPACE_HAS_WORDS",
        breaks="I15",
        wrong="one query reads words beside vectors of two embedding models",
        file=_SEARCH,
        before="        WHERE v.scope_id = %(scope)s AND v.space_id = %(space)s AND v.dimension = %(dimension)s\n",
        after="        WHERE v.scope_id = %(scope)s AND v.dimension = %(dimension)s\n",
        tests=(f"{_SEARCH_TESTS}::test_words_beside_vectors_of_other_spaces_are_never_found",),
    ),
    Mutant(
        name="NOT_FROZEN",
        breaks="I15",
        wrong="in memory, too, a query's lists are of one moment, and its words of a later one",
        file="src/imgproc_adapters/memory/search.py",
        before="        self._session.freeze()\n        return await self.state()\n",
        after="        return await self.state()\n",
        tests=("tests/unit/usecases/test_search.py::test_a_change_while_a_query_reads_is_no_part_of_its_answer",),
    ),
    Mutant(
        name="SERVED_SPACE_MOVES",
        breaks="I15",
        wrong="whichever process embeds last decides what a scope is searched in",
        file=_SEARCH,
        before="        WHERE scope_id = %(scope)s AND serving_space_id IS NULL\n",
        after="        WHERE scope_id = %(scope)s\n",
        tests=(f"{_SEARCH_TESTS}::test_the_first_vector_decides_what_a_scope_is_searched_in",),
    ),
    Mutant(
        name="FORMER_NAME_STAYS",
        breaks="I14",
        wrong="a picture is found by the file name it had before",
        file=_SEARCH,
        before="    ON CONFLICT (scope_id, space_id, meme_id) DO UPDATE SET words = excluded.words\n    WHERE search_vectors.words IS DISTINCT FROM excluded.words\n",
        after="    ON CONFLICT (scope_id, space_id, meme_id) DO NOTHING\n",
        tests=(f"{_SEARCH_TESTS}::test_a_new_file_name_is_found_and_the_old_one_is_not",),
    ),
    Mutant(
        name="OLD_VECTOR_STAYS",
        breaks="I14",
        wrong="a new vector does not take the place of the one that is found",
        file=_SEARCH,
        before=(
            "    ON CONFLICT (scope_id, space_id, meme_id) DO UPDATE\n"
            "    SET image_sha256 = excluded.image_sha256, metadata_hash = excluded.metadata_hash,\n"
            "        dimension = excluded.dimension, embedding = excluded.embedding, words = excluded.words\n"
        ),
        after="    ON CONFLICT (scope_id, space_id, meme_id) DO NOTHING\n",
        tests=(f"{_SEARCH_TESTS}::test_a_new_vector_takes_the_place_of_the_old_one",),
    ),
    Mutant(
        name="QUOTA_UNLOCKED",
        breaks="I8",
        wrong="two requests for the last unit are both granted",
        file=_QUOTA,
        before="        await connection.execute(_LOCK, values)\n",
        after="",
        tests=(f"{_QUOTA_TESTS}::test_a_request_waits_for_the_one_that_is_being_decided",),
    ),
    Mutant(
        name="ACQUIRED_TWICE",
        breaks="I8",
        wrong="a request that comes again is counted again",
        file=_QUOTA,
        before="        known = await _find(connection, values)\n        if known is not None:\n            return remembered(request, known)\n",
        after="",
        tests=(f"{_QUOTA_TESTS}::test_a_repeated_request_costs_nothing_and_survives_the_quota",),
    ),
    Mutant(
        name="NO_TOMBSTONE",
        breaks="I8",
        wrong="the release of a key that was never seen is forgotten",
        file=_QUOTA,
        before="    VALUES (%(scope)s, %(operation)s, %(key)s, 0, statement_timestamp(), statement_timestamp())\n",
        after=(
            "    SELECT %(scope)s, %(operation)s, %(key)s, 0, statement_timestamp(), statement_timestamp()\n"
            "    WHERE EXISTS (SELECT FROM policy_reservations k WHERE k.scope_id = %(scope)s\n"
            "        AND k.operation = %(operation)s AND k.logical_request_key = %(key)s)\n"
        ),
        tests=(f"{_QUOTA_TESTS}::TestContract::test_a_released_key_is_forbidden_for_ever",),
    ),
    Mutant(
        name="RELEASED_KEY_ACQUIRED",
        breaks="I8",
        wrong="a key that was released is granted again",
        file=_RESERVATION,
        before="    if found.released:\n",
        after="    if found.released and found.fingerprint is None:\n",
        tests=(f"{_QUOTA_TESTS}::TestContract::test_a_released_key_is_forbidden_for_ever",),
    ),
    Mutant(
        name="FINGERPRINT_UNCOMPARED",
        breaks="I8",
        wrong="a key that comes back for something else is granted",
        file=_RESERVATION,
        before="    if found.fingerprint != request.fingerprint:\n",
        after="    if found.fingerprint is None:\n",
        tests=(f"{_QUOTA_TESTS}::TestContract::test_a_key_that_comes_back_for_something_else_is_forbidden",),
    ),
    Mutant(
        name="RELEASED_KEY_COMMITTED",
        breaks="I8",
        wrong="what was released can still be spent",
        file=_QUOTA,
        before="      AND fingerprint = %(fingerprint)s AND returned_at IS NULL\n",
        after="      AND fingerprint = %(fingerprint)s\n",
        tests=(f"{_QUOTA_TESTS}::TestContract::test_what_was_committed_is_given_back_too_and_cannot_be_spent_again",),
    ),
)
