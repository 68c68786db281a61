// P4Info ids of all objects that the controller uses: the only file with numbers for `@id`.
//
// The compiler adds the prefix of the kind in the upper byte. Both targets use the same id for the same object. An id is never
// used again for another object, because controllers and stored state refer to it; a new object takes the next free id of its kind,
// and the comment of its section is updated. Registers have no ids here: the controller accesses them by PacketOut.

#ifndef ALFIRK_IDS_P4
#define ALFIRK_IDS_P4

// Tables; next free id: 11.
#define TABLE_ID_HOSTS 1  // source_guard
#define TABLE_ID_ARP_TARGETS 2  // arp_responder
#define TABLE_ID_GROUPS 3  // group_lookup
#define TABLE_ID_MFT 4  // group_lookup
#define TABLE_ID_MEMBERS 5  // bridge_entry; on Tofino group_lookup
#define TABLE_ID_ROUTES 6  // ipv4_routing
#define TABLE_ID_NEXT_HOPS 7  // ipv4_routing
#define TABLE_ID_RECEIVERS 8  // bridge_exit
#define TABLE_ID_PROFILES 9  // ecn_marking
#define TABLE_ID_DATAGRAM_GROUPS 10  // datagram_multicast

// Actions; next free id: 28.
#define ACTION_ID_ATTACHED 1  // hosts
#define ACTION_ID_NOT_A_HOST 2  // hosts
#define ACTION_ID_IGNORE 3  // arp_targets
#define ACTION_ID_REPLY 4  // arp_targets
#define ACTION_ID_NOT_A_GROUP 5  // groups
#define ACTION_ID_SET_GROUP 6  // groups
#define ACTION_ID_NOT_A_PATH 7  // mft
#define ACTION_ID_SET_PATH 8  // mft
#define ACTION_ID_NOT_A_MEMBER 9  // members
#define ACTION_ID_ENTER 10  // members
#define ACTION_ID_ENTER_RECEIVER 11  // members
#define ACTION_ID_NO_ROUTE 12  // routes
#define ACTION_ID_TO_HOST 13  // routes
#define ACTION_ID_ROUTE_TO_SWITCH 14  // routes
#define ACTION_ID_ECMP 15  // routes
#define ACTION_ID_NO_NEXT_HOP 16  // next_hops
#define ACTION_ID_TO_SWITCH_HOP 17  // next_hops
#define ACTION_ID_EXIT_TO_SWITCH 18  // receivers
#define ACTION_ID_DELIVER 19  // receivers
#define ACTION_ID_PROFILE 20  // profiles
#define ACTION_ID_NO_MARKS 21  // profiles
#define ACTION_ID_SET_GROUP_WITH_QPN 22  // groups
#define ACTION_ID_DELIVER_WITH_SLOT 23  // receivers
#define ACTION_ID_NOT_A_DATAGRAM_GROUP 24  // datagram groups
#define ACTION_ID_REPLICATE 25  // datagram groups
#define ACTION_ID_SET_GROUP_WITH_LIMITS 26  // groups
#define ACTION_ID_SET_GROUP_WITH_WINDOW 27  // groups

// Counters; next free id: 5.
#define COUNTER_ID_INGRESS_DROPS 1
#define COUNTER_ID_EGRESS_DROPS 2
#define COUNTER_ID_WORK 3  // v1model: ack_aggregate
#define COUNTER_ID_LATE_DROPS 3  // Tofino: waiting_nak; older than the rule above
#define COUNTER_ID_LIMITED 4  // v1model: punt_limit

// Direct counters; next free id: 8. (10 is in use.)
#define DIRECT_COUNTER_ID_ARP_TARGETS 1
#define DIRECT_COUNTER_ID_GROUPS 2
#define DIRECT_COUNTER_ID_MFT 3
#define DIRECT_COUNTER_ID_MEMBERS 4
#define DIRECT_COUNTER_ID_ROUTES 5
#define DIRECT_COUNTER_ID_NEXT_HOPS 6
#define DIRECT_COUNTER_ID_RECEIVERS 7
#define DIRECT_COUNTER_ID_DATAGRAM_GROUPS 10

// Meters; next free id: 2.
#define METER_ID_PUNT_RATES 1  // punt_limit

#endif  // ALFIRK_IDS_P4
