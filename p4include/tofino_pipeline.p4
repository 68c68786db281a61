// The blocks of a pipeline, and the switch. Included after the metadata of tna.p4 or t2na.p4.

#ifndef ALFIRK_TOFINO_PIPELINE_P4
#define ALFIRK_TOFINO_PIPELINE_P4

parser IngressParserT<H, M>(
    packet_in pkt, out H hdr, out M ig_md,
    TOFINO_MAY_OMIT out ingress_intrinsic_metadata_t ig_intr_md,
    @optional out ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm,
    @optional out ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr);

control IngressT<H, M>(
    inout H hdr, inout M ig_md,
    TOFINO_MAY_OMIT in ingress_intrinsic_metadata_t ig_intr_md,
    TOFINO_MAY_OMIT in ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr,
    TOFINO_MAY_OMIT inout ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    TOFINO_MAY_OMIT inout ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm
    TOFINO_GHOST);

control IngressDeparserT<H, M>(
    packet_out pkt, inout H hdr, in M metadata,
    TOFINO_MAY_OMIT in ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    @optional in ingress_intrinsic_metadata_t ig_intr_md);

parser EgressParserT<H, M>(
    packet_in pkt, out H hdr, out M eg_md,
    TOFINO_MAY_OMIT out egress_intrinsic_metadata_t eg_intr_md,
    @optional out egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    @optional out egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr);

control EgressT<H, M>(
    inout H hdr, inout M eg_md,
    TOFINO_MAY_OMIT in egress_intrinsic_metadata_t eg_intr_md,
    TOFINO_MAY_OMIT in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    TOFINO_MAY_OMIT inout egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    TOFINO_MAY_OMIT inout egress_intrinsic_metadata_for_output_port_t eg_intr_md_for_oport);

control EgressDeparserT<H, M>(
    packet_out pkt, inout H hdr, in M metadata,
    TOFINO_MAY_OMIT in egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    @optional in egress_intrinsic_metadata_t eg_intr_md,
    @optional in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr);

package Pipeline<IH, IM, EH, EM>(
    IngressParserT<IH, IM> ingress_parser,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParserT<EH, EM> egress_parser,
    EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser
    TOFINO_GHOST_THREAD);

@pkginfo(arch=TOFINO_ARCH, version=TOFINO_ARCH_VERSION)
@noWarn("unused")
package Switch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    Pipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional Pipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional Pipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional Pipeline<IH3, IM3, EH3, EM3> pipe3);

#endif  // ALFIRK_TOFINO_PIPELINE_P4
