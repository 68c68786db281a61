// The common part of the Tofino Native Architectures of both chips. tna.p4 and t2na.p4 define the macros that it uses for differences,
// and the rest.
//
// Names, types and widths are those of "P4_16 Intel Tofino Native Architecture, Public Version" and of the open bf-p4c, so that programs have
// the same meaning for both.

#ifndef ALFIRK_TOFINO_SHARED_P4
#define ALFIRK_TOFINO_SHARED_P4

#include <core.p4>

#define PORT_ID_WIDTH 9
#define MULTICAST_GROUP_ID_WIDTH 16
#define REPLICATION_ID_WIDTH 16
#define L1_EXCLUSION_ID_WIDTH 16
#define L2_EXCLUSION_ID_WIDTH 9
#define RESUBMIT_TYPE_WIDTH 3
#define DIGEST_TYPE_WIDTH 3

@noWarn("unused") typedef bit<PORT_ID_WIDTH> PortId_t;
@noWarn("unused") typedef bit<QUEUE_ID_WIDTH> QueueId_t;
@noWarn("unused") typedef bit<MULTICAST_GROUP_ID_WIDTH> MulticastGroupId_t;
@noWarn("unused") typedef bit<REPLICATION_ID_WIDTH> ReplicationId_t;
@noWarn("unused") typedef bit<L1_EXCLUSION_ID_WIDTH> L1ExclusionId_t;
@noWarn("unused") typedef bit<L2_EXCLUSION_ID_WIDTH> L2ExclusionId_t;
@noWarn("unused") typedef bit<MIRROR_TYPE_WIDTH> MirrorType_t;
@noWarn("unused") typedef bit<MIRROR_ID_WIDTH> MirrorId_t;
@noWarn("unused") typedef bit<RESUBMIT_TYPE_WIDTH> ResubmitType_t;
@noWarn("unused") typedef bit<DIGEST_TYPE_WIDTH> DigestType_t;
@noWarn("unused") typedef error ParserError_t;

// `parser_err` of both parsers: a bit for each cause.
@noWarn("unused") const bit<16> PARSER_ERROR_OK = 0x0000;
@noWarn("unused") const bit<16> PARSER_ERROR_NO_MATCH = 0x0001;
@noWarn("unused") const bit<16> PARSER_ERROR_PARTIAL_HDR = 0x0002;
@noWarn("unused") const bit<16> PARSER_ERROR_CTR_RANGE = 0x0004;
@noWarn("unused") const bit<16> PARSER_ERROR_TIMEOUT_USER = 0x0008;
@noWarn("unused") const bit<16> PARSER_ERROR_TIMEOUT_HW = 0x0010;
@noWarn("unused") const bit<16> PARSER_ERROR_SRC_EXT = 0x0020;
@noWarn("unused") const bit<16> PARSER_ERROR_PHV_OWNER = 0x0080;
@noWarn("unused") const bit<16> PARSER_ERROR_MULTIWRITE = 0x0100;
@noWarn("unused") const bit<16> PARSER_ERROR_ARAM_MBE = 0x0400;
@noWarn("unused") const bit<16> PARSER_ERROR_FCS = 0x0800;

error { CounterRange, Timeout, PhvOwner, MultiWrite, IbufOverflow, IbufUnderflow }

match_kind { range, selector, atcam_partition_index }

enum CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }
enum MeterType_t { PACKETS, BYTES }
enum bit<8> MeterColor_t { GREEN = 0, YELLOW = 1, RED = 3 }
enum SelectorMode_t { FAIR, RESILIENT }
enum HashAlgorithm_t { IDENTITY, RANDOM, XOR8, XOR16, XOR32, CRC8, CRC16, CRC32, CRC64, CUSTOM }
enum MathOp_t { MUL, SQR, SQRT, DIV, RSQR, RSQRT }

// ---- Intrinsic metadata ----

