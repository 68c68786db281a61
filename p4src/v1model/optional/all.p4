// All optional parts (../features.p4).

#ifndef ALFIRK_OPTIONAL_ALL_P4
#define ALFIRK_OPTIONAL_ALL_P4

#include "parser.p4"
#include "icrc.p4"
#include "region_control.p4"
#include "../../shared/datagram_multicast.p4"
#include "groups.p4"
#include "classify.p4"
#include "controller_feedback.p4"
#include "min_psn.p4"
#include "filters.p4"
#include "decisions.p4"
#include "work.p4"
#include "exit.p4"
#include "verdicts.p4"
#include "ecn_marking.p4"

#endif  // ALFIRK_OPTIONAL_ALL_P4
