"""Sends frames to an interface as fast as one thread can."""

from __future__ import annotations

import ctypes
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Frames per system call.
BATCH = 64


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MessageHeader(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_IoVector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    _fields_ = (("header", _MessageHeader), ("length", ctypes.c_uint32))


class Blaster:
    """Sends frames repeatedly, many per system call."""

    def __init__(self, interface: str, frames: Sequence[bytes]) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((interface, 0))
        # Whole batches, so that a list is repeated at least once.
        count = -(-len(frames) // BATCH) * BATCH
        buffers = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
        self._vectors = [_IoVector(ctypes.addressof(buffer), len(buffer)) for buffer in buffers]
        self._buffers = buffers
        self._messages = (_Message * count)()
        for index, message in enumerate(self._messages):
            message.header.vectors = ctypes.pointer(self._vectors[index % len(frames)])
            message.header.vector_count = 1
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg

    def __enter__(self) -> Blaster:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def run(self, seconds: float) -> None:
        """Send for this many seconds."""
        descriptor, send = self._socket.fileno(), self._sendmmsg
        size, count = ctypes.sizeof(_Message), len(self._messages)
        batches = [ctypes.byref(self._messages, first * size) for first in range(0, count, BATCH)]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for batch in batches:
                # A full queue (ENOBUFS) is expected at full load, so it is ignored.
                send(descriptor, batch, BATCH, 0)
