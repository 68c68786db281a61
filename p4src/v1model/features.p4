// The optional parts of the data plane. In the core profile a control or parser of the same name takes the place of each
// (absent.p4), so only this file and profile.p4 depend on the profile.
//
//   part                      replaces or adds                             files in optional/
//   strategies of the         min_psn.p4; decisions, egress                min_psn.p4, min_psn_walk.p4, controller_feedback.p4,
//   minimum (walk, punt)                                                   decisions.p4, verdicts.p4
//   strategies of the ICRC    icrc.p4                                      parser.p4, icrc.p4
//   (recompute, punt)
//   congestion                CNPs: filtered by path; ECN marks            classify.p4, cnp_filter.p4, ecn_marking.p4
//   selective repeat          selective NAKs: each loss reported once      classify.p4, selective_nak.p4
//   refusals                  READs and atomics: refused by a NAK          classify.p4, refusal_limit.p4
//   VLAN tags and DSCP        feedback has those of the source's data      parser.p4, source_tags.p4
//   announced memory regions  WRITEs to regions that change                memory_regions.p4, region_control.p4
//   datagrams                 unreliable multicast                         ../shared/datagram_multicast.p4
//   work                      counters of the cost of each strategy        work.p4

#ifndef ALFIRK_FEATURES_P4
#define ALFIRK_FEATURES_P4

#include "profile.p4"

#if ALFIRK_PROFILE == PROFILE_FULL
#include "optional/all.p4"
#else
#include "absent.p4"
#endif

#endif  // ALFIRK_FEATURES_P4
