from typing import Any

from mininet.net import Mininet

class CLI:
    mn: Mininet
    def __init__(self, mininet: Mininet, stdin: Any = None, script: str | None = None) -> None: ...
