"""Measures alfirk on this machine: compiler, pipeline core, simulator, main job, switch over veth.

Absolute numbers are this machine's; the switch is also shown beside other switches with the same work.
They are measured alternately, several times, so that other load affects all.  Called by ``make bench``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_hosts
import bench_packets
import bench_peers
import bench_veth
from alfirk_ptf.live import MAIN_PROGRAM, compile_program
from bench_report import ROOT, print_result
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2


def main() -> int:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alfirk", type=Path, required=True, help="an optimised alfirk command")
    parser.add_argument("--skip-cargo", action="store_true", help="leave out the benchmarks that cargo runs")
    options = parser.parse_args()
    alfirk = options.alfirk.absolute()

    print_result("machine", f"{os.cpu_count()} x {cpu_model()}")
    compiler(alfirk)
    pipeline_state(alfirk)
    main_job(alfirk)
    simulator(alfirk)
    switch_start(alfirk)
    bench_packets.measure(alfirk, print_result)
    if not options.skip_cargo:
        cargo_benches()
        bench_peers.measure()
    if os.geteuid() == 0:
        bench_veth.throughput(alfirk)
        bench_hosts.between_hosts(alfirk)
    else:
        print_result("switch over veth", "NOT RUN, needs root: sudo make bench")
    return 0


def cpu_model() -> str:
    """Name the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def compiler(alfirk: Path) -> None:
    """Measure one compilation of p4src, process start included."""
    with tempfile.TemporaryDirectory() as directory:
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            compile_program(alfirk, MAIN_PROGRAM, Path(directory))
            times.append(time.perf_counter() - begin)
    print_result("compile p4src", f"{min(times) * 1e3:.1f} ms (best of {len(times)})")


def pipeline_state(alfirk: Path) -> None:
    """Count the state of the compiled pipeline: registers, and tables as key and action data by size."""
    with tempfile.TemporaryDirectory() as directory:
        program = compile_program(alfirk, MAIN_PROGRAM, Path(directory))
        text = program.with_suffix(".p4info.txtpb").read_text(encoding="utf-8")
    info = text_format.Parse(text, p4info_pb2.P4Info())
    registers = {r.preamble.name: r.size * r.type_spec.bitstring.bit.bitwidth for r in info.registers}
    data = {a.preamble.id: sum(p.bitwidth for p in a.params) for a in info.actions}
    tables = {}
    for table in info.tables:
        key = sum(field.bitwidth for field in table.match_fields)
        # An entry stores an action id, and space for the parameters of the largest action.
        actions = [data[ref.id] for ref in table.action_refs]
        choice = (len(actions) - 1).bit_length()
        tables[table.preamble.name] = table.size * (key + choice + max(actions))
    cells = sum(c.size for c in info.counters) + sum(m.size for m in info.meters)
    groups = next(t.size for t in info.tables if t.preamble.name == "ingress.group_lookup.groups")
    paths = next(t.size for t in info.tables if t.preamble.name == "ingress.group_lookup.mft") // groups
    for kind, parts in (("registers", registers), ("tables", tables)):
        largest = sorted(parts, key=lambda name: -parts[name])[:3]
        print_result(
            f"{groups} groups of {paths}, {kind}",
            f"{sum(parts.values()) / 8e6:.2f} MB in {len(parts)}: "
            + ", ".join(f"{'.'.join(name.split('.')[-2:])} {parts[name] / 8e6:.2f}" for name in largest)
            + ", ...",
        )
    total = sum(registers.values()) + sum(tables.values())
    print_result("", f"{total / 8e6:.2f} MB in all, counters and meters ({cells} cells) left out")


