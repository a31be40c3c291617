"""``imgproc prune`` as an operator types it."""

import os
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import frozen
from tests.integration.cli.terminal import Imgproc, Result, environment
from tests.integration.postgres.outcomes import BYSTANDER, S
from tests.integration.postgres.test_prune import age

from imgproc_domain.retention import Kind

JOBS: Final = "SELECT count(*) FROM image_processing_jobs"
# as a store of files on this machine makes them
KEYS: Final = """
    UPDATE memes SET storage_key = left(encode(sha256(scope_id::bytea), 'hex'), 32) || '/' || image_sha256
    RETURNING filename, storage_key
"""


@frozen
class Operator:
    imgproc: Imgproc
    dsn: str

    def types(self, *words: str) -> Result:
        return self.imgproc.run("prune", *words)

    def document(self, *words: str) -> tuple[int, Any]:
        done = self.imgproc.json("prune", *words)
        return done.code, done.document

    def keep(self, filename: str) -> Path:
        """Put the bytes of a picture into their place, a long time ago, and return it."""
        with psycopg.connect(self.dsn) as connection:
            keys: dict[str, str] = dict(connection.execute(KEYS).fetchall())
        folder, digest = keys[filename].split("/")
        path = self.imgproc.data_dir / "blobs" / "objects" / folder / digest[:2] / digest
        path.parent.mkdir(parents=True)
        path.write_bytes(b"a cat")
        os.utime(path, (0, 0))
        return path

    def jobs(self) -> int:
        with psycopg.connect(self.dsn) as connection:
            ((count,),) = connection.execute(JOBS).fetchall()
        return int(count)


@pytest.fixture
def operator(quiet: str, tmp_path: Path) -> Operator:
    age(quiet)
    return Operator(Imgproc(tmp_path / "data", environment(IMGPROC_DSN=quiet)), quiet)


def test_what_would_go_goes_in_every_scope(operator: Operator) -> None:
    before, deleted = operator.jobs(), operator.keep("deleted.png")
    code, would = operator.document("--dry-run")
    assert (code, would["dry_run"], would["scopes"], would["older_than_seconds"]) == (0, True, 2, 90 * 86_400)
    assert would["pruned"].keys() == {kind.value for kind in Kind}
    assert operator.jobs() == before
    assert deleted.exists()
    code, gone = operator.document("--batch", "3", "--pause", "0.001")
    assert (code, gone["dry_run"]) == (0, False)
    assert gone["pruned"]["jobs"] == would["pruned"]["jobs"] == before - operator.jobs() > 0
    assert gone["pruned"]["memes"] == gone["pruned"]["blobs"] == 2
    assert not deleted.exists()
    done = operator.types()
    assert (done.code, done.out, done.err) == (0, "0 rows and files gone in 2 scopes\n", "")


def test_a_scope_can_be_named_and_an_age(operator: Operator) -> None:
    code, found = operator.document("--scope", BYSTANDER, "--vectors", "--older-than", "12w")
    gone = {kind: count for kind, count in found["pruned"].items() if count}
    assert (code, found["scopes"], gone) == (0, 1, {"reservations": 1}), "that of its upload"
    done = operator.types("--scope", S, "--dry-run")
    assert done.code == 0
    assert "would go" in done.out
    assert "late results" not in done.out, "what there is none of is not listed"
    code, found = operator.document("--scope", S, "--older-than", "101d")
    assert (code, sum(found["pruned"].values())) == (0, 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--older-than", "23h"), "validation_error"),
        (("--older-than", "soon"), "validation_error"),
        (("--scope", "nobody"), "validation_error"),
        (("--batch", "0"), "usage_error"),
        (("--pause", "-1"), "usage_error"),
    ],
)
def test_errors_are_told_in_one_document(operator: Operator, words: tuple[str, ...], error: str) -> None:
    code, document = operator.document(*words)
    assert (code, document["error"]) == (2, error)
