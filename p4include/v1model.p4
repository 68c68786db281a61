/* SPDX-License-Identifier: Apache-2.0
 *
 * The v1model architecture of BMv2's simple_switch: the interface facts of the public p4c and behavioral-model documentation.
 *
 * Two versions are in use. Programs that define V1MODEL_VERSION as 20200408 or later, before they include this file, have index
 * types of their own for counters, meters and registers, and PortId_t.
 */

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    range,      // between two values, inclusive
    optional,   // equal, or anything
    selector    // not matched: input of an action selector's hash
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

/* Metadata exchanged between the switch and the program. @alias gives the names that simple_switch uses. */
@metadata
@name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;
    PortId_t egress_port;
#else
    bit<9> ingress_port;    // port of arrival
    bit<9> egress_spec;     // output port chosen by ingress; 511 drops
    bit<9> egress_port;     // output port, readable in egress
#endif
    bit<32> instance_type;  // 0 normal, 1 ingress clone, 2 egress clone, 4 recirculated, 5 replicated, 6 resubmitted
    bit<32> packet_length;  // bytes
    // Queueing, readable in egress; times in microseconds, depths in packets.
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    // Microseconds since the switch started.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;      // multicast group, 0 for none
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;     // replication id of a multicast copy
    bit<1> checksum_error;  // 1 when verify_checksum found a wrong checksum
    error parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3> priority;        // egress queue
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

/* An array of counters. An index out of range has no effect. */
extern counter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    counter(bit<32> size, CounterType type);
#if V1MODEL_VERSION >= 20200408
    void count(in I index);
#else
    void count(in bit<32> index);
#endif
}

/* One counter for each entry of the table that names it in its property "counters". */
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

/* An array of two-rate three-colour meters (RFC 2698). */
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    meter(bit<32> size, MeterType type);
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

/* One meter for each entry of the table that names it in its property "meters". */
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

/* An array of values that persist between packets, initially 0. */
extern register<T
#if V1MODEL_VERSION >= 20200408
, I
#endif
> {
    register(bit<32> size);
#if V1MODEL_VERSION >= 20200408
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
#else
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
#endif
}

/* For a table's property "implementation": entries name members, which hold the actions. */
extern action_profile {
    action_profile(bit<32> size);
}

/* A random number from lo to hi, inclusive. */
extern void random<T>(out T result, in T lo, in T hi);

/* Sends data to the control plane. */
extern void digest<T>(in bit<32> receiver, in T data);

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();
/* Sets egress_spec to the drop port and mcast_grp to 0. */
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/* base + (hash of data) % max, or base when max is 0. */
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

/* As action_profile, with groups of members, one of which is selected by a hash of the selector keys. */
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

enum CloneType {
    I2E,
    E2E
}

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

/* In VerifyChecksum: sets standard_metadata.checksum_error if the condition holds and the checksum of data differs. */
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
/* In ComputeChecksum: sets the checksum when the condition holds. */
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
/* The same over data and then all bytes of the packet that the parser did not extract. */
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/* At the end of ingress, restarts processing with the received packet. The last call wins. Fields marked @field_list(index) are kept. */
@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);

/* At the end of egress, sends the deparsed packet through the switch again. */
@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);

/* Sends a copy to the ports of a clone session: I2E of the received packet, E2E of the packet after egress. */
extern void clone(in CloneType type, in bit<32> session);
@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

/* Truncates the deparsed packet to this number of bytes. */
extern void truncate(in bit<32> length);

/* The switch stops with a message if the check is false. */
extern void assert(in bool check);
/* The same; verification tools may assume the check. */
extern void assume(in bool check);

/* Writes a line to the switch's log, with {} replaced by the values of data in order. */
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

/* The pipeline. H: a struct of headers, header stacks and header unions. M: a struct. */
parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);

/* May contain calls of verify_checksum and verify_checksum_with_payload only. */
control VerifyChecksum<H, M>(inout H hdr, inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

/* May contain calls of update_checksum and update_checksum_with_payload only. */
control ComputeChecksum<H, M>(inout H hdr, inout M meta);

/* May contain calls of packet_out.emit only. */
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p,
    VerifyChecksum<H, M> vr,
    Ingress<H, M> ig,
    Egress<H, M> eg,
    ComputeChecksum<H, M> ck,
    Deparser<H> dep);

#endif
