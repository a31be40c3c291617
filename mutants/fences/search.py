"""What searches may find, in which space, and what a switch, a backfill and a legacy index look at before they do."""

from typing import Final

from mutants.kinds import Edit, Mutant, Wall

_SEARCH: Final = "src/imgproc_domain/usecases/search.py"
_LEGACY: Final = "src/imgproc_domain/usecases/legacy.py"
_MIGRATE: Final = "src/imgproc_domain/usecases/migrate_search.py"
_BACKFILL: Final = "src/imgproc_domain/usecases/backfill.py"
_EMBEDDING: Final = "src/imgproc_domain/usecases/embedding.py"
_SETTLE: Final = "src/imgproc_domain/usecases/settle.py"
_VIEWS: Final = "src/imgproc_domain/usecases/views.py"
_SETTLEMENT: Final = "src/imgproc_domain/settlement.py"
_NEAREST: Final = "src/imgproc_adapters/postgres/nearest.py"
_FOUND: Final = "src/imgproc_adapters/postgres/search.py"
_STATE: Final = "src/imgproc_adapters/postgres/search_state.py"
_GENERATIONS: Final = "src/imgproc_adapters/postgres/generations.py"
_SIMILAR: Final = "src/imgproc_adapters/postgres/similar.py"

_CONTRACTS: Final = "tests/integration/contracts/test_postgres.py"
_SEARCH_TESTS: Final = f"{_CONTRACTS}::TestSearch"
_GENERATION_TESTS: Final = f"{_CONTRACTS}::TestGenerations"
_RECHECKED: Final = f"{_GENERATION_TESTS}::test_an_entry_is_compared_with_what_is_stored_now"
_MIGRATION_TESTS: Final = f"{_CONTRACTS}::TestMigration"
_SIMILAR_TESTS: Final = f"{_CONTRACTS}::TestSimilar"
_FINDABLE: Final = "tests/unit/usecases/test_findable.py"
_BACKFILL_TESTS: Final = "tests/unit/usecases/test_backfill.py"
_LEGACY_TESTS: Final = "tests/unit/usecases/test_legacy.py"
_FAILURE: Final = f"{_BACKFILL_TESTS}::test_one_failure_is_counted_with_its_reason_and_stops_nobody"
_INTERLEAVED: Final = "tests/integration/postgres/test_search_interleavings.py"
_WRITING: Final = "tests/integration/postgres/test_search_write_interleavings.py"

