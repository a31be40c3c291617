"""`imgproc migrate` and what refuses an unmigrated database."""

from pathlib import Path

from imgproc_adapters.postgres import migrate

from .terminal import Imgproc, environment


def test_a_given_database_is_migrated_by_its_operator_and_can_go_back(
    empty_database: str, pooled: bool, tmp_path: Path
) -> None:
    imgproc = Imgproc(tmp_path / "data", environment(IMGPROC_DSN=empty_database, IMGPROC_POOLER=str(int(pooled))))
    refused = imgproc.json("status")
    assert (refused.code, refused.document["error"]) == (2, "schema_outdated")
    assert imgproc.json("migrate").document == {"before": None, "after": migrate.head(), "changed": True}
    assert imgproc.json("migrate").document["changed"] is False
    unasked = imgproc.json("migrate", "--revision", "base")
    assert (unasked.code, unasked.document["error"]) == (2, "usage_error")
    assert "--yes" in unasked.document["message"]
    assert imgproc.json("migrate", "--revision", "base", "--yes").document["after"] is None


def test_a_dsn_that_is_none_is_refused_without_being_repeated(tmp_path: Path) -> None:
    imgproc = Imgproc(tmp_path / "data", environment(IMGPROC_DSN="secret words"))
    refused = imgproc.run("migrate")
    assert refused.code == 2
    assert "secret" not in refused.err
