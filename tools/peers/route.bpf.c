// SPDX-License-Identifier: Apache-2.0
// IPv4 routing in XDP, the same work as bmv2/test_data/routing.p4: checksum verified, TTL, longest prefix match, checksum
// updated, MAC addresses, port. Each run routes the next frame of a list, since a repeated test run has one frame.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define FRAME 64
#define MAX_FRAMES 10000

struct prefix {
    __u32 length;
    __u32 value;
};

struct hop {
    __u8 mac[6];
    __u16 port;
};

struct frame {
    __u8 bytes[FRAME];
};

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(max_entries, 1 << 20);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct prefix);
    __type(value, struct hop);
} routes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_FRAMES);
    __type(key, __u32);
    __type(value, struct frame);
} frames SEC(".maps");

// The same routes in flat arrays (DIR-24-8): the first 24 bits select a cell with a hop's number plus one, or a block of 256 cells
// for the last 8 bits.
#define BLOCK 0x80000000u
#define MAX_HOPS (1 << 20)
#define MAX_BLOCKS 1024

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1 << 24);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u32);
} cells SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_BLOCKS << 8);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u32);
} blocks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_HOPS);
    __type(key, __u32);
    __type(value, struct hop);
} hops SEC(".maps");

// Number of frames, number of the next frame, and number of routed frames.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 3);
    __type(key, __u32);
    __type(value, __u32);
} counts SEC(".maps");

static __u32 *count(__u32 which) {
    return bpf_map_lookup_elem(&counts, &which);
}

static __u16 checksum(const __u16 *header) {
    __u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 10; i++)
        sum += header[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline struct hop *find_in_trie(__u32 address) {
    struct prefix key = {.length = 32, .value = address};
    return bpf_map_lookup_elem(&routes, &key);
}

static __always_inline struct hop *find_in_arrays(__u32 address) {
    __u32 host = __builtin_bswap32(address), key = host >> 8;
    __u32 *cell = bpf_map_lookup_elem(&cells, &key);
    if (cell && *cell & BLOCK) {
        key = (*cell & ~BLOCK) << 8 | (host & 0xff);
        cell = bpf_map_lookup_elem(&blocks, &key);
    }
    if (!cell || !*cell)
        return 0;
    key = *cell - 1;
    return bpf_map_lookup_elem(&hops, &key);
}

static __always_inline int forward(struct xdp_md *ctx, int flat) {
    __u8 *data = (__u8 *)(long)ctx->data, *end = (__u8 *)(long)ctx->data_end;
    __u32 *total = count(0), *next = count(1), *routed = count(2);
    if (!total || !next || !routed || data + FRAME > end)
        return XDP_ABORTED;
    __u32 index = *next;
    *next = index + 1 < *total ? index + 1 : 0;
    struct frame *frame = bpf_map_lookup_elem(&frames, &index);
    if (!frame)
        return XDP_ABORTED;
    __builtin_memcpy(data, frame->bytes, FRAME);

    __u16 *header = (__u16 *)(data + 14);
    if (*(__u16 *)(data + 12) != 8 || data[22] <= 1 || checksum(header) != 0)
        return XDP_DROP;
    __u32 address = *(__u32 *)(data + 30);
    struct hop *hop = flat ? find_in_arrays(address) : find_in_trie(address);
    if (!hop)
        return XDP_DROP;
    data[22]--;
    __builtin_memcpy(data + 6, data, 6);
    __builtin_memcpy(data, hop->mac, 6);
    header[5] = 0;
    header[5] = checksum(header);
    (*routed)++;
    return hop->port ? XDP_TX : XDP_PASS;
}

SEC("xdp")
int route(struct xdp_md *ctx) {
    return forward(ctx, 0);
}

SEC("xdp")
int route_flat(struct xdp_md *ctx) {
    return forward(ctx, 1);
}

char _license[] SEC("license") = "Apache-2.0";
