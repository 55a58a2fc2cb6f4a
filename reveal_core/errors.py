"""Errors that a person meets: one line each, with the exit code that the command line documents."""


class RevealError(Exception):
    """Base of every expected error.

    The message is one line that names what was wrong and where.
    """

    exit_code = 1


class UsageError(RevealError):
    """Wrong usage or bad input (exit code 2)."""

    exit_code = 2


class UnavailableError(RevealError):
    """Something needed is not there: a store, a server, a permission (exit code 3)."""

    exit_code = 3


class NoTelemetryError(UsageError):
    """A host has no telemetry in a range."""
