"""Lists, details, originals and thumbnails."""

import hashlib
import io
from urllib.parse import quote

import pytest
from PIL import Image
from tests.integration.http.site import Site, png


async def test_pictures_are_listed_newest_first_page_by_page(site: Site) -> None:
    made = [await site.upload(f"{n}.png") for n in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, str | int] = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await site.alice.get("/images", params=params)).json()
        seen += [item["meme_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [item["meme_id"] for item in reversed(made)]


async def test_pictures_are_found_by_part_of_their_name(site: Site) -> None:
    await site.upload("Cat on a keyboard.png")
    await site.upload("狗.png")
    for search, expected in (("KEYBOARD", ["Cat on a keyboard.png"]), ("狗", ["狗.png"]), ("%", [])):
        page = (await site.alice.get("/images", params={"search": search})).json()
        assert [item["filename"] for item in page["items"]] == expected


async def test_pictures_are_found_by_the_status_of_their_newest_job(site: Site) -> None:
    item = await site.upload("cat.png")
    for status, expected in (("queued", []), ("running", [item["meme_id"]]), ("failed", [])):
        page = (await site.alice.get("/images", params={"status": status})).json()
        assert [found["meme_id"] for found in page["items"]] == expected
    refused = await site.alice.get("/images", params={"status": "sleeping"})
    assert (refused.status_code, refused.json()["error"]) == (422, "validation_error")


async def test_a_picture_tells_what_it_is_and_why_it_cannot_be_found(site: Site) -> None:
    item = await site.upload("cat.png", png("cat"))
    (listed,) = (await site.alice.get("/images")).json()["items"]
    assert listed["image_sha256"] == hashlib.sha256(png("cat")).hexdigest()
    assert (listed["width"], listed["height"], listed["frames"]) == (24, 24, 1)
    assert (listed["media_type"], listed["byte_size"]) == ("image/png", len(png("cat")))
    assert listed["products"] == {"visual": "missing", "agent": "missing", "text_embedding": "missing"}
    assert (listed["context_status"], listed["not_searchable"]) == ("pending", "context_pending")
    assert listed["job"]["job_id"] == item["job"]["job_id"]
    assert listed["media_url"] == f"/media/{item['meme_id']}"
    detail = (await site.alice.get(f"/images/{item['meme_id']}")).json()
    assert detail == listed | {"context": None}


async def test_the_detail_has_the_context_but_never_the_attempt_that_made_it(site: Site) -> None:
    item = await site.upload()
    await site.describe(item["meme_id"], "a surprised cat")
    detail = (await site.alice.get(f"/images/{item['meme_id']}")).json()
    assert (detail["title"], detail["context_status"], detail["not_searchable"]) == ("a surprised cat", "partial", None)
    context = detail["context"]
    assert (context["context_revision"], context["uncertainties"]) == (1, ["everything"])
    assert context["provenance"]["agent_fingerprint"] == "agent-test"
    assert set(context["provenance"]) == {
        "origin",
        "image_sha256",
        "schema_version",
        "agent_fingerprint",
        "reverse_image_policy",
    }


async def test_the_original_is_served_as_it_was_stored_and_can_do_no_harm(site: Site) -> None:
    item = await site.upload("cat.html", png("cat"))
    answer = await site.alice.get(f"/media/{item['meme_id']}")
    assert answer.status_code == 200
    assert answer.content == png("cat")
    headers = answer.headers
    assert headers["content-type"] == "image/png"
    assert headers["content-length"] == str(len(png("cat")))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["etag"] == f'"{hashlib.sha256(png("cat")).hexdigest()}"'
    assert headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("name", ['a"b.png', "猫 和 键盘.png", "a%22;x=y.png", "naïve.png"])
async def test_any_file_name_survives_in_the_disposition(site: Site, name: str) -> None:
    item = await site.upload(name)
    header = (await site.alice.get(f"/media/{item['meme_id']}")).headers["content-disposition"]
    assert header.startswith('inline; filename="')
    assert header.endswith(f"filename*=UTF-8''{quote(item['filename'], safe='')}")
    assert header.count('"') == 2


@pytest.mark.parametrize("suffix", ["", "/thumbnail"])
async def test_what_a_client_has_is_not_sent_again(site: Site, suffix: str) -> None:
    item = await site.upload()
    path = f"/media/{item['meme_id']}{suffix}"
    etag = (await site.alice.get(path)).headers["etag"]
    for header in (etag, f'"other", W/{etag}', "*"):
        answer = await site.alice.get(path, headers={"If-None-Match": header})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert (await site.alice.get(path, headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-9", 0, 9), ("bytes=10-", 10, None), ("bytes=-5", -5, None), ("bytes=3-3", 3, 3)],
)
async def test_one_range_is_served(site: Site, asked: str, first: int, last: int | None) -> None:
    data = png("cat")
    item = await site.upload("cat.png", data)
    answer = await site.alice.get(f"/media/{item['meme_id']}", headers={"Range": asked})
    expected = data[first:] if last is None else data[first : last + 1]
    assert (answer.status_code, answer.content) == (206, expected)
    start = data.index(expected) if first < 0 else first
    assert answer.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(data)}"


async def test_a_range_behind_the_end_cannot_be_served(site: Site) -> None:
    data = png("cat")
    item = await site.upload("cat.png", data)
    answer = await site.alice.get(f"/media/{item['meme_id']}", headers={"Range": f"bytes={len(data)}-"})
    assert (answer.status_code, answer.json()["error"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(data)}"


@pytest.mark.parametrize("asked", ["bytes=0-1,4-5", "pages=1-2", "bytes=5-1", "bytes=-", "nonsense"])
async def test_other_ranges_are_answered_with_the_whole(site: Site, asked: str) -> None:
    item = await site.upload("cat.png", png("cat"))
    answer = await site.alice.get(f"/media/{item['meme_id']}", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (200, png("cat"))


async def test_a_range_of_another_version_is_answered_with_the_whole(site: Site) -> None:
    item = await site.upload("cat.png", png("cat"))
    answer = await site.alice.get(
        f"/media/{item['meme_id']}", headers={"Range": "bytes=0-1", "If-Range": '"an older version"'}
    )
    assert (answer.status_code, answer.content) == (200, png("cat"))


async def test_a_thumbnail_is_small_webp_without_metadata_and_made_once(site: Site) -> None:
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (1200, 600), "teal").save(buffer, "JPEG", exif=exif)
    item = await site.upload("wide.jpg", buffer.getvalue())
    for _ in range(3):
        answer = await site.alice.get(f"/media/{item['meme_id']}/thumbnail")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
        small = Image.open(io.BytesIO(answer.content))
        assert (small.size, dict(small.getexif())) == ((320, 160), {})
    assert site.decoder.thumbnails_made == 1


@pytest.mark.parametrize("suffix", ["", "/thumbnail"])
async def test_head_has_the_headers_of_get_and_no_body(site: Site, suffix: str) -> None:
    item = await site.upload()
    path = f"/media/{item['meme_id']}{suffix}"
    full, head = await site.alice.get(path), await site.alice.head(path)
    assert (head.status_code, head.content) == (200, b"")
    differing = {name for name in full.headers if full.headers[name] != head.headers.get(name)} - {"date"}
    assert differing == set()


async def test_bytes_that_are_gone_are_no_picture(site: Site) -> None:
    item = await site.upload()
    for path in (site.root / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    for suffix in ("", "/thumbnail"):
        answer = await site.alice.get(f"/media/{item['meme_id']}{suffix}")
        assert (answer.status_code, answer.json()["error"]) == (404, "meme_not_found")
