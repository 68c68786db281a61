"""PTF's platform of the runner: interfaces as of PTF's platform `eth`, and reports of failures.

PTF loads it from this folder by its name, with `--platform-dir` and `--platform`.
"""

from __future__ import annotations

from typing import Any

from alfirk_ptf.report import install
from ptf.platforms import eth


def platform_config_update(config: dict[str, Any]) -> None:
    """Set the interfaces of ports, and install the reports; PTF calls this before it opens the interfaces."""
    eth.platform_config_update(config)
    install(config["platform_args"])
