// The Tofino Native Architecture of Tofino 2; see tofino_shared.p4.

#ifndef ALFIRK_T2NA_P4
#define ALFIRK_T2NA_P4

#if __TARGET_TOFINO__ == 1
#error t2na.p4 is the architecture of Tofino 2: compile for it (--arch t2na)
#endif

#define QUEUE_ID_WIDTH 7
#define MIRROR_TYPE_WIDTH 4
#define MIRROR_ID_WIDTH 8
#define TOFINO_EGRESS_ACCOUNTING , @optional bool true_egress_accounting
#define TOFINO_CLEAR(T) void clear(in T value, @optional in T busy);
#define TOFINO_MAY_OMIT
#define TOFINO_GHOST , @optional in ghost_intrinsic_metadata_t gh_intr_md
#define TOFINO_GHOST_THREAD , @optional GhostT ghost
#define TOFINO_ARCH "T2NA"
#define TOFINO_ARCH_VERSION "1.0.1"

#include <tofino_shared.p4>

@noWarn("unused") typedef MirrorType_t CloneId_t;
@noWarn("unused") const bit<16> PARSER_ERROR_CSUM_MBE = 0x1000;

// Width in bits of the port metadata, which precedes the packet at ingress.
@noWarn("unused") const bit<32> PORT_METADATA_SIZE = 192;

match_kind { dleft_hash }

// Traffic manager parameters of a mirrored packet, and truncation: in both deparsers.
#define TOFINO2_MIRROR_FIELDS \
    bit<1> mirror_io_select; \
    bit<13> mirror_hash; \
    bit<3> mirror_ingress_cos; \
    bit<1> mirror_deflect_on_drop; \
    bit<1> mirror_multicast_ctrl; \
    PortId_t mirror_egress_port; \
    QueueId_t mirror_qid; \
    bit<8> mirror_coalesce_length; \
    bit<32> adv_flow_ctl; \
    bit<14> mtu_trunc_len; \
    bit<1> mtu_trunc_err_f;

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    DigestType_t digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t mirror_type;
    TOFINO2_MIRROR_FIELDS
    bit<1> pktgen;
    bit<14> pktgen_address;
    bit<10> pktgen_length;
}

// The state of a queue, as the ghost thread receives it.
@__intrinsic_metadata @__ghost_metadata
header ghost_intrinsic_metadata_t {
    bit<1> ping_pong;
    bit<18> qlength;
    bit<11> qid;
    bit<2> pipe_id;
}

@__intrinsic_metadata
header egress_intrinsic_metadata_t {
    @padding bit<(8 - PORT_ID_WIDTH % 8)> _pad0;
    PortId_t egress_port;
    @padding bit<5> _pad1;
    bit<19> enq_qdepth;             // cells
    @padding bit<6> _pad2;
    bit<2> enq_congest_stat;
    bit<32> enq_tstamp;
    @padding bit<5> _pad3;
    bit<19> deq_qdepth;
    @padding bit<6> _pad4;
    bit<2> deq_congest_stat;
    bit<8> app_pool_congest_stat;
    bit<32> deq_timedelta;
    bit<16> egress_rid;
    @padding bit<7> _pad5;
    bit<1> egress_rid_first;
    @padding bit<(8 - QUEUE_ID_WIDTH % 8)> _pad6;
    QueueId_t egress_qid;
    @padding bit<5> _pad7;
    bit<3> egress_cos;
    @padding bit<7> _pad8;
    bit<1> deflection_flag;
    bit<16> pkt_length;             // bytes
    @padding bit<8> _pad9;
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    MirrorType_t mirror_type;
    bit<1> coalesce_flush;
    bit<7> coalesce_length;
    TOFINO2_MIRROR_FIELDS
}

// Headers that the packet generator adds in front of its packets, by trigger.
#define TOFINO2_PKTGEN \
    @padding bit<2> _pad1; \
    bit<2> pipe_id; \
    bit<4> app_id;
#define TOFINO2_PKTGEN_BATCH \
    TOFINO2_PKTGEN \
    @padding bit<8> _pad2; \
    bit<16> batch_id; \
    bit<16> packet_id;

header pktgen_timer_header_t { TOFINO2_PKTGEN_BATCH }
header pktgen_recirc_header_t { TOFINO2_PKTGEN_BATCH }
header pktgen_deparser_header_t { TOFINO2_PKTGEN_BATCH }

header pktgen_port_down_header_t {
    TOFINO2_PKTGEN
    @padding bit<(16 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t port_num;
    bit<16> packet_id;
}

header pktgen_pfc_header_t {
    TOFINO2_PKTGEN
    @padding bit<40> _pad2;
}

extern Pktgen {
    Pktgen();
    void emit<T>(in T hdr);
}

extern IdleTimeout {
    IdleTimeout();
}

// Shifts src1 ++ src2 right, and returns the lower half.
extern void funnel_shift_right<T>(out T dst, in T src1, in T src2, int shift_amount);

extern ParserCounter {
    ParserCounter();
    void set<T>(in T value);
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add);
    void push<T>(in T value, @optional bool update_with_top);
    void push<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add,
                 @optional bool update_with_top);
    void pop();
    bool is_zero();
    bool is_negative();
    void increment(in bit<8> value);
    void decrement(in bit<8> value);
}

// ---- Stateful ALUs: a cell has up to 128 bits, and an access up to four results ----

#define TOFINO2_ADDRESS(U, PARAMS) \
    U address PARAMS(@optional bit<1> subword); \
    U predicate PARAMS(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2, @optional in bool cmp3);
