// The functions that src/sys.rs calls: libibverbs with flat arguments. Functions that return int return 0, or a negative errno.

#ifndef ALFIRK_VERBS_SHIM_H
#define ALFIRK_VERBS_SHIM_H

#include <stdint.h>

struct shim_device;
struct shim_mr;
struct shim_qp;
struct shim_ah;

struct shim_info {
    uint8_t gid[16];
    uint32_t gid_index;
    uint32_t mtu;
    uint32_t max_qp_wr;
    uint32_t max_cqe;
    uint64_t max_mr_size;
    uint8_t active;
};

struct shim_path {
    uint8_t gid[16];
    uint32_t dest_qpn;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t mtu;
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t rnr_retry;
    uint8_t min_rnr_timer;
};

enum { SHIM_SEND, SHIM_WRITE };

struct shim_send {
    uint64_t wr_id;
    uint64_t address;
    uint32_t len;
    uint32_t lkey;
    uint32_t opcode;
    uint32_t rkey;
    uint64_t remote_va;
    uint32_t immediate;
    uint8_t has_immediate;
    uint8_t is_inline;
};

// A datagram whose bytes are in registered memory.
struct shim_datagram {
    uint64_t wr_id;
    uint64_t address;
    uint32_t len;
    uint32_t lkey;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t immediate;
    uint8_t has_immediate;
};

enum { SHIM_IS_RECEIVE = 1, SHIM_IS_WRITE = 2, SHIM_HAS_IMMEDIATE = 4 };

struct shim_completion {
    uint64_t wr_id;
    uint32_t status;
    uint32_t len;
    uint32_t immediate;
    uint32_t flags;
    uint32_t source_qpn; // of a datagram
};

int shim_open(const char *name, uint8_t port, struct shim_device **device, struct shim_info *info, const char **call);
void shim_close(struct shim_device *device);
int shim_completion_fd(const struct shim_device *device);
int shim_async_fd(const struct shim_device *device);
int shim_next_completion_event(struct shim_device *device, uint64_t *cookie);
int shim_next_async_event(struct shim_device *device, uint32_t *event, uint32_t *qpn);

int shim_register(struct shim_device *device, void *address, uint64_t len, int local_write, int remote_write,
                  struct shim_mr **mr, uint32_t *lkey, uint32_t *rkey);
int shim_deregister(struct shim_mr *mr);

int shim_create_qp(struct shim_device *device, uint64_t cookie, uint32_t sends, uint32_t receives, uint32_t inline_len,
                   struct shim_qp **qp, uint32_t *qpn, const char **call);
int shim_create_ud_qp(struct shim_device *device, uint64_t cookie, uint32_t sends, uint32_t receives, uint32_t qkey,
                      uint32_t sq_psn, struct shim_qp **qp, uint32_t *qpn, const char **call);
void shim_destroy_qp(struct shim_qp *qp);
int shim_connect(struct shim_qp *qp, const struct shim_path *path, const char **call);
int shim_reset(struct shim_qp *qp, const char **call);
int shim_query_rq_psn(struct shim_qp *qp, uint32_t *rq_psn);
int shim_send(struct shim_qp *qp, const struct shim_send *request);
int shim_create_ah(struct shim_device *device, const uint8_t gid[16], struct shim_ah **ah);
void shim_destroy_ah(struct shim_ah *ah);
int shim_attach_multicast(struct shim_qp *qp, const uint8_t gid[16]);
int shim_send_datagram(struct shim_qp *qp, struct shim_ah *ah, const struct shim_datagram *request);
int shim_receive(struct shim_qp *qp, uint64_t wr_id, uint64_t address, uint32_t len, uint32_t lkey);
int shim_arm(struct shim_qp *qp);
int shim_poll(struct shim_qp *qp, struct shim_completion *completions, int count);

#endif