def main_job(alfirk: Path) -> None:
    """Measure the main job with 16 MiB, in virtual time: wall time and memory."""
    command = [
        *(str(alfirk), "run", "--topology", str(ROOT / "topologies" / "fat-tree-k4.yaml")),
        *("--group", "16", "--size", "16MiB", "--algorithms", "alfirk", "--json"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print_result("main job, 16 MiB", f"FAILED: {done.stderr.strip()}")
        return
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print_result(
        "main job, 16 MiB, alfirk", f"{took:.1f} s wall, {used:.1f} s CPU, {after.ru_maxrss / 1024:.0f} MiB"
    )


def simulator(alfirk: Path) -> None:
    """Measure large fabrics in virtual time: whole runs, including the start of the program."""
    broadcast = ("--topology", "fat-tree:16", "--group", "513", "--algorithms", "alfirk")
    exact = scale(alfirk, "512 receivers, 16 MiB, exact", *broadcast, "--size", "16MiB")
    fast = scale(alfirk, "512 receivers, 16 MiB, fast", *broadcast, "--size", "16MiB", "--model", "fast")
    if exact and fast:
        print_result("", f"the fast model takes 1/{exact / fast:.1f} of the exact one's processor time")
    scale(alfirk, "512 receivers, 128 MiB, fast", *broadcast, "--size", "128MiB", "--model", "fast")
    hpl = ("--topology", "fat-tree:26", "--workload", "hpl:grid=64x64,panel=1MiB", "--algorithms", "alfirk")
    scale(alfirk, "HPL, 64 x 64, fast", *hpl, "--model", "fast")
    hosts = ("--topology", "fat-tree:64,pods=16", "--size", "1MiB", "--algorithms", "alfirk")
    scale(alfirk, "16,384 hosts, 1 MiB, fast", *hosts, "--model", "fast")


def scale(alfirk: Path, what: str, *arguments: str) -> float | None:
    """Run one job; return its processor time in seconds."""
    command = [str(alfirk), "run", *arguments, "--json"]
    with tempfile.TemporaryFile("w+") as report:
        with subprocess.Popen(command, stdout=report, stderr=subprocess.DEVNULL) as child:
            # wait4 reports this child's use; getrusage would report the largest memory of all children.
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            print_result(what, f"FAILED: {' '.join(command)}")
            return None
        report.seek(0)
        crossings = sum(result["wire_packets"] for result in json.load(report)["results"])
    seconds = used.ru_utime + used.ru_stime
    rate = f"{crossings:,} crossings of links, {crossings / seconds / 1e6:.2f} million each second"
    print_result(what, f"{seconds:.1f} s CPU, {used.ru_maxrss / 1024:.0f} MiB; {rate}")
    return seconds


def switch_start(alfirk: Path) -> None:
    """Measure the time until a switch with a program serves P4Runtime, and its memory when idle."""
    with tempfile.TemporaryDirectory() as directory:
        program = compile_program(alfirk, ROOT / "bmv2" / "test_data" / "l2.p4", Path(directory))
        command = [str(alfirk), "switch", str(program), "--", "--grpc-server-addr", "127.0.0.1:0"]
        times, memory = [], 0.0
        for _ in range(10):
            begin = time.perf_counter()
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as child:
                if child.stdout is None or "listening" not in child.stdout.readline():
                    msg = "the switch did not start"
                    raise RuntimeError(msg)
                times.append(time.perf_counter() - begin)
                status = Path(f"/proc/{child.pid}/status").read_text()
                memory = float(status.partition("VmRSS:")[2].split()[0]) / 1024
                child.terminate()
    print_result(
        "switch, start to ready", f"{min(times) * 1e3:.1f} ms (best of {len(times)}), {memory:.0f} MiB"
    )


def cargo_benches() -> None:
    """Run the benchmarks of the crates, without those that `bench_peers` runs."""
    cargo = str(ROOT / "tools" / "cargo")
    metadata = subprocess.run(
        [cargo, "metadata", "--no-deps", "--format-version", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names = {
        target["name"]
        for package in json.loads(metadata.stdout)["packages"]
        for target in package["targets"]
        if "bench" in target["kind"]
    }
    selected = [word for name in sorted(names - set(bench_peers.BENCHES)) for word in ("--bench", name)]
    done = subprocess.run(
        [cargo, "bench", "--quiet", "--workspace", "--no-fail-fast", *selected],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)
    if done.returncode:
        print_result("benchmarks of the crates", "FAILED: see the messages of cargo above")


if __name__ == "__main__":
    sys.exit(main())
