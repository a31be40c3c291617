"""A worker that can put no configuration in force may stand still for ever: nobody is to find that out by waiting."""

import logging

import pytest
from tests.unit.usecases.site import Site

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.seed import A
from imgproc_app.worker.worker import ImageProcessingWorker
from imgproc_domain.scope import Scope


@pytest.mark.parametrize("home", [None, A])
async def test_a_worker_without_a_home_says_when_it_will_not_work(
    home: Scope | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "imgproc_app.worker.worker")
    site = Site()
    listener = MemoryListener(site.store)
    worker = ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, listener, home=home)
    await worker.start()
    await worker.stop()
    said = [record.message for record in caplog.records if "has no home" in record.message]
    assert len(said) == (home is None)
    assert all("another configuration is in force" in message for message in said)
