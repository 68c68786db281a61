"""The gRPC library of most controllers connects to the switch by TLS, with simple_switch_grpc's flags."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a certificate authority (ca.pem) and the files it has signed: {switch,client}.{pem,key}."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("switch", "client"):
        openssl("req", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-extfile", "names", "-out", f"{name}.pem"),
        )
    return folder


@contextmanager
def _switch(files: Path, *more: str) -> Iterator[str]:
    command: list[str | Path] = [
        *(ALFIRK, "switch", "--no-p4", "--", "--grpc-server-addr", "127.0.0.1:0", "--grpc-server-ssl"),
        *("--grpc-server-cert", files / "switch.pem", "--grpc-server-key", files / "switch.key"),
        *more,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as switch:
        try:
            assert switch.stdout
            yield next(line for line in switch.stdout if "listening on" in line).split()[-1]
        finally:
            switch.terminate()


def _version(address: str, files: Path, client: str | None = None) -> str:
    """Request the server's version of P4Runtime."""
    credentials = grpc.ssl_channel_credentials(
        (files / "ca.pem").read_bytes(),
        (files / f"{client}.key").read_bytes() if client else None,
        (files / f"{client}.pem").read_bytes() if client else None,
    )
    with grpc.secure_channel(address, credentials) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        answer = stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=20)
        return str(answer.p4runtime_api_version)


def clients_that_trust_the_authority_are_served(files: Path) -> None:
    with _switch(files) as address:
        assert _version(address, files).startswith("1.")


def clients_show_a_certificate_if_asked(files: Path) -> None:
    mutual = ("--grpc-server-with-client-auth", "--grpc-server-cacert", str(files / "ca.pem"))
    with _switch(files, *mutual) as address:
        assert _version(address, files, "client").startswith("1.")
        with pytest.raises(grpc.RpcError) as refused:
            _version(address, files)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
