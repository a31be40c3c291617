"""The invariants by SQL: silent on whatever the pipeline does, and each of them told by its name when it is broken."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
from _pytest.mark.structures import ParameterSet
from psycopg.conninfo import make_conninfo
from tests.integration.postgres import broken, broken_rows
from tests.integration.postgres.broken import Broken
from tests.integration.postgres.outcomes import BYSTANDER, S

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.invariants import CHECKS, SchemaMissing, check
from imgproc_adapters.postgres.tables import METADATA
from imgproc_domain.errors import DatabaseUnavailable, InvalidValue
from imgproc_domain.scope import Scope

NUMBERS: Final = count(1)

BUSY: Final = {
    **broken.SCHEMA,
    **broken.WORK,
    **broken_rows.PERMISSION,
    **broken_rows.LIBRARY,
    **broken_rows.SEARCH,
    **broken_rows.LANES,
}


def cases_of(broken: Mapping[str, Sequence[Broken]]) -> list[ParameterSet]:
    return [
        pytest.param(name, case, id=f"{name}-{n}") for name, cases in broken.items() for n, case in enumerate(cases, 1)
    ]


def run(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


async def test_nothing_is_broken_whatever_became_of_a_picture(busy: str) -> None:
    report = await check(busy)
    assert report.lines() == []
    assert (report.holds, report.scopes, report.revision) == (True, 2, migrate.head())
    assert [result.name for result in report.results] == [each.name for each in CHECKS if not each.quiescent]
    assert not any(result.skipped or result.violations for result in report.results)


async def test_nothing_is_left_over_once_nothing_runs(quiet: str) -> None:
    report = await check(quiet, quiescent=True)
    assert report.lines() == []
    assert [result.name for result in report.results] == [each.name for each in CHECKS]


@pytest.mark.parametrize(("name", "case"), cases_of(BUSY))
async def test_what_is_broken_is_told_by_its_name(name: str, case: Broken, busy: str) -> None:
    run(busy, *case.statements)
    report = await check(busy, [S])
    assert {found.name for found in report.broken} == {name, *case.also}
    (found,) = (found for found in report.broken if found.name == name)
    assert found.violations >= len(found.examples) >= 1
    assert all(example.row and example.told for example in found.examples)


@pytest.mark.parametrize(("name", "case"), cases_of(broken_rows.LATE))
async def test_who_is_late_is_warned_of_and_breaks_nothing(name: str, case: Broken, busy: str) -> None:
    run(busy, *case.statements)
    report = await check(busy, [S])
    assert [found.name for found in report.warnings] == [name]
    assert report.holds


@pytest.mark.parametrize(("name", "case"), cases_of(broken_rows.REST))
async def test_what_is_left_over_is_told_when_nothing_should_be(name: str, case: Broken, quiet: str) -> None:
    run(quiet, *case.statements)
    report = await check(quiet, [S], quiescent=True)
    assert {found.name for found in report.broken} == {name, *case.also}
    at_work = await check(quiet, [S])
    assert {found.name for found in at_work.broken} == case.also


def test_every_check_is_known_to_find_something() -> None:
    names = [each.name for each in CHECKS]
    assert len(set(names)) == len(names)
    assert set(names) == {*BUSY, *broken_rows.LATE, *broken_rows.REST}
    assert {each.name for each in CHECKS if each.warning} == set(broken_rows.LATE)
    assert {each.name for each in CHECKS if each.quiescent} == set(broken_rows.REST)


async def test_every_reference_is_followed(busy: str) -> None:
    wanted = set()
    for table in METADATA.sorted_tables:
        for key in table.foreign_key_constraints:
            for column in set(key.column_keys) - {"scope_id"}:
                wanted.add((table.name, column))
                run(
                    busy,
                    f"ALTER TABLE {table.name} DROP CONSTRAINT {key.name}",
                    f"UPDATE {table.name} SET {column} = md5('nobody')::uuid WHERE ctid ="
                    f" (SELECT ctid FROM {table.name} WHERE scope_id = '{S}' AND {column} IS NOT NULL LIMIT 1)",
                )
    (found,) = (found for found in (await check(busy, [S], 200)).broken if found.name == "references")
    assert {(example.row.split()[0], example.told.split()[0]) for example in found.examples} == wanted


async def test_references_that_are_not_enforced_are_told(busy: str) -> None:
    if run(busy, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") != [(True,)]:
        pytest.skip("only a superuser can turn the triggers of a reference off")
    run(busy, "ALTER TABLE late_results DISABLE TRIGGER ALL")
    report = await check(busy, [S])
    assert report.lines() == [
        "I1 constraints: late_results fk_late_results_task is not enforced: its triggers are disabled"
    ]


async def test_all_are_counted_and_some_are_named(busy: str) -> None:
    ((vectors,),) = run(busy, "SELECT count(*) FROM search_vectors")
    run(busy, "DELETE FROM search_vectors")
    (found,) = (await check(busy, limit=2)).broken
    assert (found.invariant, found.name, found.violations) == ("I14", "current-not-found", vectors)
    assert [example.scope for example in found.examples] == [S, S, BYSTANDER]


async def test_a_scope_is_looked_at_alone(busy: str) -> None:
    run(busy, f"DELETE FROM search_vectors WHERE scope_id = '{BYSTANDER}'")
    assert (await check(busy, [S])).holds
    assert {each.scope for found in (await check(busy)).broken for each in found.examples} == {BYSTANDER}
    assert (await check(busy, [BYSTANDER, BYSTANDER])).broken[0].violations == 1


def test_no_statement_leaves_its_scope() -> None:
    for each in CHECKS:
        if each.scoped:
            assert not each.sql.count("%(scope)s")
            bare = re.sub(r"\(SELECT \* FROM \w+ WHERE scope_id = %\(scope\)s\)", "", each.statement)
            read = {name for name in METADATA.tables if re.search(rf"(FROM|JOIN)\s+{name}\b", bare)}
            assert read <= {"embedding_spaces"}, each.name


async def test_no_statement_reads_a_scope_once_a_row(busy: str) -> None:
    def loops(node: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        yield node["Node Type"], node["Actual Loops"]
        for child in node.get("Plans", ()):
            yield from loops(child)

    values = {"scope": S, "now": "now", "patience": "10 minutes"}
    async with await psycopg.AsyncConnection.connect(busy) as connection:
        await connection.execute("SET enable_nestloop = off")
        await connection.execute("SET max_parallel_workers_per_gather = 0")
        for each in CHECKS:
            statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {each.statement}"
            (((plan,),),) = await (await connection.execute(statement.encode(), values)).fetchall()
            again = [found for found in loops(plan["Plan"]) if found[1] > 1]
            assert not each.scoped or not again, (each.name, again)


async def test_an_engine_lends_a_connection_and_gets_it_back_as_it_was(busy: str) -> None:
    engine = open_engine(busy, pool_size=1)
    settings = "current_setting('transaction_isolation'), current_setting('enable_nestloop')"
    async with engine.connect() as connection:
        before = (await connection.exec_driver_sql(f"SELECT {settings}, pg_backend_pid()")).one()
    assert (await check(engine)).holds
    async with engine.connect() as connection:
        assert (await connection.exec_driver_sql(f"SELECT {settings}, pg_backend_pid()")).one() == before
    await engine.dispose()


async def test_reading_is_all_that_it_needs(busy: str) -> None:
    role = f"reader_{uuid4().hex[:12]}"
    run(
        busy,
        f"CREATE ROLE {role} LOGIN PASSWORD 'secret'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
    )
    try:
        report = await check(make_conninfo(busy, user=role, password="secret"), quiescent=True)
        assert not any(result.skipped for result in report.results)
    finally:
        run(busy, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def test_an_older_schema_is_checked_as_far_as_it_goes(busy: str) -> None:
    migrate.downgrade(busy, "0002")
    report = await check(busy)
    assert report.lines() == []
    assert report.revision == "0002"
    assert {result.name for result in report.results if result.skipped} == {
        *("constraints", "indexes", "known-scopes", "references"),
        *("late-result", "resolution", "call-without-slot"),
        *("filled-beside-served", "dimension-served", "served-empty"),
    }


async def test_what_cannot_be_checked_is_an_error(empty_database: str, busy: str) -> None:
    with pytest.raises(SchemaMissing, match="imgproc migrate"):
        await check(empty_database)
    with pytest.raises(DatabaseUnavailable, match="no_such_database"):
        await check(make_conninfo(busy, dbname="no_such_database"))
    with pytest.raises(InvalidValue, match="there is no scope nobody"):
        await check(busy, [Scope("nobody")])
    with pytest.raises(InvalidValue, match="limit"):
        await check(busy, limit=0)


async def test_a_check_that_takes_too_long_is_named(busy: str) -> None:
    with psycopg.connect(busy) as other:
        other.execute("LOCK TABLE operation_grants")
        with pytest.raises(DatabaseUnavailable, match="statement timeout") as ended:
            await check(busy, [S], statement_seconds=2)
    assert "while checking" in ended.value.__notes__[0]
