"""The workers: `ImageProcessingWorker` owns the three image task types, `TaskWorker` the maintenance types."""

from imgproc_app.worker.worker import ImageProcessingWorker, Pace, TaskWorker

__all__ = ["ImageProcessingWorker", "Pace", "TaskWorker"]
