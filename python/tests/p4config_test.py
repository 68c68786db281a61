"""The message in which clients of BMv2 may wrap a program."""

import importlib.util
from pathlib import Path


def device_config_has_the_numbers_of_its_proto_file() -> None:
    # The installed package p4, not python/p4, is what `import p4` finds in a clone.
    path = Path(__file__).parents[1] / "p4" / "tmp" / "p4config_pb2.py"
    spec = importlib.util.spec_from_file_location("p4config_pb2", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = module.P4DeviceConfig(reassign=True, device_data=b"{}")
    config.extras.kv["a"] = "b"
    assert config.SerializeToString() == b"\x08\x01\x12\x08\x0a\x06\x0a\x01a\x12\x01b\x1a\x02{}"
