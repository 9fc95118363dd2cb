"""Deadlines of whole HTTP exchanges, which a slow stream of bytes does not extend."""

import threading
import time
from typing import Any

import httpcore2


class _DeadlineStream(httpcore2.NetworkStream):
    """A connection whose every operation ends at its thread's deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, backend: "DeadlineBackend") -> None:
        self._stream, self._backend = stream, backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read until the deadline at the latest."""
        # the library's timeout is for one operation; the deadline is for the exchange
        del timeout
        return self._stream.read(
            max_bytes, self._backend.compute_remaining_seconds(httpcore2.ReadTimeout)
        )

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write until the deadline at the latest."""
        del timeout
        self._stream.write(buffer, self._backend.compute_remaining_seconds(httpcore2.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_DeadlineStream":
        """Encrypt the connection until the deadline at the latest."""
        del timeout
        remaining_seconds = self._backend.compute_remaining_seconds(httpcore2.ConnectTimeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, remaining_seconds)
        return _DeadlineStream(stream, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the connection."""
        return self._stream.get_extra_info(info)


class DeadlineBackend(httpcore2.NetworkBackend):
    """A network backend whose connections use the deadline of their thread."""

    def __init__(self) -> None:
        self._backend = httpcore2.SyncBackend()
        # each thread has one exchange at a time, so the deadline belongs to the thread
        self._thread_state = threading.local()

    def start_deadline(self, seconds: float) -> float:
        """Set the deadline of the thread's next exchange; return it in monotonic time."""
        self._thread_state.until = time.monotonic() + seconds
        return self._thread_state.until

    def compute_remaining_seconds(self, error: type[Exception]) -> float:
        """Return the seconds until the deadline; raise an error after it."""
        remaining_seconds = self._thread_state.until - time.monotonic()
        if remaining_seconds <= 0:
            raise error("the answer takes too long")
        return remaining_seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _DeadlineStream:
        """Connect until the deadline at the latest."""
        del timeout
        remaining_seconds = self.compute_remaining_seconds(httpcore2.ConnectTimeout)
        stream = self._backend.connect_tcp(
            host, port, remaining_seconds, local_address, socket_options
        )
        return _DeadlineStream(stream, self)
