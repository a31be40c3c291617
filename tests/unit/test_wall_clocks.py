"""What is stored and decided goes by the database's clock: nothing reads the machine's but what is named here."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"

READERS = {
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "time.asctime",
    "time.clock_gettime",
    "time.clock_gettime_ns",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.strftime",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
    "uuid.uuid6",
    "uuid.uuid7",
}

HARMLESS = {
    ("imgproc_adapters/blobs/local.py", "time.time"): "compared with the times of files, which are of the same clock",
    ("imgproc_adapters/http/errors.py", "datetime.datetime.now"): "a hint to the client: seconds until retry_at",
    ("imgproc_adapters/memory/clock.py", "datetime.datetime.now"): "the memory adapters' database has this clock",
}


def _names(tree: ast.AST) -> dict[str, str]:
    """Return what the names that a module imports stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                found[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({name.asname or name.name: f"{node.module}.{name.name}" for name in node.names})
    return found


def _dotted(node: ast.AST, names: dict[str, str]) -> str | None:
    match node:
        case ast.Name(name):
            return names.get(name)
        case ast.Attribute(value, attribute):
            owner = _dotted(value, names)
            return f"{owner}.{attribute}" if owner else None
        case _:
            return None


def _read(source: str) -> Iterator[str]:
    """Yield the clock functions that a module names, called or handed on."""
    tree = ast.parse(source)
    names = _names(tree)
    for node in ast.walk(tree):
        dotted = _dotted(node, names)
        if dotted in READERS:
            yield dotted


def test_nothing_reads_the_machines_clock_but_what_is_named() -> None:
    found = {
        (str(path.relative_to(SOURCES)), reader)
        for path in SOURCES.rglob("*.py")
        for reader in _read(path.read_text(encoding="utf-8"))
    }
    assert not {place for place, _ in found if place.startswith("imgproc_domain/")}
    assert found == set(HARMLESS)


def test_a_clock_is_found_however_it_is_imported() -> None:
    spelled = {
        "import time\ntime.time()": "time.time",
        "import time as t\nt.time_ns()": "time.time_ns",
        "from time import time\ntime()": "time.time",
        "from time import localtime as here\nfield(factory=here)": "time.localtime",
        "import datetime\ndatetime.datetime.now()": "datetime.datetime.now",
        "import datetime as dt\ndt.date.today()": "datetime.date.today",
        "from datetime import datetime\nx = datetime.utcnow": "datetime.datetime.utcnow",
    }
    assert {source: list(_read(source)) for source in spelled} == {s: [reader] for s, reader in spelled.items()}
    assert not list(_read("import time\ntime.monotonic()\nfrom datetime import datetime\ndatetime.fromtimestamp(0)"))
