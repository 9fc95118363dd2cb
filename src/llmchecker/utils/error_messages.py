"""Messages for users about errors of this package and limits of the machine."""

import errno
import re
from concurrent.futures import BrokenExecutor

from llmchecker.errors import LLMCheckerError
from llmchecker.utils.memory_errors import is_out_of_memory
from llmchecker.utils.optional_packages import find_install_message

_MACHINE_ERRNOS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
)
"""Error numbers for missing space, permission or resources."""


def find_user_message(error: BaseException) -> str | None:
    """Return the message for an expected error, or None for an unexpected error.

    Expected are the errors of this package, a missing optional package and the limits of a machine.
    Examples of limits are no memory, a full disk, missing permissions and a closed output. An
    unexpected error needs its traceback.
    """
    if isinstance(error, LLMCheckerError):
        return str(error)
    if (message := find_install_message(error)) is not None:
        return message
    if is_out_of_memory(error):
        message = re.sub(r"^\[[^]]*\] *", "", str(error).strip().partition("\n")[0])
        return (
            f"memory: not enough{': ' * bool(message)}{message}; free memory, run fewer jobs at "
            "once (--cores 1), or lower expansion.memory_gb, k or L"
        )
    # a worker that the kernel's out-of-memory killer ended raises no MemoryError
    if isinstance(error, BrokenExecutor):
        return (
            "worker process: killed, probably because memory ran out; free memory, or run fewer at "
            "once (--jobs 1)"
        )
    if isinstance(error, BrokenPipeError):
        return "output: closed before everything was written"
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        path = error.filename or "a file or the output"
        return (
            f"{path}: cannot be used: {error.strerror}; correct this and run the same command again"
        )
    return None
