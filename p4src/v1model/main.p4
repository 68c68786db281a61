// Alfirk's data plane for v1model: reliable RDMA multicast on ordinary RC queue pairs.
//
// ../shared has the parts that Tofino's data plane has as well, this folder the others, and optional/ what the core profile
// leaves out (features.p4). A packet passes ingress.p4, then egress.p4; the rules of the protocol start in ack_aggregate.p4, the
// ICRC algebra in bridge_entry.p4 and ../shared/bridge_exit.p4.

#include <core.p4>
#include <v1model.p4>

#include "../shared/constants.p4"
#include "../shared/headers.p4"
#include "../shared/ids.p4"
#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "metadata.p4"
#include "externs.p4"
#include "registers.p4"
#include "../shared/feedback_frame.p4"
#include "../shared/data_to_ack.p4"
#include "../shared/icrc_fields.p4"
#include "features.p4"
#include "parser.p4"
#include "ipv4_checksum.p4"
#include "ingress.p4"
#include "egress.p4"

V1Switch(AlfirkParser(),
         VerifyIpv4Checksum(),
         ingress(),
         egress(),
         UpdateIpv4Checksum(),
         AlfirkDeparser()) main;
