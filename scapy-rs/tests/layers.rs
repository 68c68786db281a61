//! Layers as users stack them.

use alfirk_roce::wire::{bth, mrp, Psn, QpNum};
use scapy::{
    diff_frames, dissect, unhex, Aeth, Arp, Bth, Cnp, Dot1Q, Ether, FieldError, Gre, Icmp, Icmpv6,
    Icrc, Ipv4, Ipv6, Ipv6Fragment, Layer, Mask, Mpls, Mrp, MrpNode, Packet, Pfc, Raw, Reth, Tcp,
    Udp, Value, Vxlan,
};

fn names(packet: &Packet) -> String {
    let names = packet.layers().iter().map(Layer::name);
    names.collect::<Vec<_>>().join("/")
}

#[test]
fn lengths_numbers_and_checksums_are_computed() {
    let packet = Ether::new().src("02:00:00:00:00:01")
        / Ipv4::to("10.0.0.2").src("10.0.0.1")
        / Udp::port(9)
        / "abc";
    let bytes = packet.build().unwrap();
    // The checksums are those of scapy 2.8.
    let expected = "ffffffffffff0200000000010800 4500001f00010000401166cb0a0000010a000002 00350009000b2735 616263";
    assert_eq!(scapy::hex(&bytes), scapy::hex(&unhex(expected).unwrap()));
}

#[test]
fn a_roce_packet_has_padding_and_icrc() {
    let packet = Ether::new()
        / Ipv4::to("10.0.0.2")
        / Udp::port(4791)
        / Bth::send_only(0x11, 7)
        / Raw::bytes("abc")
        / Icrc;
    let bytes = packet.build().unwrap();
    let dissected = dissect(&bytes);
    assert_eq!(names(&dissected), "Ether/IP/UDP/BTH/Raw/Pad/ICRC");
    let view = bth::View::new_checked(&bytes[42..]).unwrap();
    let expected = bth::Repr {
        pad_count: 1,
        ..bth::Repr::new(bth::Opcode::SendOnly, QpNum::new(0x11), Psn::new(7))
    };
    assert_eq!(bth::Repr::parse(&view), expected);
    let icrc = alfirk_roce::icrc::compute(&bytes[14..bytes.len() - 4]).unwrap();
    assert_eq!(
        dissected.layer("ICRC").unwrap().number("icrc"),
        Some(icrc.into())
    );
    assert_eq!(dissected.layer("UDP").unwrap().number("chksum"), Some(0));
}

#[test]
fn the_opcode_follows_from_the_extension_headers() {
    let opcode = |inner: Packet| {
        let packet = Ipv4::to("10.0.0.2") / Udp::port(4791) / Bth::new().psn(3) / inner / Icrc;
        packet
            .built()
            .unwrap()
            .layer("BTH")
            .unwrap()
            .text("opcode")
            .unwrap()
    };
    assert_eq!(opcode(Aeth::new().syndrome(0x1f).into()), "ACKNOWLEDGE");
    assert_eq!(opcode(Reth::new().into()), "RDMA_WRITE_ONLY");
    assert_eq!(opcode(Cnp::new().into()), "CNP");
    assert_eq!(opcode("abc".into()), "SEND_ONLY");
}

#[test]
fn registrations_are_as_roce_reads_them() {
    let leader = MrpNode::of([10, 0, 0, 1].into(), 17);
    let member = MrpNode::of([10, 0, 0, 2].into(), 18)
        .flags(0x40)
        .va(1_u64 << 40)
        .rkey(5)
        .log2_len(20);
    let packet = Ether::new()
        / Ipv4::to("10.255.0.1")
        / Udp::port(4790).sport(4790)
        / Mrp::new().psn(7)
        / leader
        / member;
    let bytes = packet.build().unwrap();
    let repr = mrp::Repr::parse(&mrp::View::new_checked(&bytes[42..]).unwrap());
    assert_eq!(repr.kind, mrp::Kind::Register);
    assert_eq!(repr.initial_psn, Psn::new(7));
    let region = mrp::Region {
        va: 1 << 40,
        rkey: 5,
        log2_len: 20,
    };
    assert_eq!(repr.nodes[1].region, Some(region));
    assert_eq!((repr.nodes.len(), repr.nodes[0].qpn), (2, QpNum::new(17)));
    assert_eq!(names(&dissect(&bytes)), "Ether/IP/UDP/MRP/MRPNode/MRPNode");
}

#[test]
fn pfc_is_as_roce_reads_it() {
    let packet = Ether::new() / Pfc::new().c3_enabled(1).c3_pause_time(0xffff);
    let bytes = packet.build().unwrap();
    let view = alfirk_roce::wire::pause::View::new_checked(&bytes[14..]).unwrap();
    assert_eq!([view.quanta(3), view.quanta(2)], [Some(0xffff), None]);
    assert_eq!(names(&dissect(&bytes)), "Ether/PFC");
}

