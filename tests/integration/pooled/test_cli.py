"""The command line over a database behind pgbouncer: IMGPROC_DSN leads to it, and IMGPROC_POOLER says so."""

from pathlib import Path

from tests.integration.cli.terminal import Imgproc, copied, environment

from imgproc_adapters.postgres import migrate


def test_a_library_is_migrated_filled_looked_at_and_searched(empty_database: str, tmp_path: Path) -> None:
    imgproc = Imgproc(tmp_path / "data", environment(IMGPROC_DSN=empty_database, IMGPROC_POOLER="1"))
    copied(("coffee-loading.jpg", "macaw.jpg"), tmp_path / "pictures")
    assert imgproc.json("migrate").document == {"before": None, "after": migrate.head(), "changed": True}
    imported = imgproc.json("import", str(tmp_path / "pictures"))
    assert (imported.code, imported.lines[-1]["summary"]["jobs"]) == (0, {"succeeded": 2}), imported.err
    status = imgproc.json("status")
    assert (status.code, status.document["pictures"]["succeeded"]) == (0, 2), status.err
    found = imgproc.json("search", "a red parrot", "-n", "1")
    assert (found.code, found.document["results"][0]["filename"]) == (0, "macaw.jpg"), found.err
