//! A tour of the crate: build a RoCEv2 packet, show it, break it, find the difference, and repair it.
//!
//! `cargo run -p scapy-rs --example tour`

use scapy::{
    diff_frames, dissect, hexdump, Bth, Ether, FieldError, Filter, Icrc, Ipv4, Mask, Raw, Udp,
};

fn main() -> Result<(), FieldError> {
    // Fields without a value are computed: lengths, checksums, protocol numbers, padding, ICRC.
    let packet = Ether::new().dst("02:00:00:00:00:02")
        / Ipv4::to("10.0.0.2").src("10.0.0.1").ttl(9)
        / Udp::port(4791)
        / Bth::send_only(0x11, 7)
        / Raw::bytes("abc")
        / Icrc;
    println!("{}\n", packet.summary());
    println!("{}", packet.show2()?);
    let frame = packet.build()?;
    println!("{}", hexdump(&frame));

    // A switch decrements the TTL, and keeps the old checksum.
    let mut broken = dissect(&frame);
    broken.set("IP", "ttl", 8)?;
    let broken = broken.build()?;
    for difference in diff_frames(&frame, &broken, &Mask::default()) {
        println!("{difference}");
    }

    // Sums are computed again; the ICRC does not cover the TTL.
    let mut repaired = dissect(&broken);
    repaired.clear_computed();
    for difference in diff_frames(&frame, &repaired.build()?, &Mask::ignoring(["IP.ttl"])) {
        println!("{difference}");
    }

    let filter: Filter = "BTH.opcode == SEND_ONLY and IP.dst in 10.0.0.0/8"
        .parse()
        .expect("the condition is well-formed");
    println!("selected: {}", filter.matches(&repaired));
    Ok(())
}
