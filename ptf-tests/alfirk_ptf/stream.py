"""Streams of gRPC in both directions, for the clients of P4Runtime and BfRuntime."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Iterator


def open_stream(call: Any, requests: queue.SimpleQueue[Any], take: Callable[[Any], None]) -> None:
    """Send the requests of a queue, up to `None`, and pass each answer to `take`, in a thread of its own."""

    def queued() -> Iterator[Any]:
        while (request := requests.get()) is not None:
            yield request

    stream = call(queued(), wait_for_ready=True)

    def receive() -> None:
        with suppress(grpc.RpcError):
            for answer in stream:
                take(answer)

    threading.Thread(target=receive, daemon=True).start()