#define TOFINO2_SEARCH \
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index); \
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index); \
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index); \
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
#define TOFINO2_SEARCH_128(POSTMOD) \
    bit<8> min8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in POSTMOD postmod); \
    bit<8> max8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in POSTMOD postmod); \
    bit<16> min16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in POSTMOD postmod); \
    bit<16> max16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in POSTMOD postmod);

#define TOFINO2_MORE @optional out U rv2, @optional out U rv3, @optional out U rv4
#define TOFINO2_ALL @optional out U rv1, TOFINO2_MORE

@noWarn("unused")
extern RegisterAction<T, H, U> {
    RegisterAction(Register<_, _> reg);
    U execute(@optional in H index, TOFINO2_MORE);
    U execute_log(TOFINO2_MORE);
    U enqueue(TOFINO2_MORE);
    U dequeue(TOFINO2_MORE);
    U push(TOFINO2_MORE);
    U pop(TOFINO2_MORE);
    void sweep(@optional in U busy);
    @synchronous(execute, execute_log, enqueue, dequeue, push, pop, sweep)
    abstract void apply(inout T value, TOFINO2_ALL);
    @synchronous(enqueue, push)
    @optional abstract void overflow(@optional inout T value, TOFINO2_ALL);
    @synchronous(dequeue, pop)
    @optional abstract void underflow(@optional inout T value, TOFINO2_ALL);
    TOFINO2_ADDRESS(U, )
    TOFINO2_SEARCH
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute(TOFINO2_MORE);
    @synchronous(execute)
    abstract void apply(inout T value, TOFINO2_ALL);
    TOFINO2_ADDRESS(U, )
    TOFINO2_SEARCH
}

extern LearnAction<T, H, D, U> {
    LearnAction(Register<T, H> reg);
    U execute(in H index, TOFINO2_MORE);
    @synchronous(execute)
    abstract void apply(inout T value, in D digest, in bool learn, TOFINO2_ALL);
    TOFINO2_ADDRESS(U, )
    TOFINO2_SEARCH
}

extern MinMaxAction<T, H, U> {
    MinMaxAction(Register<T, _> reg);
    U execute(@optional in H index, TOFINO2_MORE);
    @synchronous(execute)
    abstract void apply(inout bit<128> value, TOFINO2_ALL);
    TOFINO2_ADDRESS(U, )
    TOFINO2_SEARCH_128(int<8>)
}

// Variants with two, three or four results. ALL: all of the results; MORE: those after the first one.
#define TOFINO2_ACTIONS(N, TYPES, MORE, ALL) \
    extern RegisterAction##N<T, H, TYPES> { \
        RegisterAction##N(Register<_, _> reg); \
        U1 execute(in H index, MORE); \
        U1 execute_log(MORE); \
        U1 enqueue(MORE); \
        U1 dequeue(MORE); \
        U1 push(MORE); \
        U1 pop(MORE); \
        @synchronous(execute, execute_log, enqueue, dequeue, push, pop) \
        abstract void apply(inout T value, ALL); \
        @synchronous(enqueue, push) \
        @optional abstract void overflow(@optional inout T value, ALL); \
        @synchronous(dequeue, pop) \
        @optional abstract void underflow(@optional inout T value, ALL); \
        TOFINO2_ADDRESS(U, <U>) \
        TOFINO2_SEARCH \
    } \
    extern DirectRegisterAction##N<T, TYPES> { \
        DirectRegisterAction##N(DirectRegister<T> reg); \
        U1 execute(MORE); \
        @synchronous(execute) \
        abstract void apply(inout T value, ALL); \
        TOFINO2_ADDRESS(U, <U>) \
        TOFINO2_SEARCH \
    } \
    extern LearnAction##N<T, H, D, TYPES> { \
        LearnAction##N(Register<T, H> reg); \
        U1 execute(in H index, MORE); \
        @synchronous(execute) \
        abstract void apply(inout T value, in D digest, in bool learn, ALL); \
        TOFINO2_ADDRESS(U, <U>) \
        TOFINO2_SEARCH \
    } \
    extern MinMaxAction##N<T, H, TYPES> { \
        MinMaxAction##N(Register<T, _> reg); \
        U1 execute(@optional in H index, MORE); \
        @synchronous(execute) \
        abstract void apply(inout bit<128> value, ALL); \
        TOFINO2_ADDRESS(U, <U>) \
        TOFINO2_SEARCH_128(int<9>) \
    }

#define TOFINO2_TYPES2 U1, U2
#define TOFINO2_TYPES3 U1, U2, U3
#define TOFINO2_TYPES4 U1, U2, U3, U4
#define TOFINO2_MORE2 out U2 rv2
#define TOFINO2_MORE3 out U2 rv2, out U3 rv3
#define TOFINO2_MORE4 out U2 rv2, out U3 rv3, out U4 rv4
#define TOFINO2_ALL2 out U1 rv1, TOFINO2_MORE2
#define TOFINO2_ALL3 out U1 rv1, TOFINO2_MORE3
#define TOFINO2_ALL4 out U1 rv1, TOFINO2_MORE4

TOFINO2_ACTIONS(2, TOFINO2_TYPES2, TOFINO2_MORE2, TOFINO2_ALL2)
TOFINO2_ACTIONS(3, TOFINO2_TYPES3, TOFINO2_MORE3, TOFINO2_ALL3)
TOFINO2_ACTIONS(4, TOFINO2_TYPES4, TOFINO2_MORE4, TOFINO2_ALL4)

// The ghost thread: it receives queue states, not packets.
control GhostT(in ghost_intrinsic_metadata_t gh_intr_md);

#include <tofino_pipeline.p4>

#endif  // ALFIRK_T2NA_P4
