// Link monitoring: probes follow a source route and collect the bytes and times of each port.

#include "common.p4"

const bit<16> ETHERTYPE_PROBE = 0x0812;

header probe_t {
    bit<8> hops;
}

header record_t {
    bit<1>  last;
    bit<7>  switch_id;
    bit<8>  port;
    bit<32> bytes;
    bit<48> last_time;
    bit<48> this_time;
}

header way_t {
    bit<8> port;
}

struct headers_t {
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    probe_t     probe;
    record_t[8] records;
    way_t[8]    ways;
}

struct metadata_t {
    bit<8> egress_port;
    bit<8> remaining;
}

parser MonitorParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_PROBE: parse_probe;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.probe);
        meta.remaining = hdr.probe.hops + 1;
        transition select(hdr.probe.hops) {
            0: parse_way;
            default: parse_record;
        }
    }
    state parse_record {
        packet.extract(hdr.records.next);
        transition select(hdr.records.last.last) {
            1: parse_way;
            default: parse_record;
        }
    }
    state parse_way {
        packet.extract(hdr.ways.next);
        meta.remaining = meta.remaining - 1;
        meta.egress_port = hdr.ways.last.port;
        transition select(meta.remaining) {
            0: accept;
            default: parse_way;
        }
    }
}

control MonitorVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MonitorIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.isValid()) {
            standard_metadata.egress_spec = 2;
        } else if (hdr.probe.isValid()) {
            standard_metadata.egress_spec = (port_t)meta.egress_port;
            hdr.probe.hops = hdr.probe.hops + 1;
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control MonitorEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    register<bit<32>>(8) bytes;
    register<bit<48>>(8) times;

    action set_id(bit<7> id) {
        hdr.records[0].switch_id = id;
    }

    table identity {
        actions = { set_id; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> seen;
        bit<32> now_seen;
        bit<48> last;
        bit<32> port = (bit<32>)standard_metadata.egress_port;

        bytes.read(seen, port);
        now_seen = hdr.probe.isValid() ? 0 : seen + standard_metadata.packet_length;
        bytes.write(port, now_seen);
        if (hdr.probe.isValid()) {
            hdr.records.push_front(1);
            hdr.records[0].setValid();
            if (hdr.probe.hops == 1) {
                hdr.records[0].last = 1;
            } else {
                hdr.records[0].last = 0;
            }
            identity.apply();
            hdr.records[0].port = (bit<8>)standard_metadata.egress_port;
            hdr.records[0].bytes = seen;
            times.read(last, port);
            times.write(port, standard_metadata.egress_global_timestamp);
            hdr.records[0].last_time = last;
            hdr.records[0].this_time = standard_metadata.egress_global_timestamp;
        }
    }
}

control MonitorCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MonitorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.probe);
        packet.emit(hdr.records);
        packet.emit(hdr.ways);
    }
}

V1Switch(MonitorParser(), MonitorVerify(), MonitorIngress(), MonitorEgress(), MonitorCompute(), MonitorDeparser()) main;
