"""HTTP client of a model server: concurrent requests, retries, time limits.

It contacts only the configured address: it follows no redirects, and ignores proxies and passwords
in the environment. No message contains the key.
"""

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import httpcore2
import httpx2

from llmchecker.errors import RequestRefused, SourceUnavailable, prefix_errors
from llmchecker.models.servers.deadline import DeadlineBackend
from llmchecker.models.servers.schema import parse_response, quote
from llmchecker.utils.number_format import format_count

_MAX_ATTEMPTS = 6
"""Largest number of attempts for a request."""

_FIRST_PAUSE_SECONDS = 0.5
"""Pause in seconds before the second attempt, doubled before each further one."""

_MAX_PAUSE_SECONDS = 30.0
"""Longest pause in seconds that a server may request."""

_RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP status codes after which the same request may succeed."""

MAX_BYTES = 2**28
"""Largest size in bytes of a response; logprobs of a whole vocabulary need a tenth."""

_HEADERS = {"Accept-Encoding": "identity"}
"""HTTP headers without compression: a small body could inflate without limit."""

_Shape = TypeVar("_Shape")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ServerClient:
    """HTTP client of one server.

    Args:
        address: URL of the server, such as `http://127.0.0.1:8000`.
        key: key that is sent with every request; None for no key.
        max_concurrency: largest number of concurrent requests.
        seconds: time limit of one attempt in seconds, from the first byte to the last.
        max_bytes: largest size in bytes of a response.
    """

    def __init__(
        self,
        address: str,
        key: str | None,
        max_concurrency: int,
        seconds: float,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.address = address
        self._key = key
        self._max_concurrency = max_concurrency
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._deadline = DeadlineBackend()
        transport = httpx2.HTTPTransport(trust_env=False)
        # the library has no public way to give its transport another network backend
        transport._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=max_concurrency,
            max_keepalive_connections=max_concurrency,
            network_backend=self._deadline,
        )
        self._http = httpx2.Client(
            transport=transport,
            headers=_HEADERS | ({} if key is None else {"Authorization": f"Bearer {key}"}),
            timeout=seconds,
            follow_redirects=False,
            trust_env=False,
        )

    def request(
        self,
        shape: type[_Shape],
        path: str,
        payload: dict[str, Any] | None = None,
        is_cancelled: Callable[[], bool] = bool,
    ) -> _Shape:
        """Return the response of `request_json`, validated against a schema.

        Raises:
            RequestRefused: the server rejects the request.
            SourceUnavailable: the server does not answer, or its response does not match the
                schema.
        """
        answer = self.request_json(path, payload, is_cancelled)
        with prefix_errors(self.address + path):
            return parse_response(shape, answer)

    def request_json(
        self,
        path: str,
        payload: dict[str, Any] | None = None,
        is_cancelled: Callable[[], bool] = bool,
    ) -> Any:
        """Send a request and return the response as JSON.

        Args:
            path: path below the address, with a leading slash.
            payload: JSON body to post; None for a GET request.
            is_cancelled: returns whether the response is no longer needed, which stops the retries.

        Raises:
            RequestRefused: the server rejects the request.
            SourceUnavailable: the server does not answer, redirects, or sends invalid JSON.
        """
        with prefix_errors(self.address + path):
            return self._send_with_retries(path, payload, is_cancelled)

    def _send_with_retries(
        self, path: str, payload: dict[str, Any] | None, is_cancelled: Callable[[], bool]
    ) -> Any:
        """Send a request, again after failures that may be temporary."""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            pause = _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
            try:
                status, headers, body = self._send(path, payload)
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                failure = quote(f"{type(error).__name__} {error}")
            else:
                if status == 200:
                    return self._parse_json(body)
                self._check_status(status, headers, body)
                failure = f"status {status} ({self._quote_body(body)})"
                retry_after = headers.get("retry-after", "")
                # Retry-After may also be a date, which is ignored
                pause = max(pause, float(retry_after)) if retry_after.isdecimal() else pause
            # no pause after the last attempt
            if attempt == _MAX_ATTEMPTS or is_cancelled():
                break
            time.sleep(min(pause, _MAX_PAUSE_SECONDS))
        raise SourceUnavailable(
            f"server: no answer in {format_count(attempt, 'attempt')} of {self._seconds:g} "
            f"s ({failure}); run the command again, earlier answers are kept"
        )

    def map_concurrently(
        self, function: Callable[[_Item, Callable[[], bool]], _Result], items: Iterable[_Item]
    ) -> Iterator[_Result]:
        """Apply a function to items in several threads; yield the results in order.

        Args:
            function: maps an item to a result, and may call `request_json`. Its second argument
                returns whether the result is no longer needed.
            items: the items.
        """
        stop_event = threading.Event()
        pool = ThreadPoolExecutor(self._max_concurrency)
        futures: deque[Future[_Result]] = deque()
        try:
            for item in items:
                futures.append(pool.submit(function, item, stop_event.is_set))
                # limit the queue, so that results do not accumulate while the caller is busy
                if len(futures) >= 2 * self._max_concurrency:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            # the caller stopped early or a request failed: end the retries of the others
            stop_event.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, path: str, payload: dict[str, Any] | None) -> tuple[int, httpx2.Headers, bytes]:
        """Make one attempt; return the status, headers and body of the response.

        The deadline is for the whole response. The library's own limits only apply to the time
        between two bytes, so a slow stream of bytes would never exceed them.
        """
        method, body = "GET" if payload is None else "POST", bytearray()
        deadline = self._deadline.start_deadline(self._seconds)
        with self._http.stream(method, self.address + path, json=payload) as response:
            coding = response.headers.get("content-encoding", "identity")
            if coding.strip().lower() not in ("", "identity"):
                name = self._quote_body(coding.encode())
                raise SourceUnavailable(f"content-encoding: {name} was not requested; disable it")
            # check time and size for each chunk, before the whole body is in memory
            for chunk in response.iter_raw():
                body += chunk
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the answer takes too long")
                if len(body) > self._max_bytes:
                    raise SourceUnavailable(
                        f"answer: more than {self._max_bytes} bytes; check the server"
                    )
        return response.status_code, response.headers, bytes(body)

    def _check_status(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        """Raise an error for a status after which a retry is useless."""
        if 300 <= status < 400:
            location = self._quote_body(headers.get("location", "nowhere").encode())
            raise SourceUnavailable(
                f"server: it redirects to {location!r}; name the address that answers as the "
                "model's source"
            )
        if status in (401, 403):
            raise RequestRefused(
                f"server: status {status} refuses access; put a valid key into the environment "
                "variable that `key_from` names"
            )
        if status not in _RETRY_STATUSES:
            raise RequestRefused(
                f"server: status {status} ({self._quote_body(body)}); correct the request or "
                "the server"
            )

    def _parse_json(self, body: bytes) -> Any:
        try:
            return json.loads(
                body, object_pairs_hook=_check_unique_keys, parse_constant=_raise_constant_error
            )
        except (ValueError, RecursionError) as error:
            raise SourceUnavailable(
                f"answer: not JSON ({quote(str(error))}); check the server's address and `api`"
            ) from error

    def _quote_body(self, body: bytes) -> str:
        """Return the server's message, shortened and without the key."""
        message = body.decode(errors="replace")
        # the body is quoted as it is unless it is an error object in JSON
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            message = str(json.loads(body)["error"]["message"])
        message = message if self._key is None else message.replace(self._key, "…")
        return quote(message)


def _check_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON pairs; raise ValueError for a repeated key."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("an object has a key twice")
    return mapping


def _raise_constant_error(name: str) -> None:
    """Reject NaN and Infinity, which Python accepts and JSON does not allow."""
    raise ValueError(f"{name} is no number")
