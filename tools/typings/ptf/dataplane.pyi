from typing import Any

def match_exp_pkt(exp_pkt: Any, pkt: bytes) -> bool: ...

class DataPlane:
    packet_queues: dict[tuple[int, int], list[tuple[bytes, float]]]

    class PollSuccess:
        port: int
        packet: bytes

    class PollFailure: ...

    def send(self, device_number: int, port_number: int, packet: bytes) -> int: ...
    def poll(
        self,
        device_number: int = 0,
        port_number: int | None = None,
        timeout: float | None = None,
        exp_pkt: Any = None,
        filters: Any = (),
    ) -> PollSuccess | PollFailure: ...
    def flush(self) -> None: ...
