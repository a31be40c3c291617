"""Settings come from the environment, under what was given on the command line."""

from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_app.container import limits_of, pace_of
from imgproc_app.settings import Settings, default_data_dir, load_settings
from imgproc_domain.errors import InvalidValue
from imgproc_domain.stage import Lane


def test_the_data_directory_follows_the_desktop_standard() -> None:
    assert default_data_dir({"XDG_DATA_HOME": "/data"}) == Path("/data/imgproc")
    assert default_data_dir({}) == Path.home() / ".local" / "share" / "imgproc"


def test_each_setting_has_a_variable_and_an_option_wins() -> None:
    environ = {"IMGPROC_PORT": "9000", "IMGPROC_POOLER": "yes", "IMGPROC_LEASE_SECONDS": "2.5", "IMGPROC_DSN": ""}
    settings = load_settings(environ, port=None, host="::1")
    assert (settings.port, settings.host, settings.pooler) == (9000, "::1", True)
    assert settings.lease == timedelta(seconds=2.5)
    assert settings.dsn is None
    assert load_settings(environ, port=1).port == 1


def test_a_tilde_in_the_data_directory_is_the_home_directory() -> None:
    assert load_settings({"IMGPROC_DATA_DIR": "~/pictures"}).data_dir == Path.home() / "pictures"
    assert load_settings({"XDG_DATA_HOME": "/x"}).blob_dir == Path("/x/imgproc/blobs")


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("IMGPROC_PORT", "eighty", "IMGPROC_PORT"),
        ("IMGPROC_PORT", "70000", "port"),
        ("IMGPROC_POOLER", "perhaps", "IMGPROC_POOLER"),
        ("IMGPROC_TEXT_MODEL", "gpt", "text_model"),
        ("IMGPROC_SCOPE", "../up", "scope"),
        ("IMGPROC_LOG_LEVEL", "loud", "log_level"),
    ],
)
def test_a_value_without_meaning_is_refused_by_name_in_one_plain_sentence(
    variable: str, value: str, named: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        load_settings({variable: value})
    assert named in refused.value.message
    assert "Attribute(" not in refused.value.message


def test_limits_and_pace_are_those_of_the_settings() -> None:
    settings = Settings(visual_lane=3, agent_lane=5, upload_mb=2, shutdown_seconds=7, poll_seconds=0.5)
    limits, pace = limits_of(settings), pace_of(settings)
    assert (limits.lanes[Lane.VISUAL], limits.lanes[Lane.AGENT]) == (3, 5)
    assert limits.upload_bytes == 2 * 1024 * 1024
    assert (pace.poll, pace.grace) == (0.5, 7)
