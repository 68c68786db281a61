class Mask:
    exp_pkt: bytes
    mask: list[int]
    ignore_extra_bytes: bool
