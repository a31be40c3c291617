"""Every statement that the adapters can send, found where it is made."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Final

from attrs import frozen

from imgproc_adapters import policy, postgres
from imgproc_adapters.postgres import changes, inserts, nearest, processing_sql
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import TaskStatus

FORMS: Final = {
    "processing_sql.job_page": [
        processing_sql.job_page(status, stage) for status in (None, *JobStatus) for stage in (None, *Stage)
    ],
    "processing_sql.task_page": [
        processing_sql.task_page(kind, status) for kind in (None, *TaskType) for status in (None, *TaskStatus)
    ],
    "nearest.by_index": [nearest.by_index(384)],
    "inserts.insertion": [
        inserts.insertion("tasks", "task_id", ("ids", "meme_id"), ("status", "created_at")),
        inserts.insertion("image_processing_jobs", "job_id", ("ids",), ()),
    ],
    "changes.update": [changes.update("tasks", ("status", "completed_at"), "task_id = ANY (%(ids)s)")],
}
"""What is put together when it is asked for, in the forms it can have."""

_STATEMENT: Final = re.compile(rb"\s*(WITH|SELECT|INSERT|UPDATE|DELETE|LISTEN|NOTIFY)\b")
_KEPT: Final = ast.Assign | ast.AnnAssign
_WRITES: Final = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) +[a-z_]+")


@frozen
class Found:
    """A statement and where it is: ``module.NAME``."""

    name: str
    sql: str

    @property
    def writes(self) -> bool:
        return _WRITES.search(self.sql.replace("DO UPDATE SET", "")) is not None


def all_statements() -> Sequence[Found]:
    """Return every statement kept in a module of the adapters, and those that are put together on demand."""
    kept = {found.sql: found for module in modules() for found in _kept(module)}.values()
    made = [Found(name, sql.decode()) for name, forms in FORMS.items() for sql in forms]
    return [*kept, *made]


def modules() -> Sequence[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in (postgres, policy)
        for module in pkgutil.iter_modules(package.__path__)
    ]


def _kept(module: ModuleType) -> Iterator[Found]:
    short = module.__name__.rpartition(".")[2]
    for name, value in vars(module).items():
        yield from (Found(f"{short}.{name}", sql.decode()) for sql in _within(value) if _STATEMENT.match(sql))


def _within(value: object) -> Iterator[bytes]:
    """Yield the bytes of a value, however deep they are in tables of statements."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, Mapping):
        yield from _within(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _within(each)


def made_when_asked() -> set[str]:
    """Return the functions that put a statement together and are not only called while their module is loaded."""
    found = set()
    for module in modules():
        tree = ast.parse(inspect.getsource(module))
        makers = {
            each.name
            for each in tree.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_is_statement, ast.walk(each)))
        }
        at_once = {name for node in tree.body if isinstance(node, _KEPT) for name in _called(node)}
        later = {name for node in tree.body if not isinstance(node, _KEPT) for name in _called(node)}
        found |= {
            f"{module.__name__.rpartition('.')[2]}.{name}" for name in makers if name in later or name not in at_once
        }
    return found


def _called(node: ast.AST) -> set[str]:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def kept_by_source() -> int:
    """Return how many statements are made and kept at the top of a module, as the sources have them."""
    count = 0
    for module in modules():
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, _KEPT):
                count += any(_is_statement(each) for each in ast.walk(node))
    return count


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "statement"
