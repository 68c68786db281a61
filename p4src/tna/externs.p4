// Externs and constants that shared controls need, mapped to those of this target.

#ifndef ALFIRK_EXTERNS_P4
#define ALFIRK_EXTERNS_P4

// Packets and bytes of each entry of a table.
#define DIRECT_COUNTER(name) DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) name

// This target's parser does not extract payloads.
#define NO_PAYLOAD_HEADER

// Two fields are compared by a table on their difference. In a condition, bf-p4c would have to allocate both fields to matching
// containers, which is impossible if other steps slice them differently.
#define COMPARED(name, difference, value) \
    action name##_now() { difference = value; } \
    table name { actions = { name##_now; } const default_action = name##_now(); size = 1; }

// Priority with which bf-p4c places a table of egress; the highest first. On Tofino 1, what follows these tables has no stage to
// spare. Tofino 2 has 20 stages, and there the tables of ingress must be placed first.
#if __TARGET_TOFINO__ == 1
#define EGRESS_PRIORITY(number) @placement_priority(number)
#else
#define EGRESS_PRIORITY(number)
#endif

#endif  // ALFIRK_EXTERNS_P4
