"""Exit codes of the command line: few, stable, and each with one thing for a script to do."""

from enum import IntEnum

from penstock.contract.errors import ConfigurationError, ErrorCode, ErrorKind, PenstockError


class ExitCode(IntEnum):
    """What the process ends with."""

    OK = 0
    INTERNAL = 1
    """A bug of ours; nothing is promised of what was done."""
    USAGE = 2
    """The command line itself is wrong; nothing was done."""
    NOT_FOUND = 3
    """The object named does not exist in this tenant."""
    DENIED = 4
    """The key is wrong or may not do this."""
    REFUSED = 5
    """Asked for something that cannot be; repeating it will not help."""
    UNAVAILABLE = 6
    """Not applied; the same command may succeed later."""
    UNKNOWN = 7
    """It may or may not have been applied."""
    SERVER_PART_MISSING = 8
    """The command belongs to the server, which this installation does not hold."""
    OUTPUT_LOST = 9
    """What the command printed could not be written, as on a full disk; what it asked for may well be done."""
    PARTLY = 10
    """Nothing is wrong, and not everything could be shown to be right: the report names what is missing."""
    INTERRUPTED = 130
    """Ctrl-C."""


class ProcessEnd(IntEnum):
    """What a process of the service ends with: a broker, the web application, a worker or a runner."""

    STOPPED = 0
    """It was asked to stop, and what had begun is finished."""
    ABORTED = 1
    """It was made to stop before that."""
    CANNOT_START = 2
    """Its configuration is wrong, or what that names cannot be used; one line says what. A restart does not help."""
    FAILED = 70
    """Its disk or the process itself failed: start it again, it recovers."""
    LEASE_LOST = 75
    """A runner only: another one may be at work. Start it again, and it waits for its turn."""


class ServerPartMissing(ConfigurationError):
    """A command of the server was called where only the SDK is installed."""

    remedy = (
        "Clone the Penstock repository, run `make setup` there and use its .venv/bin/penstock, "
        "or run the command in the server's image."
    )


def exit_code(error: PenstockError) -> ExitCode:
    """The exit code of an expected error."""
    if isinstance(error, ServerPartMissing):
        return ExitCode.SERVER_PART_MISSING
    if error.code in (ErrorCode.NOT_FOUND, ErrorCode.GROUP_NOT_FOUND):
        return ExitCode.NOT_FOUND
    if error.code in (ErrorCode.UNAUTHENTICATED, ErrorCode.FORBIDDEN):
        return ExitCode.DENIED
    if error.kind is ErrorKind.UNKNOWN_OUTCOME:
        return ExitCode.UNKNOWN
    return ExitCode.UNAVAILABLE if error.kind is ErrorKind.RETRIABLE else ExitCode.REFUSED
