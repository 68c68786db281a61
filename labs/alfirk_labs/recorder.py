"""A P4Runtime proxy that forwards everything to another server, and records messages in order."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from p4.v1 import p4runtime_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds by which a PacketIn is delayed, to detect clients that do not wait for it.
PACKET_IN_DELAY = 0.2

_SERVICE = "p4.v1.P4Runtime"
_UNARY = ("Write", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities")


@dataclass(frozen=True)
class Passed:
    """A forwarded message: its kind and content; it was not rejected."""

    what: str
    message: Any


@dataclass
class Record:
    """The messages forwarded so far."""

    messages: list[Passed] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, message: Any) -> None:
        """Record a message."""
        with self._lock:
            self.messages.append(Passed(what, message))

    def of(self, what: str) -> list[tuple[int, Any]]:
        """Return all messages of a kind, with their positions."""
        with self._lock:
            return [
                (place, passed.message) for place, passed in enumerate(self.messages) if passed.what == what
            ]


@contextmanager
def recorder(address: str) -> Iterator[tuple[str, Record]]:
    """Proxy the server at an address; yield the proxy's address and its record.

    Requests are recorded after they succeeded, as ``Write`` and ``SetForwardingPipelineConfig``.
    All stream messages are recorded, as ``sent`` and ``received``.
    """
    record = Record()
    with grpc.insecure_channel(address) as channel:
        server = grpc.server(ThreadPoolExecutor(max_workers=8))
        handlers = {name: _unary(channel, name, record) for name in _UNARY}
        handlers["Read"] = _read(channel)
        handlers["StreamChannel"] = _stream(channel, record)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", record
        finally:
            server.stop(None).wait()


def _unary(channel: Any, name: str, record: Record) -> Any:
    ask = channel.unary_unary(f"/{_SERVICE}/{name}")
    parse = getattr(p4runtime_pb2, f"{name}Request").FromString

    def handle(request: bytes, context: Any) -> Any:
        try:
            answer = ask(request)
        except grpc.RpcError as error:
            _refuse(context, error)
            raise
        record.add(name, parse(request))
        return answer

    return grpc.unary_unary_rpc_method_handler(handle)


def _read(channel: Any) -> Any:
    ask = channel.unary_stream(f"/{_SERVICE}/Read")

    def handle(request: bytes, context: Any) -> Iterator[Any]:
        try:
            yield from ask(request)
        except grpc.RpcError as error:
            _refuse(context, error)

    return grpc.unary_stream_rpc_method_handler(handle)


def _stream(channel: Any, record: Record) -> Any:
    ask = channel.stream_stream(f"/{_SERVICE}/StreamChannel")

    def handle(requests: Iterator[bytes], context: Any) -> Iterator[Any]:
        def noted() -> Iterator[bytes]:
            for request in requests:
                record.add("sent", p4runtime_pb2.StreamMessageRequest.FromString(request))
                yield request

        try:
            for answer in ask(noted()):
                message = p4runtime_pb2.StreamMessageResponse.FromString(answer)
                if message.WhichOneof("update") == "packet":
                    time.sleep(PACKET_IN_DELAY)
                record.add("received", message)
                yield answer
        except grpc.RpcError as error:
            _refuse(context, error)

    return grpc.stream_stream_rpc_method_handler(handle)


def _refuse(context: Any, error: Any) -> None:
    context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
    context.abort(error.code(), error.details())
