"""Guests that run MPI programs, with and without the alfirk library in front of Debian's Open MPI.

Guests load Open MPI from the folder that they share, which keeps the boot image small.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import DEVICE
from alfirk_mininet.interactive import start_controller
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings
from alfirk_mininet.process import stop_all
from alfirk_mininet.topology import Topology

from alfirk_interop.image import libraries
from alfirk_interop.scenarios import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TESTBED = ROOT / "topologies" / "testbed.yaml"
#: Hosts that are guests; the first one starts the ranks.
HOSTS = ["h1", "h2", "h3"]
#: Two ranks on the first host, one on each of the others.
RANKS = len(HOSTS) + 1
#: Plugins of Open MPI for ranks over TCP and shared memory. Each costs time on an emulated processor.
PLUGINS = (
    "allocator_b* bml_r2 btl_self btl_tcp btl_vader coll_basic coll_inter coll_libnbc coll_self coll_tuned "
    "errmgr_default_* ess_env ess_hnp ess_pmi filem_raw grpcomm_direct iof_* mpool_hugepage odls_default "
    "oob_tcp plm_rsh pmix_ext3x pml_ob1 rcache_grdma reachable_weighted regx_* rmaps_round_robin rmaps_ppr "
    "rml_oob routed_* schizo_ompi schizo_orte shmem_mmap shmem_posix state_* topo_basic"
)
_OPENMPI = "*-linux-gnu/openmpi/lib/openmpi3"
_PMIX = "*-linux-gnu/pmix2/lib/pmix"
#: Patterns of the libraries that programs load.
LIBRARY = "libalfirk_mpi.so"
#: Time limit of one program in seconds; hpcc takes minutes before HPL on emulated processors.
LIMIT = 900.0


@dataclass(frozen=True)
class SharedFolder:
    """The folder of MPI files, which guests mount under the same path."""

    folder: Path

    @property
    def environment(self) -> str:
        """Shell commands that set the environment of Open MPI in a guest."""
        values = {
            "LD_LIBRARY_PATH": f"{self.folder}/lib",
            "PATH": f"{self.folder}/bin:/bin",
            "TMPDIR": "/tmp",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        return "ulimit -l unlimited; " + " ".join(f"export {name}={value};" for name, value in values.items())

    def prepare(self, programs: list[Path]) -> None:
        """Collect programs, plugins and libraries, and write the script that starts ranks on other guests."""
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
        # The host machine reads the commands there, so that guests need no remote shell.
        agent.write_text(
            f'#!/bin/sh\nhost=$1\nshift\necho "$*" >{orders}/$host.draft\n'
            f"mv {orders}/$host.draft {orders}/$host.order\n"
        )
        agent.chmod(0o755)

    def links(self) -> str:
        """Shell commands that link plugins into Open MPI's folders, and create the guest's user."""
        places = {}
        for pattern, name in ((_OPENMPI, "plugins"), (_PMIX, "pmix")):
            (place,) = Path("/usr/lib").glob(pattern)
            places[place] = self.folder / name
        links = [f"mkdir -p {place.parent}; ln -sfn {here} {place};" for place, here in places.items()]
        share = f"mkdir -p /usr/share; ln -sfn {self.folder}/openmpi /usr/share/openmpi;"
        return " ".join([*links, share, "echo root:x:0:0:root:/root:/bin/sh >/etc/passwd"])


class Starter:
    """Runs the commands that ``mpirun`` on one guest issues for the others."""

    def __init__(self, network: Network, shared_folder: SharedFolder) -> None:
        self._shells = {guest.address.partition("/")[0]: guest.shell for guest in network.guests.values()}
        self._shared_folder = shared_folder
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
                for order in (self._shared_folder.folder / "orders").glob("*.order"):
                    command = order.read_text()
                    order.unlink()
                    pool.submit(self._execute, order.stem, command)

    def _execute(self, address: str, command: str) -> None:
        log = self._shared_folder.folder / f"{address}.log"
        try:
            _, output = self._shells[address].attempt(
                f"{self._shared_folder.environment} {command.strip()}", LIMIT
            )
        except NetworkError as error:
            output = f"{error.what}: {error.hint}"
        log.write_text(output)


@dataclass(frozen=True)
class Cluster:
    """Guests that can run MPI programs."""

    network: Network
    shared_folder: SharedFolder

    def run(self, program: str, variables: dict[str, str] | None = None) -> str:
        """Run a program on all guests. Return its standard output and error.

        With `variables` it runs with the alfirk library and these environment variables.
        """
        flags = ""
        if variables is not None:
            loaded = {"LD_PRELOAD": f"{self.shared_folder.folder}/bin/{LIBRARY}", **variables}
            loaded |= {"ALFIRK_MPI_VERBOSE": "1", "ALFIRK_MPI_DEVICE": DEVICE}
            flags = " ".join(f"-x {name}={value}" for name, value in loaded.items())
        folder = self.shared_folder.folder
        addresses = [self.network.guests[name].address.partition("/")[0] for name in HOSTS]
        first = self.network.guests[HOSTS[0]].shell
        for name in HOSTS:
            self.network.guests[name].shell.run(self.shared_folder.links())
        hosts = ",".join([f"{addresses[0]}:2", *addresses[1:]])
        options = f"--mca plm_rsh_agent {folder}/bin/agent --mca plm_rsh_no_tree_spawn 1 --mca btl self,tcp"
        options += " --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca pml ob1 --bind-to none"
        options += f" --launch-agent {folder}/bin/orted -x LD_LIBRARY_PATH --wdir {folder}"
        command = f"orterun {options} --host {hosts} -np {RANKS} {flags} {folder}/bin/{program}"
        return first.run(f"{self.shared_folder.environment} {command}", LIMIT)


@contextmanager
def cluster(
    alfirk: Path,
    image: Path,
    folder: Path,
    programs: list[Path],
    port_drops: Sequence[tuple[str, str]] = (),
) -> Iterator[Cluster]:
    """Boot the guests, with captures of all ports in the folder's ``pcaps``."""
    workdir = folder / "network"
    shared_folder = SharedFolder(workdir / "mpi")
    library = alfirk.parent / LIBRARY
    if not library.is_file():
        raise NetworkError(f"there is no {library}", "cargo build -p alfirk-mpi")
    shared_folder.prepare([*programs, library])
    settings = Settings(
        alfirk,
        workdir,
        rdma=False,
        guests=HOSTS,
        guest_image=image,
        kernel_ip=True,
        pcap=folder / "pcaps",
        port_drops=port_drops,
    )
    with Network(Topology.load(TESTBED, alfirk), settings) as network:
        controller, _ = start_controller(TESTBED, settings, network.switches)
        try:
            with Starter(network, shared_folder):
                yield Cluster(network, shared_folder)
        finally:
            stop_all([controller])
