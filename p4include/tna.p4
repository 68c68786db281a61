// The Tofino Native Architecture of Tofino 1; see tofino_shared.p4.

#ifndef ALFIRK_TNA_P4
#define ALFIRK_TNA_P4

#if __TARGET_TOFINO__ == 2
#error tna.p4 is the architecture of Tofino 1: compile for it (--arch tna), or include t2na.p4
#endif

#define QUEUE_ID_WIDTH 5
#define MIRROR_TYPE_WIDTH 3
#define MIRROR_ID_WIDTH 10
#define TOFINO_EGRESS_ACCOUNTING
#define TOFINO_CLEAR(T)
#define TOFINO_MAY_OMIT @optional
#define TOFINO_GHOST
#define TOFINO_GHOST_THREAD
#define TOFINO_ARCH "TNA"
#define TOFINO_ARCH_VERSION "2.0.1"

#include <tofino_shared.p4>

@noWarn("unused") const bit<16> PARSER_ERROR_DST_CONT = 0x0040;

// Width in bits of the port metadata, which precedes the packet at ingress.
@noWarn("unused") const bit<32> PORT_METADATA_SIZE = 64;

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;                // 1: no unicast, no multicast, no resubmission; 2: no copy to the CPU; 4: no mirror
    DigestType_t digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t mirror_type;
}

@__intrinsic_metadata
header egress_intrinsic_metadata_t {
    @padding bit<(8 - PORT_ID_WIDTH % 8)> _pad0;
    PortId_t egress_port;
    @padding bit<5> _pad1;
    bit<19> enq_qdepth;             // cells
    @padding bit<6> _pad2;
    bit<2> enq_congest_stat;
    @padding bit<14> _pad3;
    bit<18> enq_tstamp;
    @padding bit<5> _pad4;
    bit<19> deq_qdepth;
    @padding bit<6> _pad5;
    bit<2> deq_congest_stat;
    bit<8> app_pool_congest_stat;
    @padding bit<14> _pad6;
    bit<18> deq_timedelta;
    bit<16> egress_rid;
    @padding bit<7> _pad7;
    bit<1> egress_rid_first;
    @padding bit<(8 - QUEUE_ID_WIDTH % 8)> _pad8;
    QueueId_t egress_qid;
    @padding bit<5> _pad9;
    bit<3> egress_cos;
    @padding bit<7> _pad10;
    bit<1> deflection_flag;
    bit<16> pkt_length;             // bytes
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    MirrorType_t mirror_type;
    bit<1> coalesce_flush;
    bit<7> coalesce_length;
}

// Headers that the packet generator adds in front of its packets, by trigger.
header pktgen_timer_header_t {
    @padding bit<3> _pad1;
    bit<2> pipe_id;
    bit<3> app_id;
    @padding bit<8> _pad2;
    bit<16> batch_id;
    bit<16> packet_id;
}

header pktgen_port_down_header_t {
    @padding bit<3> _pad1;
    bit<2> pipe_id;
    bit<3> app_id;
    @padding bit<(16 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t port_num;
    bit<16> packet_id;
}

header pktgen_recirc_header_t {
    @padding bit<3> _pad1;
    bit<2> pipe_id;
    bit<3> app_id;
    bit<24> key;
    bit<16> packet_id;
}

// Shifts src1 ++ src2 right, and returns the lower half.
extern void funnel_shift_right<T>(inout T dst, in T src1, in T src2, int shift_amount);

extern ParserCounter {
    ParserCounter();
    void set<T>(in T value);
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<3> mask, in bit<8> add);
    bool is_zero();
    bool is_negative();
    void increment(in bit<8> value);
    void decrement(in bit<8> value);
}

@noWarn("unused")
extern RegisterAction<T, I, U> {
    RegisterAction(Register<_, _> reg);
    U execute(in I index);
    U execute_log();
    @synchronous(execute, execute_log)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute();
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

#include <tofino_pipeline.p4>

// A parser for each of up to 18 ports of a pipe.
package IngressParsers<H, M>(
    IngressParserT<H, M> prsr0,
    @optional IngressParserT<H, M> prsr1, @optional IngressParserT<H, M> prsr2,
    @optional IngressParserT<H, M> prsr3, @optional IngressParserT<H, M> prsr4,
    @optional IngressParserT<H, M> prsr5, @optional IngressParserT<H, M> prsr6,
    @optional IngressParserT<H, M> prsr7, @optional IngressParserT<H, M> prsr8,
    @optional IngressParserT<H, M> prsr9, @optional IngressParserT<H, M> prsr10,
    @optional IngressParserT<H, M> prsr11, @optional IngressParserT<H, M> prsr12,
    @optional IngressParserT<H, M> prsr13, @optional IngressParserT<H, M> prsr14,
    @optional IngressParserT<H, M> prsr15, @optional IngressParserT<H, M> prsr16,
    @optional IngressParserT<H, M> prsr17);

package EgressParsers<H, M>(
    EgressParserT<H, M> prsr0,
    @optional EgressParserT<H, M> prsr1, @optional EgressParserT<H, M> prsr2,
    @optional EgressParserT<H, M> prsr3, @optional EgressParserT<H, M> prsr4,
    @optional EgressParserT<H, M> prsr5, @optional EgressParserT<H, M> prsr6,
    @optional EgressParserT<H, M> prsr7, @optional EgressParserT<H, M> prsr8,
    @optional EgressParserT<H, M> prsr9, @optional EgressParserT<H, M> prsr10,
    @optional EgressParserT<H, M> prsr11, @optional EgressParserT<H, M> prsr12,
    @optional EgressParserT<H, M> prsr13, @optional EgressParserT<H, M> prsr14,
    @optional EgressParserT<H, M> prsr15, @optional EgressParserT<H, M> prsr16,
    @optional EgressParserT<H, M> prsr17);

package MultiParserPipeline<IH, IM, EH, EM>(
    IngressParsers<IH, IM> ig_prsr,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParsers<EH, EM> eg_prsr,
    EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser);

@pkginfo(arch="TNA", version="2.0.1")
@noWarn("unused")
package MultiParserSwitch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    MultiParserPipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional MultiParserPipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional MultiParserPipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional MultiParserPipeline<IH3, IM3, EH3, EM3> pipe3);

#endif  // ALFIRK_TNA_P4
