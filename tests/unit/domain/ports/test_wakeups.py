"""Every queue can be hinted at."""

from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.stage import TaskType


def test_every_task_type_has_its_topic() -> None:
    assert {topic.value for topic in Topic} == {*map(str, TaskType), "jobs", "releases"}
