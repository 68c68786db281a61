// What a program can tell its control plane: types with names and translations, ids, documentation, annotations of all forms, headers of
// packets to and from the controller with structs in them, and value sets.
#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
type bit<48> peer_t;
@p4runtime_translation("alfirk.example/port", 32)
type bit<9> port_t;
@p4runtime_translation("alfirk.example/vrf", string)
type bit<10> vrf_t;
type port_t uplink_t;
typedef vrf_t tenant_t;

enum bit<8> color_t { RED = 1, GREEN = 0x10 }

struct origin_t {
    bit<7> slot;
    @brief("where it came in") port_t port;
}

@controller_header("packet_in")
header packet_in_t {
    bit<8> reason;
    @format(HEX_STR) origin_t origin;
    color_t color;
}

@controller_header("packet_out")
header packet_out_t {
    port_t port;
    @id(4) bit<7> padding;
}

header data_t {
    mac_t to;
    peer_t from;
    bit<16> kind;
    color_t color;
}

struct headers_t {
    data_t data;
}

struct metadata_t {
    port_t port;
    vrf_t vrf;
    tenant_t tenant;
}

parser ControlPlaneParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard_metadata) {
    value_set<tuple<bit<16>, bit<8>>>(4) kinds;
    @id(0x03000007) value_set<bit<16>>(2) others;

    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind, (bit<8>)hdr.data.color) {
            kinds: accept;
            default: more;
        }
    }
    state more {
        transition select(hdr.data.kind) {
            others: accept;
            default: accept;
        }
    }
}

control ControlPlaneVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControlPlaneIngress(inout headers_t hdr, inout metadata_t meta,
                            inout standard_metadata_t standard_metadata) {
    @id(0x12000010) @brief("packets by colour") counter(8, CounterType.packets) colors;
    register<peer_t>(4) peers;

    action send(@brief("where to") port_t port, uplink_t uplink, @id(9) vrf_t vrf, bool flag, int<8> weight) {
        meta.port = port;
        meta.vrf = vrf;
        standard_metadata.egress_spec = (bit<9>)port;
        if (flag) {
            colors.count((bit<32>)(bit<8>)hdr.data.color);
        }
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    @brief("all keys") @description("one of each kind, \
and a line more") @entry_restriction("kind != 0") @kept(any text, even this) @pairs[a=1, b="two", c=true] @list[1, "two"]
    table paths {
        key = {
            hdr.data.from: exact @id(5) @brief("the sender");
            meta.port: exact;
            meta.tenant: optional;
            hdr.data.color: exact;
            hdr.data.to: ternary @format(MAC_ADDRESS);
            hdr.data.kind: range @name("ethertype");
        }
        actions = { send; @tableonly NoAction; @defaultonly @proto_id(3) drop; }
        default_action = drop();
        size = 64;
        support_timeout = true;
    }

    apply {
        peer_t peer;
        peers.read(peer, 0);
        peers.write(1, peer);
        paths.apply();
    }
}

control ControlPlaneEgress(inout headers_t hdr, inout metadata_t meta,
                           inout standard_metadata_t standard_metadata) {
    apply { }
}

control ControlPlaneCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControlPlaneDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
    }
}

@pkginfo(name="control_plane.p4", version="3", organization="alfirk")
@brief("a program that tells all")
V1Switch(ControlPlaneParser(), ControlPlaneVerify(), ControlPlaneIngress(), ControlPlaneEgress(), ControlPlaneCompute(),
         ControlPlaneDeparser()) main;
