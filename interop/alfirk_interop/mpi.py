"""MPI programs in guests, unchanged, with and without our library before Debian's Open MPI.

Open MPI comes to the guests by the folder that they share, so that what all guests boot stays small.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import DEVICE
from alfirk_mininet.interactive import start_controller
from alfirk_mininet.interfaces import switch_interface
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings
from alfirk_mininet.process import stop_all
from alfirk_mininet.topology import Topology

from alfirk_interop.image import libraries
from alfirk_interop.scenarios import ROOT

TESTBED = ROOT / "topologies" / "testbed.yaml"
EXAMPLES = ROOT / "mpi" / "examples"
#: Hosts that are guests, the first one of which starts the ranks.
HOSTS = ["h1", "h2", "h3"]
#: Two ranks on the first host, one on each of the others.
RANKS = len(HOSTS) + 1
#: Open MPI's parts that ranks over TCP and shared memory need; each costs an emulated processor time.
PLUGINS = (
    "allocator_b* bml_r2 btl_self btl_tcp btl_vader coll_basic coll_inter coll_libnbc coll_self coll_tuned "
    "errmgr_default_* ess_env ess_hnp ess_pmi filem_raw grpcomm_direct iof_* mpool_hugepage odls_default "
    "oob_tcp plm_rsh pmix_ext3x pml_ob1 rcache_grdma reachable_weighted regx_* rmaps_round_robin rmaps_ppr "
    "rml_oob routed_* schizo_ompi schizo_orte shmem_mmap shmem_posix state_* topo_basic"
)
_OPENMPI = "*-linux-gnu/openmpi/lib/openmpi3"
_PMIX = "*-linux-gnu/pmix2/lib/pmix"
#: Blocks of the message whose way is looked at, and the words that mark it without and with the library.
BLOCKS, MARKS = 3200, ("marked-beneath", "marked-by-group")
#: Seconds that one program may take.
LIMIT = 150.0


@dataclass(frozen=True)
class Room:
    """The folder for MPI, which guests see under the same path."""

    folder: Path

    @property
    def environment(self) -> str:
        """Shell commands that let Open MPI work in a guest."""
        values = {
            "LD_LIBRARY_PATH": f"{self.folder}/lib",
            "PATH": f"{self.folder}/bin:/bin",
            "TMPDIR": "/tmp",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        return "ulimit -l unlimited; " + " ".join(f"export {name}={value};" for name, value in values.items())

    def prepare(self, programs: list[Path]) -> None:
        """Gather programs, plugins and libraries, and write what starts ranks on other guests."""
        for name in ("bin", "lib", "plugins", "pmix", "orders"):
            (self.folder / name).mkdir(parents=True)
        usr = Path("/usr/lib")
        plugins = [file for word in PLUGINS.split() for file in usr.glob(f"{_OPENMPI}/mca_{word}.so")]
        pmix = [*usr.glob(f"{_PMIX}/*.so")]
        tools = [Path("/usr/bin/orterun"), Path("/usr/bin/orted")]
        for files, name in ((plugins, "plugins"), (pmix, "pmix"), ([*tools, *programs], "bin")):
            for file in files:
                shutil.copy(file, self.folder / name)
        for library in libraries([*plugins, *pmix, *tools, *programs]):
            shutil.copy(library, self.folder / "lib")
        agent = self.folder / "bin" / "agent"
        orders = self.folder / "orders"
        # The machine around takes orders from there: no guest needs to serve shells to others.
        agent.write_text(
            f'#!/bin/sh\nhost=$1\nshift\necho "$*" >{orders}/$host.draft\n'
            f"mv {orders}/$host.draft {orders}/$host.order\n"
        )
        agent.chmod(0o755)

    def links(self) -> str:
        """Shell commands that put plugins where Open MPI looks for them, and name the guest's only user."""
        places = {}
        for pattern, name in ((_OPENMPI, "plugins"), (_PMIX, "pmix")):
            (place,) = Path("/usr/lib").glob(pattern)
            places[place] = self.folder / name
        links = [f"mkdir -p {place.parent}; ln -sfn {here} {place};" for place, here in places.items()]
        share = f"mkdir -p /usr/share; ln -sfn {self.folder}/openmpi /usr/share/openmpi;"
        return " ".join([*links, share, "echo root:x:0:0:root:/root:/bin/sh >/etc/passwd"])


class Starter:
    """Runs on guests what ``mpirun`` on another one orders."""

    def __init__(self, network: Network, room: Room) -> None:
        self._shells = {guest.address.partition("/")[0]: guest.shell for guest in network.guests.values()}
        self._room = room
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Starter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        with ThreadPoolExecutor(len(self._shells)) as pool:
            while not self._ended.wait(0.1):
                for order in (self._room.folder / "orders").glob("*.order"):
                    command = order.read_text()
                    order.unlink()
                    pool.submit(self._obey, order.stem, command)

    def _obey(self, address: str, command: str) -> None:
        log = self._room.folder / f"{address}.log"
        try:
            _, said = self._shells[address].attempt(f"{self._room.environment} {command.strip()}", LIMIT)
        except NetworkError as error:
            said = f"{error.what}: {error.hint}"
        log.write_text(said)


