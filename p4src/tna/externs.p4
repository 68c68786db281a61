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

#endif  // ALFIRK_EXTERNS_P4
