"""Asking a server by HTTP: several requests at once, retried where that may help, within a time.

Only the address that was configured is asked: redirects are refused, and proxies and passwords of
the environment are left alone. The key is in no message.
"""

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import httpx2

from llmchecker.errors import RequestRefused, SourceUnavailable

ATTEMPTS = 6
"""How often a request is sent at most."""

PAUSE = 0.5
"""Seconds before the second attempt; before each further one twice as many."""

LONGEST_PAUSE = 30.0
"""Seconds for which a server may tell to wait."""

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""

MOST_BYTES = 2**28
"""Bytes of one answer, of which a head of a whole vocabulary takes a tenth."""

QUOTED = 300
"""Characters of a server's own words in a message."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ServerClient:
    """Asks one server.

    Args:
        address: of the server, such as `http://127.0.0.1:8000`.
        key: sent with every request; None for none.
        requests: how many are under way at once.
        seconds: how long one attempt may take, from the first byte to the last.
        most_bytes: of one answer.
    """

    def __init__(
        self,
        address: str,
        key: str | None,
        requests: int,
        seconds: float,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.address = address
        self._key = key
        self._requests = requests
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._http = httpx2.Client(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=seconds,
            follow_redirects=False,
            trust_env=False,
            limits=httpx2.Limits(max_connections=requests, max_keepalive_connections=requests),
        )

    def ask(
        self, path: str, question: dict[str, Any] | None = None, given_up: Callable[[], bool] = bool
    ) -> Any:
        """The server's answer to a question, read as JSON; without a question what is at a path.

        Args:
            path: below the address, beginning with a slash.
            question: what is posted.
            given_up: whether the answer is no longer wanted, so that nothing is tried again.

        Raises:
            RequestRefused: the server will not answer this question.
            SourceUnavailable: it did not answer, was redirected or sent no JSON.
        """
        for attempt in range(1, ATTEMPTS + 1):
            pause = PAUSE * 2 ** (attempt - 1)
            try:
                status, headers, body = self._sent(path, question)
            except (httpx2.TransportError, httpx2.StreamError) as error:
                failure = f"{type(error).__name__} {error}".strip()
            else:
                if status == 200:
                    return self._read(body)
                self._refuse(status, headers, body)
                failure = f"status {status} ({self._quoted(body)})"
                told = headers.get("retry-after", "")
                pause = max(pause, float(told)) if told.isdecimal() else pause
            if attempt == ATTEMPTS or given_up():
                break
            time.sleep(min(pause, LONGEST_PAUSE))
        raise SourceUnavailable(
            f"{self.address} did not answer {path} in {attempt} attempts of at most "
            f"{self._seconds:g} s: {failure}; what it answered before is kept"
        )

    def concurrently(
        self, function: Callable[[_Item, Callable[[], bool]], _Result], items: Iterable[_Item]
    ) -> Iterator[_Result]:
        """Yield what a function returns for items, in their order; it may `ask`.

        Args:
            function: of an item, and of what tells whether the result is no longer wanted.
            items: what to ask about.
        """
        stop = threading.Event()
        pool = ThreadPoolExecutor(self._requests)
        waiting: deque[Future[_Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item, stop.is_set))
                if len(waiting) >= 2 * self._requests:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _sent(
        self, path: str, question: dict[str, Any] | None
    ) -> tuple[int, httpx2.Headers, bytes]:
        """Status, headers and body of the answer to one attempt.

        A server that sends byte after byte never exceeds the library's own limits, which are on
        the time between two of them.
        """
        method, until = "GET" if question is None else "POST", time.monotonic() + self._seconds
        body = bytearray()
        with self._http.stream(method, self.address + path, json=question) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout("the answer takes too long")
                if len(body) > self._most_bytes:
                    raise SourceUnavailable(f"{self.address} answers {path} without end")
        return response.status_code, response.headers, bytes(body)

    def _refuse(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        """Raise an error for an answer after which asking again is of no use."""
        if 300 <= status < 400:
            raise SourceUnavailable(
                f"{self.address} redirects to {headers.get('location', 'nowhere')!r}, which is "
                "not followed; name the address that answers as the model's source"
            )
        if status in (401, 403):
            raise RequestRefused(
                f"{self.address} refuses access with status {status}: the environment variable "
                "that `key_from` of the model names must hold a key that it takes"
            )
        if status not in RETRIED:
            raise RequestRefused(f"{self.address} says, status {status}: {self._quoted(body)}")

    def _read(self, body: bytes) -> Any:
        try:
            return json.loads(body, object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            raise SourceUnavailable(f"{self.address} answers no JSON: {error}") from error

    def _quoted(self, body: bytes) -> str:
        """What the server says, as far as a message has room, and never the key."""
        said = body.decode(errors="replace")
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            said = str(json.loads(body)["error"]["message"])
        said = said if self._key is None else said.replace(self._key, "…")
        return " ".join(said.split())[:QUOTED]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, none of whose keys is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found
