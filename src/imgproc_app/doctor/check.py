"""What one check found."""

from enum import StrEnum

from attrs import frozen


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class Check:
    """``found`` says what is the case; ``fix`` what to do about it, empty if nothing."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, Verdict.OK, found)


def warning(name: str, found: str, fix: str) -> Check:
    return Check(name, Verdict.WARNING, found, fix)


def failed(name: str, found: str, fix: str) -> Check:
    return Check(name, Verdict.FAILED, found, fix)


def skipped(name: str, because: str) -> Check:
    return Check(name, Verdict.SKIPPED, f"skipped, because {because}")
