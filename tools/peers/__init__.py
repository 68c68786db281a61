"""Other software switches that do the work of ``bmv2/benches/peers.rs``, where they are installed."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Frames per test run of an XDP program, and measured test runs.
REPEAT, TURNS = 200_000, 7
_TOTAL, _NEXT, _ROUTED = range(3)
_MASK = 0xFFFFFFFF


class NotInstalledError(Exception):
    """A tool or permission that a measurement needs is missing."""


def xdp(prefixes: int) -> float:
    """Route frames by XDP and the kernel's LPM trie; return nanoseconds per frame, with the harness."""
    if shutil.which("clang") is None:
        msg = "needs clang and libbpf-dev"
        raise NotInstalledError(msg)
    with tempfile.TemporaryDirectory() as directory:
        built = Path(directory) / "route.o"
        command = ["clang", "-O2", "-g", "-target", "bpf", "-c", str(HERE / "route.bpf.c"), "-o", str(built)]
        include = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=False)
        if include.stdout.strip():
            command += ["-I", f"/usr/include/{include.stdout.strip()}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(done.stderr.strip().splitlines()[-1])
        return _Program(built).route(prefixes)


class _TestRun(ctypes.Structure):
    """libbpf's ``bpf_test_run_opts``."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_void_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("context_in", ctypes.c_void_p),
        ("context_out", ctypes.c_void_p),
        ("context_size_in", ctypes.c_uint32),
        ("context_size_out", ctypes.c_uint32),
        ("returned", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


class _Program:
    """A loaded XDP program."""

    def __init__(self, path: Path) -> None:
        try:
            self._bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError as error:
            raise NotInstalledError(str(error)) from error
        for name in ("bpf_object__open_file", "bpf_object__find_program_by_name"):
            getattr(self._bpf, name).restype = ctypes.c_void_p
        self._object = ctypes.c_void_p(self._bpf.bpf_object__open_file(str(path).encode(), None))
        if self._object.value is None or self._bpf.bpf_object__load(self._object):
            msg = "the kernel does not load the program: needs root"
            raise NotInstalledError(msg)
        program = ctypes.c_void_p(self._bpf.bpf_object__find_program_by_name(self._object, b"route"))
        self._program = self._bpf.bpf_program__fd(program)

    def _update(self, table: str, key: bytes, value: bytes) -> None:
        descriptor = self._bpf.bpf_object__find_map_fd_by_name(self._object, table.encode())
        if self._bpf.bpf_map_update_elem(descriptor, key, value, 0):
            msg = f"cannot write {table}"
            raise RuntimeError(msg)

    def _count(self, which: int) -> int:
        descriptor = self._bpf.bpf_object__find_map_fd_by_name(self._object, b"counts")
        value = ctypes.c_uint32()
        self._bpf.bpf_map_lookup_elem(descriptor, struct.pack("I", which), ctypes.byref(value))
        return value.value

    def route(self, prefixes: int) -> float:
        """Add entries and frames, and measure."""
        for index in range(prefixes):
            value, length = prefix(index, prefixes)
            key = struct.pack("I", length) + struct.pack(">I", value)
            self._update("routes", key, bytes((2, 0, 0, 0, 0, 9)) + struct.pack("H", index % 200 + 1))
        count = min(max(prefixes // 10, 1_000), 10_000)
        for index in range(count):
            number = scattered(index) * prefixes >> 32
            self._update("frames", struct.pack("I", index), frame(prefix(number, prefixes)[0] | 1))
        self._update("counts", struct.pack("I", _TOTAL), struct.pack("I", count))
        for which in (_NEXT, _ROUTED):
            self._update("counts", struct.pack("I", which), struct.pack("I", 0))
        data = ctypes.create_string_buffer(64)
        times = []
        for _ in range(TURNS):
            run = _TestRun(
                size=ctypes.sizeof(_TestRun),
                data_in=ctypes.addressof(data),
                data_size_in=len(data),
                repeat=REPEAT,
            )
            if self._bpf.bpf_prog_test_run_opts(self._program, ctypes.byref(run)):
                msg = "the kernel has no test run of XDP programs"
                raise NotInstalledError(msg)
            times.append(float(run.duration))
        if self._count(_ROUTED) != TURNS * REPEAT:
            msg = f"{self._count(_ROUTED)} of {TURNS * REPEAT} frames were routed"
            raise RuntimeError(msg)
        # Other load on the machine only adds to the time.
        return min(times)


def scattered(number: int) -> int:
    """Map numbers one-to-one to numbers spread over 32 bits, as the benchmark does."""
    return number * 0x9E3779B1 & _MASK


def prefix(index: int, prefixes: int) -> tuple[int, int]:
    """Return value and length of a prefix, as the benchmark does."""
    if prefixes <= 1000:
        value, length = 0x0A000000 | index << 12, 16 + 4 * (index % 5)
    else:
        value, length = scattered(index), (24, 24, 24, 22, 20)[index % 5]
    return value >> (32 - length) << (32 - length), length


def frame(address: int) -> bytes:
    """Return a frame of 64 bytes to an IPv4 address."""
    fields = (0x45, 0, 50, 0x1234, 0x4000, 64, 17, 0, 0x0B000001, address)
    header = bytearray(struct.pack(">BBHHHBBHII", *fields))
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    return bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0)) + bytes(header) + bytes(30)
