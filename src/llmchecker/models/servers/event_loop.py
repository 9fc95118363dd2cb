"""An event loop in a thread of its own, whose calls in other threads can be abandoned."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

_Result = TypeVar("_Result")


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


async def call_in_thread(function: Callable[[], _Result]) -> _Result:
    """Call a function in a daemon thread, whose result is dropped after a cancellation.

    asyncio's own pool of threads is awaited when the loop closes and when Python exits, which a
    call without an end would delay for ever.
    """
    future: Future[_Result] = Future()
    # a running future cannot be cancelled, so the thread may always set its result
    future.set_running_or_notify_cancel()

    def call() -> None:
        try:
            result = function()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=call, name="abandonable call", daemon=True).start()
    return await asyncio.wrap_future(future)


class _AbandoningEventLoop(asyncio.SelectorEventLoop):
    """An event loop that ends without waiting for a name resolution, which nothing can cancel."""

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        """Resolve a name in a thread."""
        return await call_in_thread(partial(socket.getaddrinfo, *arguments, **options))
