"""A folder is imported, looked at, searched, and imported again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen

from .terminal import Imgproc, Result, copied

GOOD = ("coffee-loading.jpg", "macaw.jpg")
NESTED = ("flower-season.png",)


@frozen
class Library:
    imgproc: Imgproc
    folder: Path
    first_import: Result

    def files(self) -> dict[str, list[Any]]:
        by_name: dict[str, list[Any]] = {}
        for line in self.first_import.lines[:-1]:
            by_name.setdefault(line["file"], []).append(line)
        return by_name


@pytest.fixture(scope="module")
def library(imgproc: Imgproc, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("pictures")
    copied(GOOD, folder)
    copied(NESTED, folder / "deep" / "er")
    (folder / "copy of macaw.jpg").write_bytes((folder / "macaw.jpg").read_bytes())
    (folder / "notes.txt").write_text("no picture and no claim to be one")
    (folder / "text.jpg").write_text("no picture, whatever its name says")
    (folder / "deep" / "cut.png").write_bytes((folder / "deep" / "er" / "flower-season.png").read_bytes()[:2_000])
    (folder / ".hidden.jpg").write_bytes((folder / "macaw.jpg").read_bytes())
    (folder / "link.jpg").symlink_to(folder / "macaw.jpg")
    return Library(imgproc, folder, imgproc.json("import", str(folder)))


def test_an_import_takes_what_is_a_picture_and_says_why_the_rest_is_not(library: Library) -> None:
    summary = library.first_import.lines[-1]["summary"]
    assert (summary["imported"], summary["present"]) == (3, 1)
    assert (summary["rejected"], summary["skipped"]) == (2, 2)
    assert summary["jobs"] == {"succeeded": 3}
    errors = {name: lines[0]["error"] for name, lines in library.files().items() if lines[0]["error"]}
    assert errors == {
        "text.jpg": "unsupported_media",
        "deep/cut.png": "image_corrupt",
        "notes.txt": "unsupported_media",
        "link.jpg": "no_regular_file",
    }
    assert library.first_import.code == 1


def test_a_second_import_changes_nothing(library: Library) -> None:
    before = library.imgproc.json("status").document
    again = library.imgproc.run("import", str(library.folder))
    assert again.code == 1
    rows = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in again.out.splitlines() if "│" in line}
    assert rows["imported"] == "0"
    assert rows["already there"] == "4"
    assert "text.jpg" in again.out
    assert "deep/cut.png" in again.out
    assert library.imgproc.json("status").document == before


@pytest.mark.parametrize(
    ("query", "expected"), [("a red parrot", "macaw.jpg"), ("早上不喝咖啡就没精神", "coffee-loading.jpg")]
)
def test_a_search_finds_by_meaning_in_both_languages(library: Library, query: str, expected: str) -> None:
    found = library.imgproc.json("search", query, "-n", "2").document
    assert found["results"][0]["filename"] in (expected, f"copy of {expected}")
    assert len(found["results"]) == 2
    assert found["coverage"] == {"searchable": 3, "total": 3}


def test_a_search_finds_a_file_by_its_name_and_says_what_matched(library: Library) -> None:
    found = library.imgproc.json("search", "flower-season.png", "-n", "1").document
    assert (found["mode"], found["results"][0]["filename"]) == ("hybrid", "flower-season.png")
    assert "file_name" in found["results"][0]["matched"]
    semantic = library.imgproc.json("search", "flower-season.png", "--mode", "semantic").document
    assert semantic["mode"] == "semantic"
    assert {tuple(result["matched"]) for result in semantic["results"]} == {("meaning",)}
    told = library.imgproc.run("search", "flower-season.png", "-n", "1").out
    assert "file name" in told


def test_a_search_goes_on_where_it_ended(library: Library) -> None:
    everything = [hit["meme_id"] for hit in library.imgproc.json("search", "parrot").document["results"]]
    seen: list[str] = []
    skip: int | None = 0
    while skip is not None:
        found = library.imgproc.json("search", "parrot", "-n", "2", "--skip", str(skip)).document
        seen += [hit["meme_id"] for hit in found["results"]]
        skip = found["next_offset"]
    assert seen == everything
    assert len(seen) == 3


def test_a_search_of_an_empty_library_says_what_to_do(library: Library) -> None:
    demo = library.imgproc.data_dir / "demo"
    (demo / "postgres").mkdir(parents=True)
    empty = library.imgproc.json("search", "anything", IMGPROC_SCOPE="nobody")
    assert f"--data-dir {demo} search" in empty.document["hint"]
    assert empty.code == 2
    assert empty.document["error"] == "cache_not_ready"
    assert "imgproc import" in empty.err


def test_the_status_of_one_job_shows_its_three_stages(library: Library) -> None:
    job_id = library.files()["coffee-loading.jpg"][0]["job_id"]
    job = library.imgproc.json("status", job_id).document
    assert (job["filename"], job["status"]) == ("coffee-loading.jpg", "succeeded")
    assert [stage["stage"] for stage in job["stages"]] == ["visual", "agent", "text_embedding"]
    assert {stage["status"] for stage in job["stages"]} == {"succeeded"}


def test_what_succeeded_is_not_retried(library: Library) -> None:
    job_id = library.files()["coffee-loading.jpg"][0]["job_id"]
    refused = library.imgproc.json("retry", job_id)
    assert (refused.code, refused.document["error"]) == (2, "job_not_retryable")
    everything = library.imgproc.json("retry", "--failed")
    assert (everything.code, everything.document) == (0, {"summary": {"retried": 0, "refused": 0}})


def test_an_unknown_job_is_one_red_line(library: Library) -> None:
    unknown = library.imgproc.run("status", str(uuid4()))
    assert unknown.code == 2
    assert unknown.err.splitlines()[0] == "error: there is no such job"


def test_the_doctor_finds_everything_in_order(library: Library) -> None:
    report = library.imgproc.json("doctor")
    verdicts = {check["check"]: check["verdict"] for check in report.document["checks"]}
    assert {name for name, verdict in verdicts.items() if verdict == "failed"} <= {"packages"}
    parts = ("database", "pgvector", "btree_gin", "locale", "schema", "decoder", "visual model", "agent", "text model")
    assert {name: verdicts[name] for name in parts} == dict.fromkeys(parts, "ok")
    assert report.code == int("failed" in verdicts.values())
