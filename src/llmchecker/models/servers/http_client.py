"""HTTP client of a model server: concurrent requests, retries, time limits.

It contacts only the configured address: it follows no redirects, and ignores proxies and passwords
in the environment. No message contains the key.
"""

import asyncio
import contextlib
import itertools
import json
import math
import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypeVar

import aiohttp
import truststore

from llmchecker.errors import (
    NoResponse,
    RefusedPart,
    RequestRefused,
    SourceUnavailable,
    prefix_errors,
)
from llmchecker.models.servers.event_loop import run_event_loop
from llmchecker.models.servers.event_stream import EVENT_STREAM, read_text_body
from llmchecker.models.servers.schema import parse_response, quote
from llmchecker.models.servers.settings import ServerSource
from llmchecker.utils.number_format import format_count

_RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP status codes after which the same request may succeed."""

_EXHAUSTED = {
    # OpenAI
    "insufficient_quota": "the quota of the account is used up; pay, or use another key",
    "billing_hard_limit_reached": "the limit of the account's costs is reached; raise it",
    "billing_not_active": "the account has no active billing; activate it, or use another key",
    "account_deactivated": "the account is deactivated; use another key",
    "access_terminated": "the access of the account is terminated; use another key",
    # Anthropic, which answers with status 400
    "billing_error": "the account has no credit; pay, or use another key",
    # OpenRouter and others
    "insufficient_credits": "the account has no credit; pay, or use another key",
    "insufficient_balance": "the account has no credit; pay, or use another key",
}
"""Codes and types of errors that do not pass while a run waits, each with its fix."""
_EXHAUSTED_MESSAGE = re.compile(
    r"exceeded your current quota, please check your plan|credit balance is too low"
    r"|insufficient (?:credits|balance|quota)",
    re.IGNORECASE,
)
"""Messages of providers that give no code."""

_DAILY_QUOTA = re.compile(rb"\"quotaId\"\s*:\s*\"[^\"]*PerDay|free-models-per-day")
"""Beginnings of the names of Google's and OpenRouter's quotas of a day."""

_UNREAD_STATUSES = frozenset({429, 503})
"""HTTP status codes of servers that have not read the request."""

_REFUSED_PARTS = {
    # newer models of OpenAI accept `max_tokens` only under this name
    RefusedPart.LIMIT_NAME: re.compile("max_completion_tokens"),
    RefusedPart.SEED: re.compile(r"\bseed\b"),
    # models that think accept only the defaults
    RefusedPart.TEMPERATURE: re.compile(r"\btemperature\b"),
    RefusedPart.TOP_P: re.compile(r"\btop_p\b"),
    # vLLM limits the number when it starts
    RefusedPart.LOG_PROBABILITIES: re.compile("logprobs"),
    RefusedPart.CONTENT: re.compile(
        r"content[ _-](?:management |filter|policy|moderation)|safety system", re.IGNORECASE
    ),
}
"""Messages of servers by the part of a request that they reject."""

_FIRST_TEXTS, _QUICK_SHARE = 16, 0.25
"""The number of texts that a server writes at once at first, and the share of the time limit that
a quick answer takes. Each quick answer adds as many texts as it has, up to the limit."""

_POLL_SECONDS = 0.2
"""Seconds after which a wait for a result looks whether it is still wanted."""

_ANTHROPIC_VERSION = "2023-06-01"

_Shape = TypeVar("_Shape")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests that no configuration sets.

    Attributes:
        attempts: largest number of attempts for a request.
        first_pause_seconds: pause before the second attempt, doubled before each further one.
        max_pause_seconds: longest pause that a server may request.
        max_bytes: largest size of a response; logprobs of a whole vocabulary need a tenth.
        texts: number of texts in a request for distributions, to save HTTP overhead and limit the
            loss by a failure.
    """

    attempts: int = 6
    first_pause_seconds: float = 0.5
    max_pause_seconds: float = 30.0
    max_bytes: int = 2**28
    texts: int = 8