#[test]
fn tunnels_nest() {
    let inner = || {
        Ether::new()
            / Ipv4::to("10.0.0.2")
            / Tcp::port(80).options(vec![Value::List(vec!["MSS".into(), 1460.into()])])
    };
    let vxlan = Ether::new()
        / Dot1Q::id(5)
        / Ipv6::to("2001:db8::2")
        / Udp::port(4789)
        / Vxlan::new().vni(42)
        / inner();
    let bytes = vxlan.build().unwrap();
    assert_eq!(
        names(&dissect(&bytes)),
        "Ether/Dot1Q/IPv6/UDP/VXLAN/Ether/IP/TCP"
    );
    let gre = Ether::new()
        / Mpls::new().label(7)
        / Mpls::new()
        / Ipv4::to("10.0.0.2")
        / Gre::new().key(9).sequence_number(3)
        / inner();
    let bytes = gre.build().unwrap();
    let dissected = dissect(&bytes);
    assert_eq!(names(&dissected), "Ether/MPLS/MPLS/IP/GRE/Ether/IP/TCP");
    let layer = dissected.layer("GRE").unwrap();
    let fields = ["key_present", "key", "sequence_number", "chksum"].map(|name| layer.number(name));
    assert_eq!(fields, [Some(1), Some(9), Some(3), None]);
    assert_eq!(dissected.layers()[1].number("s"), Some(0));
    assert_eq!(dissected.layers()[2].number("s"), Some(1));
}

#[test]
fn ethernet_padding_is_a_layer() {
    let mut bytes = (Ether::new() / Ipv4::to("10.0.0.2") / Udp::port(9) / "abc")
        .build()
        .unwrap();
    bytes.resize(60, 0);
    let mut packet = dissect(&bytes);
    assert_eq!(names(&packet), "Ether/IP/UDP/Raw/Padding");
    packet.clear_computed();
    assert_eq!(packet.build().unwrap(), bytes);
}

#[test]
fn fragments_are_payloads() {
    let packet = Ether::new() / Ipv4::to("10.0.0.2").flags("MF") / Udp::port(9);
    assert_eq!(names(&dissect(&packet.build().unwrap())), "Ether/IP/Raw");
    let packet = Ether::new() / Ipv6::to("::1") / Ipv6Fragment::new().offset(3) / Udp::port(9);
    assert_eq!(
        names(&dissect(&packet.build().unwrap())),
        "Ether/IPv6/IPv6ExtHdrFragment/Raw"
    );
}

#[test]
fn values_that_do_not_fit_are_errors_of_the_build() {
    let packet = Ether::new() / Ipv4::to("10.0.0.2").ttl(256) / Udp::port(9);
    let FieldError {
        layer,
        field,
        problem,
    } = packet.build().unwrap_err();
    assert_eq!((layer.as_str(), field.as_str()), ("IP", "ttl"));
    assert_eq!(
        problem,
        "IP.ttl: 256 does not fit into 8 bits; the largest value is 255"
    );
    let negative = (Ipv4::to("10.0.0.2").ttl(-1) / Udp::port(9))
        .build()
        .unwrap_err();
    assert_eq!(
        negative.to_string(),
        "IP.ttl: a negative number does not fit into 8 unsigned bits"
    );
}

#[test]
fn show_and_summary_name_what_is_inside() {
    let packet = Ether::new() / Arp::who_has("10.0.0.2");
    assert_eq!(packet.summary(), "Ether / ARP who-has 10.0.0.2");
    let shown = (Ipv4::to("10.0.0.2") / Icmp::new()).show2().unwrap();
    assert!(
        shown.contains("###[ IP ]###\n  version   = 4\n  ihl       = 5\n"),
        "{shown}"
    );
    assert!(
        shown.contains("  ###[ ICMP ]###\n    type      = echo-request\n"),
        "{shown}"
    );
    let ns = Ipv6::to("ff02::1")
        / Icmpv6::new()
            .icmp_type("neighbor-solicitation")
            .tgt("fe80::2");
    assert!(ns.show().contains("tgt       = fe80::2"));
}

#[test]
fn a_mask_hides_bits_and_fields() {
    let frame = |ttl: u8, id: u16| {
        (Ether::new() / Ipv4::to("10.0.0.2").ttl(ttl).id(id) / Udp::port(9) / "abcdef")
            .build()
            .unwrap()
    };
    let (expected, received) = (frame(64, 1), frame(63, 2));
    let seen = |mask: &Mask| -> Vec<String> {
        diff_frames(&expected, &received, mask)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        seen(&Mask::default()),
        [
            "IP.id: expected 1, received 2",
            "IP.ttl: expected 64, received 63",
            "IP.chksum: expected 0xf1c7, received 0xf2c6",
        ]
    );
    let mut mask = Mask::ignoring(["IP.chksum"]);
    mask.bits = vec![0xff; 14 + 4];
    mask.bits.extend([0, 0]);
    assert_eq!(seen(&mask), ["IP.ttl: expected 64, received 63"]);
    assert_eq!(seen(&Mask::ignoring(["IP"])), [""; 0]);
}

#[test]
fn another_stack_is_one_difference() {
    let udp = (Ether::new() / Ipv4::to("10.0.0.2").proto(17) / Udp::port(9) / "abc")
        .build()
        .unwrap();
    let short = &udp[..14 + 20];
    let differences = diff_frames(&udp, short, &Mask::default());
    assert_eq!(
        differences
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["layer 3: expected UDP/Raw (00350009000bb234616263), received the end of the packet"]
    );
}
