"""The routing of ``bmv2/benches/peers.rs`` in XDP, by test runs of the kernel."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import struct
import subprocess
import tempfile
from array import array
from pathlib import Path

from peers import NotInstalledError
from peers.frames import HOP_MAC, port_of, prefix, routed_frames

HERE = Path(__file__).resolve().parent
#: Frames per test run of an XDP program, and measured test runs.
REPEAT, TURNS = 200_000, 7
#: A cell that selects a block, and the number of blocks, as in route.bpf.c.
_BLOCK, MAX_BLOCKS = 0x80000000, 1024
_TOTAL, _NEXT, _ROUTED = range(3)


def xdp(prefixes: int, *, flat: bool) -> float:
    """Route frames by XDP, by the kernel's LPM trie or by flat arrays.

    Return nanoseconds per frame, with the harness.
    """
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
        return _Program(built, "route_flat" if flat else "route").route(prefixes)


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

    def __init__(self, path: Path, name: str) -> None:
        self._is_flat = name == "route_flat"
        try:
            self._bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError as error:
            raise NotInstalledError(str(error)) from error
        for function in ("bpf_object__open_file", "bpf_object__find_program_by_name"):
            getattr(self._bpf, function).restype = ctypes.c_void_p
        self._object = ctypes.c_void_p(self._bpf.bpf_object__open_file(str(path).encode(), None))
        if self._object.value is None or self._bpf.bpf_object__load(self._object):
            msg = "the kernel does not load the program: needs root"
            raise NotInstalledError(msg)
        program = ctypes.c_void_p(self._bpf.bpf_object__find_program_by_name(self._object, name.encode()))
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

    def _add_flat(self, hops: dict[tuple[int, int], int]) -> None:
        cells, blocks = flat_arrays(list(hops))
        for number, port in enumerate(hops.values()):
            self._update("hops", struct.pack("I", number), HOP_MAC + struct.pack("H", port))
        self._fill("cells", cells)
        self._fill("blocks", blocks)

    def _fill(self, table: str, cells: array[int]) -> None:
        descriptor = self._bpf.bpf_object__find_map_fd_by_name(self._object, table.encode())
        # The kernel rounds the size of elements up to 8 bytes.
        data = array("Q", cells).tobytes()
        with mmap.mmap(descriptor, len(data)) as memory:
            memory[:] = data

    def route(self, prefixes: int) -> float:
        """Add entries and frames, and measure."""
        hops = {prefix(index, prefixes): port_of(index) + 1 for index in range(prefixes)}
        if self._is_flat:
            self._add_flat(hops)
        else:
            for (value, length), port in hops.items():
                key = struct.pack("I", length) + struct.pack(">I", value)
                self._update("routes", key, HOP_MAC + struct.pack("H", port))
        frames = routed_frames(prefixes)
        count = len(frames)
        for index, received in enumerate(frames):
            self._update("frames", struct.pack("I", index), received)
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


def flat_arrays(prefixes: list[tuple[int, int]]) -> tuple[array[int], array[int]]:
    """Return the cells of the first 24 bits and the blocks of the last 8: numbers of prefixes plus one."""
    cells, blocks, used = array("I", bytes(4 << 24)), array("I", bytes(4 * MAX_BLOCKS << 8)), 0
    for number in sorted(range(len(prefixes)), key=lambda number: prefixes[number][1]):
        value, length = prefixes[number]
        if length <= 24:
            count = 1 << (24 - length)
            cells[value >> 8 : (value >> 8) + count] = array("I", [number + 1]) * count
            continue
        if not cells[value >> 8] & _BLOCK:
            if used == MAX_BLOCKS:
                msg = f"more than {MAX_BLOCKS} blocks of prefixes longer than 24 bits"
                raise ValueError(msg)
            blocks[used << 8 : used + 1 << 8] = array("I", [cells[value >> 8]]) * 256
            cells[value >> 8], used = _BLOCK | used, used + 1
        at, count = (cells[value >> 8] & ~_BLOCK) << 8 | value & 0xFF, 1 << (32 - length)
        blocks[at : at + count] = array("I", [number + 1]) * count
    return cells, blocks