@dataclass(frozen=True)
class ServerClient:
    """HTTP client of one server, for code without coroutines.

    Requests run in an event loop in a thread of its own, which ends with the call that started it.
    So a client works where the caller has an event loop, as in a notebook, and after a fork.

    Attributes:
        source: the server, and the limits of requests that its configuration sets. The time limit
            is that of one attempt, from the name's resolution to the last byte.
        key: key that is sent with every request; None for no key.
        limits: further limits.
        turns: numbers of the sessions, which begin with one server after the other.
    """

    source: ServerSource
    key: str | None = field(repr=False)
    limits: RequestLimits = RequestLimits()
    turns: Iterator[int] = field(
        default_factory=itertools.count, init=False, repr=False, compare=False
    )

    @property
    def address(self) -> str:
        """The URL of the server, without a trailing slash."""
        return self.source.address

    def run(self, function: Callable[["ServerSession"], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return the result of a coroutine function that sends requests."""
        (result,) = self.map_concurrently(lambda session, each: each(session), [function])
        return result

    def map_concurrently(
        self,
        function: Callable[["ServerSession", _Item], Coroutine[Any, Any, _Result]],
        items: Iterable[_Item],
    ) -> Iterator[_Result]:
        """Apply a coroutine function to items concurrently, as `map_on_demand` does."""
        remaining = iter(items)
        return self.map_on_demand(function, lambda: next(remaining, None))

    @contextlib.contextmanager
    def open_pool(self, limit: int | None = None) -> Iterator["RequestPool"]:
        """Open a pool of concurrent requests; those that are under way end with it.

        Args:
            limit: largest number of concurrent requests, if less than that of the client.
        """
        concurrency = min(self.source.concurrency, limit or self.source.concurrency)
        with run_event_loop() as loop:
            pool = RequestPool(loop, ServerSession(self), concurrency)
            # an error, an interrupt or an early end leaves this block
            try:
                yield pool
            finally:
                pool.close()

    def map_on_demand(
        self,
        function: Callable[["ServerSession", _Item], Coroutine[Any, Any, _Result]],
        choose_item: Callable[[], _Item | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[_Result]:
        """Apply a coroutine function to items chosen one by one; yield the results in order.

        Which item is next may depend on earlier results. If the caller stops early or a call
        fails, the others are cancelled.

        Args:
            function: sends requests for an item, and returns its result.
            choose_item: returns the next item; None if no item is wanted before further results.
            must_stop: called while a result is awaited; the work ends when it returns true.
        """
        futures: deque[Future[_Result]] = deque()
        with self.open_pool() as pool:
            # a slow first request must not leave the others without work
            wanted = 2 * self.source.concurrency
            while True:
                # several items at once, because each submission wakes the other thread
                if wanted - len(futures) >= math.ceil(self.source.concurrency / 8):
                    items = iter(choose_item, None)
                    futures += pool.submit(function, islice(items, wanted - len(futures)))
                if not futures:
                    return
                while not futures[0].done() and not wait([futures[0]], _POLL_SECONDS).done:
                    if must_stop():
                        return
                yield futures.popleft().result()

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        """The system's certificates, which take longer to read than a request."""
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class RequestPool:
    """Concurrent requests, to which more may be added while others are under way.

    Args:
        loop: the event loop, which runs in another thread.
        session: the session of the requests.
        concurrency: largest sum of the sizes of concurrent requests.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session: "ServerSession", concurrency: int
    ) -> None:
        self._loop, self._session = loop, session
        self._first = min(_FIRST_TEXTS, concurrency)
        self._unused = concurrency - self._first
        self._quick_seconds = _QUICK_SHARE * session.seconds
        self._places, self._queue = asyncio.Semaphore(self._first), asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    def submit(
        self,
        function: Callable[["ServerSession", _Item], Coroutine[Any, Any, _Result]],
        items: Iterable[_Item],
        get_size: Callable[[_Item], int] = lambda item: 1,
    ) -> list["Future[_Result]"]:
        """Begin with the requests of items, after those of earlier calls; return their results.

        Args:
            function: sends the requests of an item, and returns its result.
            items: the items.
            get_size: returns the number of texts that the server continues at once for an item.
        """

        async def apply(item: _Item) -> _Result:
            size = min(get_size(item), self._first)
            # requests take their places one after another, so that a large one is not passed by
            async with self._queue:
                for _ in range(size):
                    await self._places.acquire()
            start_time = time.monotonic()
            try:
                result = await function(self._session, item)
                self._add_places(size, time.monotonic() - start_time)
                return result
            finally:
                for _ in range(size):
                    self._places.release()

        futures: list[tuple[_Item, Future[_Result]]] = [(item, Future()) for item in items]

        def start() -> None:
            for item, future in futures:
                task = self._loop.create_task(apply(item))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(partial(_settle, future))

        if futures:
            self._loop.call_soon_threadsafe(start)
        return [future for _, future in futures]

    def _add_places(self, size: int, seconds: float) -> None:
        """Let a server that answered quickly write more texts at once."""
        if seconds < self._quick_seconds:
            added = min(size, self._unused)
            self._unused -= added
            for _ in range(added):
                self._places.release()

    def close(self) -> None:
        """Cancel all requests, and close all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()


def _settle(future: "Future[_Result]", task: "asyncio.Task[_Result]") -> None:
    """Give a future the result of a task, for another thread."""
    if task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


class ServerSession:
    """Requests to a server within one event loop, or to several servers with one model.

    Each attempt goes to the server with the fewest requests under way, and the next attempt after a
    failure to another one. So a run outlives a server.

    Args:
        client: the client of the server.
    """

    def __init__(self, client: ServerClient) -> None:
        self.address, self.seconds = client.address, client.source.seconds
        self._client = client
        addresses = client.source.addresses
        first = next(client.turns) % len(addresses)
        self._under_way = dict.fromkeys((*addresses[first:], *addresses[:first]), 0)
        self._sent = dict(self._under_way)
        # read before the time of the first attempt begins
        self._ssl_context = client.ssl_context

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    @cached_property
    def _http(self) -> aiohttp.ClientSession:
        """The connections, which belong to the event loop that first uses them."""
        connector = aiohttp.TCPConnector(
            # the pool of requests has its own limit
            limit=0,
            ssl=self._ssl_context,
            # the resolver of another library would not be that of the event loop
            resolver=aiohttp.ThreadedResolver(),
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=_build_headers(self._client.source, self._client.key),
            # each attempt has a limit of its own, from the name's resolution to the last byte
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def request(
        self,
        shape: type[_Shape],
        path: str,
        payload: dict[str, Any] | None = None,
        report_loss: Callable[[], None] = lambda: None,
    ) -> _Shape:
        """Send a request and return the response, validated against a schema.

        Args:
            shape: schema of the response.
            path: path below the address, with a leading slash.
            payload: JSON body to post; None for a GET request.
            report_loss: called when a response is lost on its way, before the next attempt.

        Raises:
            NoResponse: the server does not respond.
            RequestRefused: the server rejects the request.
            SourceUnavailable: the server redirects, sends invalid JSON, or its response does not
                match the schema.
        """
        source = self._client.source
        urls = [source.build_url(path, each) for each in source.addresses]
        with prefix_errors(", ".join(urls)):
            response = await self._send_with_retries(path, payload, report_loss)
            return parse_response(shape, response)

    async def _send_with_retries(
        self, path: str, payload: dict[str, Any] | None, report_loss: Callable[[], None]
    ) -> Any:
        """Send a request, again after failures that may be temporary; return the JSON value."""
        limits, seconds = self._client.limits, self.seconds
        address: str | None = None
        for attempt in range(1, limits.attempts + 1):
            address = self._choose_server(address)
            pause = limits.first_pause_seconds * 2 ** (attempt - 1)
            try:
                async with asyncio.timeout(seconds):
                    status, headers, body = await self._exchange(address, path, payload)
            except TimeoutError:
                failure = "the answer takes too long"
                report_loss()
            except aiohttp.ClientError as error:
                failure = quote(f"{type(error).__name__} {error}")
                # a server that cannot be reached has written nothing
                if not isinstance(error, aiohttp.ClientConnectorError):
                    report_loss()
            else:
                if status == 200:
                    return self._parse_body(headers, body)
                self._check_status(status, headers, body)
                failure = f"status {status} ({self._quote_body(body)})"
                # a limit of requests is checked before an answer, a proxy's limit of time after it
                if status not in _UNREAD_STATUSES:
                    report_loss()
                retry_after = headers.get("retry-after", "")
                # Retry-After may also be a date, which is ignored
                pause = max(pause, float(retry_after)) if retry_after.isdecimal() else pause
            # no pause after the last attempt
            if attempt < limits.attempts:
                await asyncio.sleep(min(pause, limits.max_pause_seconds))
        raise NoResponse(
            f"server: no answer in {format_count(limits.attempts, 'attempt')} of "
            f"{seconds:g} s ({failure}); run the command again, earlier answers are kept"
        )

    def _choose_server(self, failed: str | None) -> str:
        """Return the address for an attempt: with few requests, and not the one that failed."""
        others = [each for each in self._under_way if each != failed]
        return min(
            others or self._under_way,
            # idle servers take turns
            key=lambda address: (self._under_way[address], self._sent[address]),
        )

    async def _exchange(
        self, address: str, path: str, payload: dict[str, Any] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Make one attempt; return the status, headers and body of the response."""
        self._under_way[address] += 1
        self._sent[address] += 1
        try:
            return await self._exchange_with(address, path, payload)
        finally:
            self._under_way[address] -= 1

    async def _exchange_with(
        self, address: str, path: str, payload: dict[str, Any] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        method, body = "GET" if payload is None else "POST", bytearray()
        max_bytes = self._client.limits.max_bytes
        url = self._client.source.build_url(path, address)
        async with self._http.request(method, url, json=payload, allow_redirects=False) as response:
            coding = response.headers.get("content-encoding", "identity")
            if coding.strip().lower() not in ("", "identity"):
                name = self._quote_body(coding.encode(errors="surrogateescape"))
                raise SourceUnavailable(f"content-encoding: {name} was not requested; disable it")
            # check the size for each chunk, before the whole body is in memory
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > max_bytes:
                    raise SourceUnavailable(
                        f"answer: more than {max_bytes} bytes; check the server"
                    )
        return response.status, response.headers, bytes(body)

    def _check_status(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Raise an error for a status after which a retry is useless."""
        if 300 <= status < 400:
            # the library decodes the bytes of a header in this way
            header = headers.get("location", "nowhere").encode(errors="surrogateescape")
            location = self._quote_body(header)
            raise RequestRefused(
                f"server: it redirects to {location!r}; name the address that answers as the "
                "model's source"
            )
        if (reason := _find_exhaustion(status, body)) is not None:
            raise RequestRefused(f"server: status {status}: {reason}")
        if status in (401, 403):
            raise RequestRefused(
                f"server: status {status} refuses access; put a valid key into the environment "
                "variable that `key_from` names"
            )
        if status not in _RETRY_STATUSES:
            message = self._quote_body(body)
            named = {part for part, names in _REFUSED_PARTS.items() if names.search(message)}
            raise RequestRefused(
                f"server: status {status} ({message}); correct the request or the server",
                frozenset(named | ({RefusedPart.PATH} if status == 404 else set())),
            )

    def _parse_body(self, headers: Mapping[str, str], body: bytes) -> Any:
        """Return the JSON value of a response; of an application also its text or its events."""
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        # other APIs are asked for JSON alone
        if self._client.source.api == "json" and content_type in ("text/plain", EVENT_STREAM):
            return read_text_body(headers, body)
        return parse_json(body)

    def _quote_body(self, body: bytes) -> str:
        """Return the server's message, shortened and without the key."""
        message = body.decode(errors="replace")
        # the body is quoted as it is unless it is an error object in JSON
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            message = str(json.loads(body)["error"]["message"])
        key = self._client.key
        message = message if key is None else message.replace(key, "…")
        return quote(message)


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        SourceUnavailable: it is not JSON, or an object has a key twice.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_check_unique_keys, parse_constant=_raise_constant_error
        )
    except (ValueError, RecursionError) as error:
        raise SourceUnavailable(
            f"answer: not JSON ({quote(str(error))}); check the server's address and `api`"
        ) from error


def _find_exhaustion(status: int, body: bytes) -> str | None:
    """Return why an account cannot be used, which no retry changes; None for other errors.

    A limit of requests per minute has the same status, and passes.
    """
    if status < 400:
        return None
    if status == 429 and _DAILY_QUOTA.search(body):
        return "the quota of the day is used up; go on tomorrow, earlier answers are kept"
    error: Any = None
    # the body is no error of a known provider unless it has this form
    with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
        error = json.loads(body)["error"]
    if not isinstance(error, dict):
        return None
    for key in ("code", "type"):
        if isinstance(code := error.get(key), str) and code in _EXHAUSTED:
            return f"{code}: {_EXHAUSTED[code]}"
    # a message of OpenRouter has the status as its code
    if status == 402 or _EXHAUSTED_MESSAGE.search(str(error.get("message", ""))):
        return _EXHAUSTED["billing_error"]
    return None


def _build_headers(source: ServerSource, key: str | None) -> dict[str, str]:
    """Return the HTTP headers of all requests, with the key."""
    # a small compressed body could inflate without limit
    headers = {"Accept-Encoding": "identity"}
    named = json.loads(source.headers or "{}")
    if key is not None and any("{key}" in value for value in named.values()):
        # the application has a place of its own for the key
        named = {name: value.replace("{key}", key) for name, value in named.items()}
        return headers | named
    headers |= named
    if source.api == "anthropic":
        headers["anthropic-version"] = _ANTHROPIC_VERSION
    if key is not None:
        name, value = (
            ("x-api-key", key) if source.api == "anthropic" else ("Authorization", f"Bearer {key}")
        )
        headers[name] = value
    return headers


def _check_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON pairs; raise ValueError for a repeated key."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("an object has a key twice")
    return mapping


def _raise_constant_error(name: str) -> None:
    """Reject NaN and Infinity, which Python accepts and JSON does not allow."""
    raise ValueError(f"{name} is no number")
