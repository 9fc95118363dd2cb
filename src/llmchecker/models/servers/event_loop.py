"""An event loop in a thread of its own, whose name resolution can be abandoned."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any


@contextmanager
def run_event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread, which ends with the block; the block must end its tasks."""
    loop = _AbandoningEventLoop()
    thread = threading.Thread(target=loop.run_forever, name="requests", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _AbandoningEventLoop(asyncio.SelectorEventLoop):
    """An event loop that ends without waiting for a name resolution.

    The system cannot cancel a resolution. asyncio runs it in a pool of threads, and waits for the
    pool when the loop closes and when Python exits, which a dead name server delays by a minute.
    """

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        """Resolve a name in a daemon thread, whose result is dropped after a cancellation."""
        future: Future[Any] = Future()
        # a running future cannot be cancelled, so the thread may always set its result
        future.set_running_or_notify_cancel()

        def resolve() -> None:
            try:
                addresses = socket.getaddrinfo(*arguments, **options)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(addresses)

        threading.Thread(target=resolve, name="name resolution", daemon=True).start()
        return await asyncio.wrap_future(future)
