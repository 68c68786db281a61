/* Groups on RDMA devices: what one member has in its buffer comes to the same place of all others' buffers, over reliable
 * connections that switches running Alfirk multiply. Link with -lalfirk_verbs -libverbs.
 *
 * Each member calls alfirk_join(), then all call alfirk_broadcast() and alfirk_write() alike, in the same order, naming the same source,
 * which may be another with each call. Calls wait. One group and what belongs to it may be used by one thread at a time.
 *
 * Functions that return int give ALFIRK_OK or an error; alfirk_error() then says more. */

#ifndef ALFIRK_H
#define ALFIRK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum alfirk_status {
    ALFIRK_OK = 0,
    /* A mistake of the caller; nothing was done, and the group can still be used. After any other error it cannot. */
    ALFIRK_ARGUMENT = 1,
    /* The RDMA device is not there, not up, or has no RoCEv2 address. */
    ALFIRK_DEVICE = 2,
    /* The TCP connection to the leader or to a member. */
    ALFIRK_CONNECTION = 3,
    /* The timeout of the configuration has passed. */
    ALFIRK_TIMEOUT = 4,
    /* The fabric does not multicast, and the configuration allows no other way. */
    ALFIRK_NOT_REGISTERED = 5,
    /* The device or the other side has refused or failed. */
    ALFIRK_VERBS = 6,
    /* This member is out of the group, or the leader has ended it. */
    ALFIRK_OVER = 7,
    /* A bug of this library. */
    ALFIRK_INTERNAL = 8
};

/* How the bytes reach the members. */
enum alfirk_way {
    /* The source sends once, and switches replicate. As a fallback: none. */
    ALFIRK_MULTICAST = 0,
    /* Each member passes 64 KiB at a time on to the next. */
    ALFIRK_CHAIN = 1,
    /* The source sends to each member. */
    ALFIRK_UNICAST = 2
};

typedef struct alfirk_group alfirk_group;

/* Of a group to join. All members must agree in everything but the device. */
struct alfirk_config {
    /* The RDMA device, as ibv_devices lists it. */
    const char *device;
    /* The IPv4 address that stands for the group: one of the fabric's range for groups (10.255.0.0/16 unless its controller was told
     * otherwise) that no other group has. */
    const char *address;
    /* The IPv4 address of the member that leads, which is rank 0. */
    const char *leader;
    /* The leader's TCP port. */
    uint16_t port;
    /* How many members there are, the leader included; at least 2. */
    uint32_t members;
    /* Bytes of each member's buffer. */
    uint64_t buffer_size;
    /* Milliseconds that any call may take. */
    uint32_t timeout_ms;
    /* What to do without multicast: an enum alfirk_way. */
    uint32_t fallback;
};

/* Joins a group; returns when all its members have, and it is registered. */
int alfirk_join(const struct alfirk_config *config, alfirk_group **group);

/* This member's rank. The leader has 0; the others go by their addresses. */
uint32_t alfirk_rank(const alfirk_group *group);

/* An enum alfirk_way. */
uint32_t alfirk_way_of(const alfirk_group *group);

/* The buffer: at a multiple of a power of two that is at least its size, valid until alfirk_leave(). */
void *alfirk_buffer(alfirk_group *group);

/* SENDs a part of the source's buffer to the same place of all others'. Returns at the source when every member has the bytes,
 * elsewhere when this member has them. */
int alfirk_broadcast(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* The same by WRITE with immediate. The first one of a source takes two round trips more. */
int alfirk_write(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* Begins an alfirk_broadcast(). The part of the buffer must be left alone until alfirk_wait(). */
int alfirk_post_broadcast(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* Waits until everything posted is done. */
int alfirk_wait(alfirk_group *group);

/* Leaves the group and frees it, also when it fails. The others go on. The leader waits until all others have left, as long as a call
 * may take, and then ends the group. */
int alfirk_leave(alfirk_group *group);

/* The last error of this thread, for people; "" if there was none. Valid until the next call of this thread. */
const char *alfirk_error(void);

#ifdef __cplusplus
}
#endif

#endif