@__intrinsic_metadata
header ingress_intrinsic_metadata_t {
    bit<1> resubmit_flag;
    @padding bit<1> _pad1;
    bit<2> packet_version;
    @padding bit<(4 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t ingress_port;
    bit<48> ingress_mac_tstamp;     // ns, at the MAC
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t ucast_egress_port;
    bit<1> bypass_egress;
    bit<1> deflect_on_drop;
    bit<3> ingress_cos;
    QueueId_t qid;
    bit<3> icos_for_copy_to_cpu;
    bit<1> copy_to_cpu;
    bit<2> packet_color;
    bit<1> disable_ucast_cutthru;
    bit<1> enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;
    MulticastGroupId_t mcast_grp_b;
    bit<13> level1_mcast_hash;
    bit<13> level2_mcast_hash;
    L1ExclusionId_t level1_exclusion_id;
    L2ExclusionId_t level2_exclusion_id;
    bit<16> rid;
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
    bit<1> update_delay_on_tx;
}

// For PTP: the MAC updates a correction field at transmission.
header ptp_metadata_t {
    bit<8> udp_cksum_byte_offset;
    bit<8> cf_byte_offset;
    bit<48> updated_cf;
}

// ---- Functions ----

extern T min<T>(in T t1, in T t2);
extern T max<T>(in T t1, in T t2);
// Invalidates a field: it matches nothing and is not sent.
extern void invalidate<T>(in T field);
extern bool is_validated<T>(in T field);
extern T port_metadata_unpack<T>(packet_in pkt);
extern bit<32> sizeInBits<H>(in H h);
extern bit<32> sizeInBytes<H>(in H h);

// ---- Parsers ----

extern ParserPriority {
    ParserPriority();
    void set(in bit<3> prio);
}

// The Internet checksum (RFC 1071), in parsers and deparsers.
extern Checksum {
    Checksum();
    void add<T>(in T data);
    void subtract<T>(in T data);
    void subtract_all_and_deposit<T>(out T residual);
    bool verify();
    bit<16> get();
    bit<16> update<T>(in T data, @optional in bool zeros_as_ones);
}

// ---- Hashes and numbers ----

extern CRCPolynomial<T> {
    CRCPolynomial(T coeff, bool reversed, bool msb, bool extended, T init, T xor);
}

extern Hash<W> {
    Hash(HashAlgorithm_t algo);
    Hash(HashAlgorithm_t algo, CRCPolynomial<_> poly);
    W get<D>(in D data);
}

extern Random<W> {
    Random();
    W get();
}

// ---- Counters, meters and filters: indexed, or direct with a cell for each table entry ----

@noWarn("unused")
extern Counter<W, I> {
    Counter(bit<32> size, CounterType_t type TOFINO_EGRESS_ACCOUNTING);
    void count(in I index, @optional in bit<32> adjust_byte_count);
}

@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(CounterType_t type TOFINO_EGRESS_ACCOUNTING);
    void count(@optional in bit<32> adjust_byte_count);
}

extern Meter<I> {
    Meter(bit<32> size, MeterType_t type TOFINO_EGRESS_ACCOUNTING);
    Meter(bit<32> size, MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green TOFINO_EGRESS_ACCOUNTING);
    bit<8> execute(in I index, in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectMeter {
    DirectMeter(MeterType_t type TOFINO_EGRESS_ACCOUNTING);
    DirectMeter(MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green TOFINO_EGRESS_ACCOUNTING);
    bit<8> execute(in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(@optional in bit<32> adjust_byte_count);
}

extern Lpf<T, I> {
    Lpf(bit<32> size);
    T execute(in T val, in I index);
}

extern DirectLpf<T> {
    DirectLpf();
    T execute(in T val);
}

extern Wred<T, I> {
    Wred(bit<32> size, bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val, in I index);
}

extern DirectWred<T> {
    DirectWred(bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val);
}

// ---- Registers and operations of stateful ALUs: one access per packet ----

extern Register<T, I> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    T read(in I index);
    T write(in I index, in T value);
    TOFINO_CLEAR(T)
}

extern DirectRegister<T> {
    DirectRegister();
    DirectRegister(T initial_value);
    T read();
    T write(in T value);
    TOFINO_CLEAR(T)
}

// A number that the control plane sets.
extern RegisterParam<T> {
    RegisterParam(T initial_value);
    T read();
}

extern MathUnit<T> {
    MathUnit(bool invert, int<2> shift, int<6> scale,
             tuple<bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>,
                   bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>> data);
    MathUnit(MathOp_t op, int factor);
    MathUnit(MathOp_t op, int A, int B);
    T execute(in T x);
}

// ---- Implementations of tables: `implementation` ----

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode,
                   bit<32> max_group_size, bit<32> num_groups);
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg,
                   bit<32> max_group_size, bit<32> num_groups);
    @deprecated("give the selector an ActionProfile")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode);
    @deprecated("give the selector an ActionProfile")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg);
}

extern SelectorAction {
    SelectorAction(ActionSelector sel);
    bit<1> execute(@optional in bit<32> index);
    @synchronous(execute)
    abstract void apply(inout bit<1> value, @optional out bit<1> rv);
}

extern Atcam {
    Atcam(@optional bit<32> number_partitions);
}

extern Alpm {
    Alpm(@optional bit<32> number_partitions, @optional bit<32> subtrees_per_partition,
         @optional bit<32> atcam_subset_width, @optional bit<32> shift_granularity);
}

// ---- Deparsers ----

extern Mirror {
    @deprecated("give the mirror its mirror_type")
    Mirror();
    Mirror(MirrorType_t mirror_type);
    void emit(in MirrorId_t session_id);
    void emit<T>(in MirrorId_t session_id, in T hdr);
}

extern Resubmit {
    @deprecated("give the resubmission its resubmit_type")
    Resubmit();
    Resubmit(ResubmitType_t resubmit_type);
    void emit();
    void emit<T>(in T hdr);
}

extern Digest<T> {
    @deprecated("give the digest its digest_type")
    Digest();
    Digest(DigestType_t digest_type);
    void pack(in T data);
}

#endif  // ALFIRK_TOFINO_SHARED_P4
