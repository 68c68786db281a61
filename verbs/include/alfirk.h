/* Groups on RDMA devices: bytes of one member's buffer are copied to the same place in all other members' buffers, over reliable
* connections that switches running Alfirk replicate. Link with -lalfirk_verbs -libverbs.
*
* Each member calls alfirk_join(). Then all members make the same calls of alfirk_broadcast() and alfirk_write(), in the same order and
* with the
* same source, which may change from call to call. Calls block. A group must not be used by several threads at a time.
*
* Functions that return int return ALFIRK_OK or an error; alfirk_error() then returns a message. */

#ifndef ALFIRK_H
#define ALFIRK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum alfirk_status {
    ALFIRK_OK = 0,
    /* Invalid arguments; the call had no effect, and the group can still be used. After any other error it cannot. */
    ALFIRK_ARGUMENT = 1,
    /* The RDMA device does not exist, is not up, or has no RoCEv2 address. */
    ALFIRK_DEVICE = 2,
    /* The TCP connection to the leader or to a member failed. */
    ALFIRK_CONNECTION = 3,
    /* The timeout of the configuration expired. */
    ALFIRK_TIMEOUT = 4,
    /* The fabric does not multicast, and the configuration allows no fallback. */
    ALFIRK_NOT_REGISTERED = 5,
    /* The device or the remote side rejected an operation or failed. */
    ALFIRK_VERBS = 6,
    /* This member was removed from the group, or the leader has ended it. */
    ALFIRK_OVER = 7,
    /* A bug in this library. */
    ALFIRK_INTERNAL = 8
};

/* The transport of the bytes. */
enum alfirk_way {
    /* The source sends once, and switches replicate. As a fallback: none. */
    ALFIRK_MULTICAST = 0,
    /* Each member forwards the bytes to the next one, 64 KiB at a time. */
    ALFIRK_CHAIN = 1,
    /* The source sends to each member. */
    ALFIRK_UNICAST = 2
};

typedef struct alfirk_group alfirk_group;

/* The parameters of a group. All members must use the same, except for the device. */
struct alfirk_config {
    /* The name of the RDMA device, as listed by ibv_devices. */
    const char *device;
    /* The IPv4 address of the group, which no other group uses, in the fabric's range for groups (by default 10.255.0.0/16; set at the
    * controller). */
    const char *address;
    /* The IPv4 address of the leader, which has rank 0. */
    const char *leader;
    /* The leader's TCP port. */
    uint16_t port;
    /* Number of members, the leader included; at least 2. */
    uint32_t members;
    /* Length of each member's buffer in bytes. */
    uint64_t buffer_size;
    /* Timeout of each call in milliseconds. */
    uint32_t timeout_ms;
    /* The transport without multicast: an enum alfirk_way. */
    uint32_t fallback;
};

/* Joins a group. Returns when all members have joined and the group is registered. */
int alfirk_join(const struct alfirk_config *config, alfirk_group **group);

/* This member's rank. The leader has rank 0; the others are ordered by their addresses. */
uint32_t alfirk_rank(const alfirk_group *group);

/* The transport in use: an enum alfirk_way. */
uint32_t alfirk_way_of(const alfirk_group *group);

/* The buffer. Its address is a multiple of a power of two that is at least its length; valid until alfirk_leave(). */
void *alfirk_buffer(alfirk_group *group);

/* SENDs a part of the source's buffer to the same place in all other buffers. Returns at the source when every member has the bytes,
* elsewhere when this member has them. */
int alfirk_broadcast(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* As alfirk_broadcast(), by WRITE with immediate. The first WRITE of a source takes two additional round trips. */
int alfirk_write(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* Starts an alfirk_broadcast(). The part of the buffer must not be accessed until alfirk_wait(). */
int alfirk_post_broadcast(alfirk_group *group, uint32_t source, uint64_t offset, uint64_t len);

/* Waits until everything posted has completed. */
int alfirk_wait(alfirk_group *group);

/* Leaves the group and frees it, even on an error. The other members continue. The leader waits until all others have left, up to the timeout,
* and then ends the group. */
int alfirk_leave(alfirk_group *group);

/* The message of this thread's last error; "" if there was none. Valid until the next call of this thread. */
const char *alfirk_error(void);

#ifdef __cplusplus
}
#endif

#endif
