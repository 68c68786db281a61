// What shared controls need of a target under the target's own names.

#ifndef ALFIRK_EXTERNS_P4
#define ALFIRK_EXTERNS_P4

// Packets and bytes of each entry of a table.
#define DIRECT_COUNTER(name) DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) name

// The parser takes no payload.
#define NO_PAYLOAD_HEADER

// Two fields are compared by their difference, and by a table, so that bf-p4c does not put them into one condition: fields
// that other steps slice in different ways cannot meet there.
#define COMPARED(name, difference, value) \
    action name##_now() { difference = value; } \
    table name { actions = { name##_now; } const default_action = name##_now(); size = 1; }

#endif  // ALFIRK_EXTERNS_P4