MUTANTS: Final = (
    Mutant(
        name="OLD_WORDS_PUBLISHED",
        breaks="I5",
        wrong="a vector is published whatever the context says by then",
        file=_SETTLEMENT,
        before="    return context is not None and context.metadata_hash == product.metadata_hash\n",
        after="    return context is not None or product.metadata_hash == product.image_sha256\n",
        tests=(f"{_WRITING}::test_a_write_back_that_waits_for_a_change_writes_nothing[edited]",),
    ),
    Mutant(
        name="MOVED_WORDS_KEPT",
        breaks="I14",
        wrong="words that an agent moved to another field are found where they were",
        file=_SETTLE,
        before="    return (before.status, before.description) != (after.status, after.description)\n",
        after="    return before.metadata_hash != after.metadata_hash\n",
        tests=(f"{_FINDABLE}::test_words_that_move_to_another_field_are_found_there_alone",),
    ),
    Mutant(
        name="OWN_SPACE_TOLD",
        breaks="I14",
        wrong="people are told what a search in the process's own space would find",
        file=_VIEWS,
        before="    space = deployment.serving(state)\n",
        after="    space = deployment.text.space\n",
        tests=(f"{_FINDABLE}::test_people_are_told_what_is_found_in_the_space_that_serves",),
    ),
    Mutant(
        name="READ_AS_IT_CHANGES",
        breaks="I15",
        wrong="each statement of a query reads what is committed by then, so that its lists are of different states",
        file=_FOUND,
        before='b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"',
        after='b"SET TRANSACTION READ ONLY"',
        tests=(
            f"{_SEARCH_TESTS}::test_what_is_read_is_of_the_moment_at_which_reading_began",
            f"{_INTERLEAVED}::test_a_query_finds_a_picture_that_is_deleted_meanwhile_or_not",
        ),
    ),
    Mutant(
        name="ANOTHER_SPACE_S_QUERY",
        breaks="I15",
        wrong="a query that was embedded for one space is answered in another",
        file=_SEARCH,
        before="    if asked.space != reading.space:\n",
        after="    if asked.space is None:\n",
        tests=(f"{_INTERLEAVED}::test_a_query_reads_one_space_whichever_is_switched_to_meanwhile",),
    ),
    Mutant(
        name="SWITCHED_TO_A_HALF",
        breaks="I15",
        wrong="a switch does not look again, under its lock, whether something is missing",
        file=_MIGRATE,
        before="        await _expect_complete(tx, target, allow_missing)\n        return steps.switch(",
        after="        return steps.switch(",
        tests=(
            "tests/integration/postgres/test_search_races.py::test_a_switch_that_waited_is_refused_by_what_it_finds",
        ),
    ),
    Mutant(
        name="SWITCH_WAITS_FOR_NOBODY",
        breaks="I15",
        wrong="what is being made findable does not hold the state that is about to be switched",
        file=_FOUND,
        before="mode = 'backfill') FOR SHARE\n",
        after="mode = 'backfill')\n",
        tests=(f"{_MIGRATION_TESTS}::test_a_step_waits_for_what_is_being_made_findable",),
    ),
    Mutant(
        name="STATE_UNLOCKED",
        breaks="I15",
        wrong="two steps decide on one state",
        file=_STATE,
        before='WHERE s.scope_id = %(scope)s FOR UPDATE"',
        after='WHERE s.scope_id = %(scope)s"',
        tests=(f"{_WRITING}::test_of_two_switches_one_is_taken",),
    ),
    Mutant(
        name="WORDLESS_NOT_MISSING",
        breaks="I15",
        wrong="a vector whose words are not known counts as complete",
        file=_STATE,
        before=" AND v.words IS NOT NULL\n",
        after="\n",
        tests=(f"{_WRITING}::test_words_that_are_not_known_yet_are_missing_until_a_backfill_has_passed",),
    ),
    Mutant(
        name="BACKFILLED_OVER_A_CHANGE",
        breaks="I5",
        wrong="a backfill makes findable what it embedded, whatever the picture is by then",
        file=_BACKFILL,
        before=" if key in now and now[key].version == sources[key].version}",
        after=" if key in now}",
        tests=(f"{_BACKFILL_TESTS}::test_a_picture_that_changed_while_it_was_embedded_is_left_alone",),
    ),
    Mutant(
        name="ANY_DIMENSION_TAKEN",
        breaks="I14",
        wrong="a vector of another dimension than its space is stored",
        file=_EMBEDDING,
        before="    if vector.dimension != space.dimension:\n",
        after="    if vector.dimension == 0:\n",
        tests=(_FAILURE,),
    ),
    Mutant(
        name="NO_DIRECTION_TAKEN",
        breaks="I14",
        wrong="a vector of zeros, or of no numbers, is stored",
        file=_EMBEDDING,
        before="    if not abs(math.hypot(*vector.components) - 1.0) <= _LENGTH_TOLERANCE:\n",
        after="    if abs(math.hypot(*vector.components) - 1.0) > 2.0:\n",
        tests=(_FAILURE,),
    ),
    Mutant(
        name="NEAREST_OF_ALL_SCOPES",
        breaks="I1",
        wrong="the nearest pictures of all scopes are found",
        file=_NEAREST,
        before="    WHERE scope_id = %(scope)s AND space_id = %(space)s {rows}\n",
        after="    WHERE space_id = %(space)s {rows}\n",
        tests=(f"{_SEARCH_TESTS}::test_other_scopes_are_never_found",),
    ),
    Mutant(
        name="NEAREST_OF_ALL_SPACES",
        breaks="I14",
        wrong="vectors of another model are compared with the query",
        file=_NEAREST,
        before="    WHERE scope_id = %(scope)s AND space_id = %(space)s {rows}\n",
        after="    WHERE scope_id = %(scope)s {rows}\n",
        tests=(f"{_SEARCH_TESTS}::test_other_spaces_are_never_found",),
    ),
    Mutant(
        name="WORDS_OF_ALL_SCOPES",
        breaks="I1",
        wrong="words of all scopes are found",
        file=_FOUND,
        before="        WHERE v.scope_id = %(scope)s AND v.space_id = %(space)s AND v.dimension",
        after="        WHERE v.space_id = %(space)s AND v.dimension",
        tests=(f"{_SEARCH_TESTS}::test_words_of_other_scopes_are_never_found",),
    ),
    Mutant(
        name="DELETED_LOOKS_ALIKE",
        breaks="I14",
        wrong="a deleted picture is among those that look alike",
        file=_SIMILAR,
        before="          AND m.image_sha256 = n.image_sha256 AND m.deleted_at IS NULL\n",
        after="          AND m.image_sha256 = n.image_sha256\n",
        tests=(f"{_SIMILAR_TESTS}::test_a_deleted_picture_is_not_seen_any_more",),
    ),
    Mutant(
        name="FORMER_PICTURE_LOOKS_ALIKE",
        breaks="I14",
        wrong="a picture is seen as it was before it was replaced",
        file=_SIMILAR,
        before="          AND m.image_sha256 = n.image_sha256 AND m.deleted_at IS NULL\n",
        after="          AND m.deleted_at IS NULL\n",
        tests=(f"{_SIMILAR_TESTS}::test_a_replaced_picture_is_seen_as_it_is_now_and_never_as_it_was",),
    ),
    Mutant(
        name="LEGACY_PICTURE_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry of a former picture is found",
        file=_GENERATIONS,
        before=" AND m.meme_id = e.meme_id AND m.image_sha256 = e.image_sha256\n",
        after=" AND m.meme_id = e.meme_id\n",
        tests=(_RECHECKED,),
    ),
    Mutant(
        name="LEGACY_EXISTENCE_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry of a deleted picture is found",
        file=_GENERATIONS,
        before="          AND m.deleted_at IS NULL LIMIT 1\n",
        after="          LIMIT 1\n",
        tests=(_RECHECKED,),
    ),
    Mutant(
        name="LEGACY_WORDS_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry of former words is found",
        file=_GENERATIONS,
        before=" AND c.meme_id = e.meme_id AND c.metadata_hash = e.metadata_hash\n",
        after=" AND c.meme_id = e.meme_id\n",
        tests=(_RECHECKED,),
    ),
    Mutant(
        name="LEGACY_STATUS_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry whose context needs repair is found",
        file=_GENERATIONS,
        before="          AND c.status = ANY (%(usable)s) LIMIT 1\n",
        after="          LIMIT 1\n",
        tests=(_RECHECKED,),
    ),
    Mutant(
        name="LEGACY_DIMENSION_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry of another dimension than its generation counts as usable",
        file=_GENERATIONS,
        before="        AND e.dimension = g.dimension\n",
        after="",
        tests=(f"{_INTERLEAVED}::test_a_legacy_entry_of_another_dimension_than_its_generation_is_not_usable",),
    ),
    Mutant(
        name="LEGACY_COMPLETION_UNCHECKED",
        breaks="I15",
        wrong="a legacy index is read before it is complete",
        file=_GENERATIONS,
        before="g.generation_id = %(id)s AND g.completed_at IS NOT NULL\n      AND e.scope_id",
        after="g.generation_id = %(id)s\n      AND e.scope_id",
        tests=(f"{_GENERATION_TESTS}::test_an_incomplete_a_foreign_and_an_unknown_generation_find_nothing",),
    ),
    Mutant(
        name="LEGACY_FILE_UNCHECKED",
        breaks="I15",
        wrong="a legacy entry whose file is gone is found",
        file=_LEGACY,
        before=" for entry in page if files.known[entry.storage_key]]\n",
        after=" for entry in page]\n",
        tests=(f"{_LEGACY_TESTS}::test_a_picture_whose_file_is_gone_is_not_found_and_its_place_is_filled",),
    ),
)

WALLS: Final = (
    Wall(
        name="ALIKE_IN_ALL_SCOPES",
        breaks="I1",
        why="what is near in another scope is no picture of this one",
        left_out=Edit(
            _SIMILAR,
            "        WHERE scope_id = %(scope)s AND space_id = %(space)s AND dimension = %(dimension)s\n",
            "        WHERE space_id = %(space)s AND dimension = %(dimension)s\n",
        ),
        other=Edit(
            _SIMILAR,
            "FROM memes m WHERE m.scope_id = %(scope)s AND m.meme_id = n.meme_id\n",
            "FROM memes m WHERE m.meme_id = n.meme_id\n",
        ),
        tests=(f"{_SIMILAR_TESTS}::test_pictures_of_other_scopes_are_never_seen",),
    ),
)