def programs_give_the_same(alfirk: Path, image: Path, keep: Path | None) -> list[str]:
    """Run an MPI program with and without the library; say what is wrong."""
    with tempfile.TemporaryDirectory(prefix="alfirk-mpi-") as folder:
        problems = _run(alfirk, image, Path(folder))
        if problems and keep:
            kept = keep / "MPI"
            shutil.copytree(
                folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "*.shell")
            )
    return problems


def _run(alfirk: Path, image: Path, folder: Path) -> list[str]:
    workdir = folder / "network"
    room = Room(workdir / "mpi")
    library = alfirk.parent / "libalfirk_mpi.so"
    if not library.is_file():
        return [f"there is no {library}: cargo build -p alfirk-mpi"]
    programs = [folder / "collectives", folder / "marked"]
    for program in programs:
        problem = _compile(EXAMPLES / f"{program.name}.c", program)
        if problem:
            return [problem]
    room.prepare([*programs, library])
    settings = Settings(
        alfirk,
        workdir,
        rdma=False,
        guests=HOSTS,
        guest_image=image,
        kernel_ip=True,
        pcap=folder / "pcaps",
    )
    try:
        with Network(Topology.load(TESTBED, alfirk), settings) as network:
            controller, _ = start_controller(TESTBED, settings, network.switches)
            try:
                with Starter(network, room):
                    loaded = f"-x LD_PRELOAD={room.folder}/bin/{library.name} -x ALFIRK_MPI_VERBOSE=1"
                    loaded += f" -x ALFIRK_MPI_DEVICE={DEVICE}"
                    said = [_mpirun(network, room, "collectives 70001", flags) for flags in ("", loaded)]
                    for mark, flags in zip(MARKS, ("", loaded), strict=True):
                        _mpirun(network, room, f"marked {mark} {BLOCKS}", flags)
            finally:
                stop_all([controller])
    except NetworkError as error:
        return [f"{error.what}: {error.hint}"]
    return [*_differences(*said), *_crossings(folder / "pcaps")]


def _compile(source: Path, program: Path) -> str | None:
    command = ["mpicc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"cannot compile {source.name}: {done.stderr.strip()[-400:]}" if done.returncode else None


def _mpirun(network: Network, room: Room, program: str, flags: str) -> str:
    """Run a program on all guests; give what it says on both outputs."""
    addresses = [network.guests[name].address.partition("/")[0] for name in HOSTS]
    first = network.guests[HOSTS[0]].shell
    for name in HOSTS:
        network.guests[name].shell.run(room.links())
    hosts = ",".join([f"{addresses[0]}:2", *addresses[1:]])
    options = f"--mca plm_rsh_agent {room.folder}/bin/agent --mca plm_rsh_no_tree_spawn 1 --mca btl self,tcp"
    options += " --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca pml ob1 --bind-to none"
    options += f" --launch-agent {room.folder}/bin/orted -x LD_LIBRARY_PATH"
    command = f"orterun {options} --host {hosts} -np {RANKS} {flags} {room.folder}/bin/{program}"
    return first.run(f"{room.environment} {command}", LIMIT)


def _differences(without: str, with_it: str) -> list[str]:
    """Compare the ranks' digests, and demand that groups carried the second run."""

    def digests(said: str) -> list[str]:
        return [line for line in said.splitlines() if line.startswith("rank ")]

    problems = []
    if len(digests(without)) != RANKS:
        problems.append(f"without the library it said: {without}")
    if digests(without) != digests(with_it):
        problems.append(f"with the library it said: {with_it}")
    if f"{RANKS} ranks on {len(HOSTS)} hosts go over group" not in with_it or "beneath" in with_it:
        problems.append(f"not all went over groups: {with_it}")
    return problems


def _crossings(pcaps: Path) -> list[str]:
    """Demand that each byte crossed the source's link once by a group, and more often without."""
    topology = Topology.load(TESTBED)
    (switch,) = topology.switches
    port = switch_interface(switch.name, switch.device_id, 1)
    captured = (pcaps / f"{port}_in.pcap").read_bytes()
    beneath, by_group = (captured.count(mark.encode() + bytes(16)) for mark in MARKS)
    problems = []
    if by_group != BLOCKS:
        problems.append(f"of {BLOCKS} blocks {by_group} crossed the source's link by the group")
    if beneath <= BLOCKS:
        problems.append(f"of {BLOCKS} blocks {beneath} crossed the source's link without the library")
    return problems
