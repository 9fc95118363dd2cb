"""Search for regular expressions of ECMA 262, in the JavaScript engine QuickJS."""

import json
import reprlib
import threading
from functools import lru_cache

import quickjs

from llmchecker.errors import ConfigError

_MAX_SECONDS = 5.0
"""Default maximum of the processor time in seconds of one search."""
_MAX_BYTES = 2**30
"""Maximum memory in bytes of a thread's engine; a search needs about 120 bytes a character."""

# texts travel as JSON in ASCII, because the binding rejects lone surrogates
_BUILD_SEARCH = """
(pattern) => {
  const expression = new RegExp(JSON.parse(pattern), "u");
  return (text) => expression.test(JSON.parse(text));
}
"""


class PatternEngine(threading.local):
    """Engine of regular expressions, which holds the patterns that its thread compiled last.

    Each thread has an engine of its own.

    Args:
        max_seconds: maximum processor time in seconds of one search.
    """

    def __init__(self, max_seconds: float = _MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._context = quickjs.Context()
        self._context.set_time_limit(max_seconds)
        self._context.set_memory_limit(_MAX_BYTES)
        build_search = self._context.eval(_BUILD_SEARCH)
        self._compile = lru_cache(maxsize=256)(lambda pattern: build_search(json.dumps(pattern)))

    def check_pattern(self, pattern: str) -> None:
        """Check that a text is a regular expression of ECMA 262 with the flag `u`.

        Raises:
            ConfigError: it is not.
        """
        try:
            self._compile(pattern)
        except quickjs.JSException as error:
            reason = str(error).partition("\n")[0].removeprefix("SyntaxError: ")
            raise ConfigError(
                f"{pattern!r}: not an ECMA 262 pattern with the flag u: {reason}"
            ) from error

    def is_found(self, pattern: str, text: str) -> bool:
        """Return whether a pattern matches anywhere in a text.

        Raises:
            ConfigError: the search exceeds its time or memory.
        """
        try:
            return bool(self._compile(pattern)(json.dumps(text)))
        # a pattern can need exponential time on one text
        except quickjs.JSException as error:
            reason = str(error).partition("\n")[0].removeprefix("InternalError: ")
            raise ConfigError(
                f"pattern {pattern!r}: {reason} after at most {self._max_seconds:g} s on the text "
                f"{reprlib.repr(text)}; rewrite it without nested repetitions"
            ) from error
