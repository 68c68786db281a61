// A flow cache: packets of unknown flows go to the controller, which adds entries that time out.

#include "common.p4"

#define CPU_PORT 510

enum bit<8> Reason {
    FlowUnknown = 1,
    Looped = 2
}

enum bit<8> Opcode {
    NoOp = 0,
    Multicast = 1
}

@controller_header("packet_in")
header packet_in_t {
    @id(1) bit<16> input_port;
    @id(2) Reason  reason;
    @id(3) Opcode  opcode;
    @id(4) bit<32> flow_hash;
}

@controller_header("packet_out")
header packet_out_t {
    Opcode  opcode;
    bit<8>  reserved;
    bit<16> operand;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
}

struct metadata_t {
    bit<32> flow_hash;
}

parser CacheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control CacheVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CacheIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) flows;

    action drop_packet() {
        mark_to_drop(standard_metadata);
        flows.count();
    }

    action cached_action(port_t port, bit<1> decrement, bit<6> dscp) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = decrement == 1 ? hdr.ipv4.ttl |-| 1 : hdr.ipv4.ttl;
        hdr.ipv4.dscp = dscp;
        flows.count();
    }

    action flow_unknown() {
        hdr.packet_in.setValid();
        hdr.packet_in = {(bit<16>)standard_metadata.ingress_port, Reason.FlowUnknown, Opcode.NoOp, meta.flow_hash};
        standard_metadata.egress_spec = CPU_PORT;
        flows.count();
    }

    @brief("Flows that have been decided")
    @description("Entries are added by the controller and time out.")
    table flow_cache {
        key = {
            hdr.ipv4.protocol: exact;
            hdr.ipv4.src: exact @name("src");
            hdr.ipv4.dst: exact @name("dst");
        }
        actions = {
            cached_action;
            drop_packet;
            @defaultonly flow_unknown;
        }
        counters = flows;
        support_timeout = true;
        size = 65536;
        const default_action = flow_unknown();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            switch (hdr.packet_out.opcode) {
                Opcode.Multicast: {
                    standard_metadata.mcast_grp = hdr.packet_out.operand;
                    hdr.packet_out.setInvalid();
                }
                default: { mark_to_drop(standard_metadata); }
            }
        } else if (hdr.ipv4.isValid()) {
            hash(meta.flow_hash, HashAlgorithm.crc32, 32w0, {hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol},
                 33w0x100000000);
            flow_cache.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control CacheEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { }
}

control CacheCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_SUMMED(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control CacheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(CacheParser(), CacheVerify(), CacheIngress(), CacheEgress(), CacheCompute(), CacheDeparser()) main;
