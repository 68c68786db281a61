/* Each member in turn sends its rank and a pattern to all others, by SEND and by WRITE.
*
* usage: broadcast DEVICE GROUP LEADER MEMBERS [ROUNDS [FALLBACK]]      with the same arguments on every member, e.g.
*        broadcast rxe0 10.255.0.1 10.0.0.1 3
*
* cc broadcast.c -I../include -lalfirk_verbs -libverbs */

#include <alfirk.h>
#include <stdio.h>
#include <stdlib.h>

#define LEN 100000

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, alfirk_error());
    return 1;
}

static unsigned char byte_of(uint32_t source, uint32_t round, size_t at) { return (unsigned char)(source * 31 + round * 7 + at); }

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: %s DEVICE GROUP LEADER MEMBERS [ROUNDS [FALLBACK]]\n", argv[0]);
        return 2;
    }
    struct alfirk_config config = {
        .device = argv[1],
        .address = argv[2],
        .leader = argv[3],
        .port = 4792,
        .members = (uint32_t)atoi(argv[4]),
        .buffer_size = LEN,
        .timeout_ms = 30000,
        .fallback = argc > 6 ? (uint32_t)atoi(argv[6]) : ALFIRK_CHAIN,
    };
    uint32_t rounds = argc > 5 ? (uint32_t)atoi(argv[5]) : 2;
    alfirk_group *group;
    if (alfirk_join(&config, &group)) return failed("join");
    uint32_t rank = alfirk_rank(group);
    unsigned char *buffer = alfirk_buffer(group);
    printf("rank %u of %u, way %u\n", rank, config.members, alfirk_way_of(group));

    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t source = 0; source < config.members; source++) {
            for (size_t i = 0; i < LEN && source == rank; i++) buffer[i] = byte_of(source, round, i);
            int error = round % 2 ? alfirk_write(group, source, 0, LEN) : alfirk_broadcast(group, source, 0, LEN);
            if (error) return failed(round % 2 ? "write" : "broadcast");
            for (size_t i = 0; i < LEN; i++) {
                if (buffer[i] != byte_of(source, round, i)) {
                    fprintf(stderr, "round %u from %u: byte %zu is wrong\n", round, source, i);
                    return 1;
                }
            }
        }
    }
    if (alfirk_leave(group)) return failed("leave");
    printf("%u rounds well\n", rounds);
    return 0;
}
