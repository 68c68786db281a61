class DataPlane:
    class PollSuccess:
        packet: bytes

    class PollFailure: ...

    def send(self, device_number: int, port_number: int, packet: bytes) -> int: ...
    def poll(
        self,
        device_number: int = 0,
        port_number: int | None = None,
        timeout: float | None = None,
    ) -> PollSuccess | PollFailure: ...
    def flush(self) -> None: ...
