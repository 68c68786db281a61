// Headers, a macro with a statement, and a control for the debugger's tests.

#include <core.p4>
#include <v1model.p4>

header kind_t {
    bit<8> kind;
    bit<8> value;
}

struct headers_t {
    kind_t first;
    kind_t second;
}

struct metadata_t {
    @field_list(1)
    bit<8> rounds;
}

#define DOUBLE(x) x = x + x

control Add(inout headers_t hdr) {
    apply {
        hdr.first.value = hdr.first.value + 1;
    }
}
