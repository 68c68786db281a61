#include <core.p4>

match_kind { prefix }

struct ingress_input_t { bit<9> ingress_port; }
struct ingress_output_t { bit<9> egress_port; bool drop; }
struct egress_input_t { bit<16> instance; }
struct egress_output_t { bool drop; }

/// Numbers the packets of each index, from 1.
extern Tally {
    Tally(bit<32> size);
    bit<32> next(in bit<32> index);
}

/// Counts the hits of each entry of the table that names it.
extern DirectTally {
    DirectTally();
}

parser IngressParser<H, M>(packet_in b, out H h, inout M m, in ingress_input_t i);
control Ingress<H, M>(inout H h, inout M m, in ingress_input_t i, inout ingress_output_t o);
control IngressDeparser<H, M>(packet_out b, inout H h, in M m, in ingress_output_t o);
parser EgressParser<H, M>(packet_in b, out H h, inout M m, in egress_input_t i);
control Egress<H, M>(inout H h, inout M m, in egress_input_t i, inout egress_output_t o);
control EgressDeparser<H, M>(packet_out b, inout H h, in M m, in egress_output_t o);

package TwoPipes<IH, IM, EH, EM>(
    IngressParser<IH, IM> ip, Ingress<IH, IM> ig, IngressDeparser<IH, IM> id,
    EgressParser<EH, EM> ep, Egress<EH, EM> eg, EgressDeparser<EH, EM> ed);
