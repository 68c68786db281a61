#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define GIDS 256
#define HOP_LIMIT 64

struct shim_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    uint32_t gid_index;
    uint8_t port;
};

// shim_mr and shim_ah are libibverbs' own.

struct shim_qp {
    struct shim_device *device;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
};

static int failed(void) { return errno ? -errno : -EIO; }

static struct ibv_context *open_named(const char *name) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list) return NULL;
    struct ibv_context *context = NULL;
    errno = ENODEV;
    for (int i = 0; i < count; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            context = ibv_open_device(list[i]);
            break;
        }
    }
    int error = errno;
    ibv_free_device_list(list);
    errno = error;
    return context;
}

// Finds the RoCEv2 entry with an IPv4 address; its index differs between devices.
static int find_gid(struct ibv_context *context, uint8_t port, struct shim_info *info) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct ibv_gid_entry *entries = calloc(GIDS, sizeof *entries);
    if (!entries) return -ENOMEM;
    ssize_t count = ibv_query_gid_table(context, entries, GIDS, 0);
    int result = count < 0 ? (int)count : -EADDRNOTAVAIL;
    for (ssize_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *entry = &entries[i];
        if (entry->port_num == port && entry->gid_type == IBV_GID_TYPE_ROCE_V2 &&
            memcmp(entry->gid.raw, mapped, sizeof mapped) == 0) {
            memcpy(info->gid, entry->gid.raw, sizeof info->gid);
            info->gid_index = entry->gid_index;
            result = 0;
            break;
        }
    }
    free(entries);
    return result;
}

static int set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? failed() : 0;
}

int shim_open(const char *name, uint8_t port, struct shim_device **out, struct shim_info *info, const char **call) {
    struct shim_device *device = calloc(1, sizeof *device);
    if (!device) return -ENOMEM;
    memset(info, 0, sizeof *info);
    device->port = port;
    int error;
    *call = "ibv_open_device";
    device->context = open_named(name);
    if (!device->context) {
        error = failed();
        goto fail;
    }
    struct ibv_device_attr attributes;
    *call = "ibv_query_device";
    if ((error = -ibv_query_device(device->context, &attributes))) goto fail;
    struct ibv_port_attr port_attributes;
    *call = "ibv_query_port";
    if ((error = -ibv_query_port(device->context, port, &port_attributes))) goto fail;
    *call = "looking for a RoCEv2 GID with an IPv4 address";
    if ((error = find_gid(device->context, port, info))) goto fail;
    *call = "ibv_alloc_pd";
    if (!(device->pd = ibv_alloc_pd(device->context))) {
        error = failed();
        goto fail;
    }
    *call = "ibv_create_comp_channel";
    if (!(device->channel = ibv_create_comp_channel(device->context))) {
        error = failed();
        goto fail;
    }
    *call = "fcntl";
    if ((error = set_nonblocking(device->channel->fd)) || (error = set_nonblocking(device->context->async_fd))) goto fail;
    device->gid_index = info->gid_index;
    info->mtu = 128u << port_attributes.active_mtu;
    info->max_qp_wr = (uint32_t)attributes.max_qp_wr;
    info->max_cqe = (uint32_t)attributes.max_cqe;
    info->max_mr_size = attributes.max_mr_size;
    info->active = port_attributes.state == IBV_PORT_ACTIVE;
    *out = device;
    return 0;
fail:
    shim_close(device);
    return error;
}

void shim_close(struct shim_device *device) {
    if (device->channel) ibv_destroy_comp_channel(device->channel);
    if (device->pd) ibv_dealloc_pd(device->pd);
    if (device->context) ibv_close_device(device->context);
    free(device);
}

int shim_completion_fd(const struct shim_device *device) { return device->channel->fd; }

int shim_async_fd(const struct shim_device *device) { return device->context->async_fd; }

int shim_next_completion_event(struct shim_device *device, uint64_t *cookie) {
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(device->channel, &cq, &context)) return failed();
    *cookie = (uint64_t)(uintptr_t)context;
    ibv_ack_cq_events(cq, 1);
    return 0;
}

int shim_next_async_event(struct shim_device *device, uint32_t *event, uint32_t *qpn) {
    struct ibv_async_event async;
    if (ibv_get_async_event(device->context, &async)) return failed();
    *event = async.event_type;
    *qpn = 0;
    switch (async.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        *qpn = async.element.qp->qp_num;
        break;
    default:
        break;
    }
    ibv_ack_async_event(&async);
    return 0;
}

int shim_register(struct shim_device *device, void *address, uint64_t len, int local_write, int remote_write,
                  struct shim_mr **mr, uint32_t *lkey, uint32_t *rkey) {
    unsigned access = (local_write ? IBV_ACCESS_LOCAL_WRITE : 0) | (remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
    struct ibv_mr *region = ibv_reg_mr(device->pd, address, len, access);
    if (!region) return failed();
    *mr = (struct shim_mr *)region;
    *lkey = region->lkey;
    *rkey = region->rkey;
    return 0;
}

int shim_deregister(struct shim_mr *mr) { return -ibv_dereg_mr((struct ibv_mr *)mr); }

static int to_init(struct shim_qp *qp) {
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = qp->device->port,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    return -ibv_modify_qp(qp->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

// Creates a queue pair in the state RESET, whose completion queue reports events.
static int create(struct shim_device *device, uint64_t cookie, const struct ibv_qp_init_attr *wanted, struct shim_qp **out,
                  const char **call) {
    struct shim_qp *qp = calloc(1, sizeof *qp);
    if (!qp) return -ENOMEM;
    qp->device = device;
    int error;
    *call = "ibv_create_cq";
    qp->cq = ibv_create_cq(device->context, (int)(wanted->cap.max_send_wr + wanted->cap.max_recv_wr), (void *)(uintptr_t)cookie, device->channel, 0);
    if (!qp->cq) {
        error = failed();
        goto fail;
    }
    struct ibv_qp_init_attr init = *wanted;
    init.send_cq = init.recv_cq = qp->cq;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.sq_sig_all = 1;
    *call = "ibv_create_qp";
    if (!(qp->qp = ibv_create_qp(device->pd, &init))) {
        error = failed();
        goto fail;
    }
    *call = "ibv_req_notify_cq";
    if ((error = -ibv_req_notify_cq(qp->cq, 0))) goto fail;
    *out = qp;
    return 0;
fail:
    shim_destroy_qp(qp);
    return error;
}

int shim_create_qp(struct shim_device *device, uint64_t cookie, uint32_t sends, uint32_t receives, uint32_t inline_len,
                   struct shim_qp **out, uint32_t *qpn, const char **call) {
    const struct ibv_qp_init_attr wanted = {
        .cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_inline_data = inline_len},
        .qp_type = IBV_QPT_RC,
    };
    struct shim_qp *qp;
    int error = create(device, cookie, &wanted, &qp, call);
    if (error) return error;
    *call = "ibv_modify_qp to INIT";
    if ((error = to_init(qp))) {
        shim_destroy_qp(qp);
        return error;
    }
    *qpn = qp->qp->qp_num;
    *out = qp;
    return 0;
}

static int datagrams_to_rts(struct shim_qp *qp, uint32_t qkey, uint32_t sq_psn, const char **call) {
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = qp->device->port,
        .qkey = qkey,
        .sq_psn = sq_psn,
    };
    *call = "ibv_modify_qp to INIT";
    int error = -ibv_modify_qp(qp->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error) return error;
    attributes.qp_state = IBV_QPS_RTR;
    *call = "ibv_modify_qp to RTR";
    if ((error = -ibv_modify_qp(qp->qp, &attributes, IBV_QP_STATE))) return error;
    attributes.qp_state = IBV_QPS_RTS;
    *call = "ibv_modify_qp to RTS";
    return -ibv_modify_qp(qp->qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int shim_create_ud_qp(struct shim_device *device, uint64_t cookie, uint32_t sends, uint32_t receives, uint32_t qkey,
                      uint32_t sq_psn, struct shim_qp **out, uint32_t *qpn, const char **call) {
    const struct ibv_qp_init_attr wanted = {
        .cap = {.max_send_wr = sends, .max_recv_wr = receives},
        .qp_type = IBV_QPT_UD,
    };
    struct shim_qp *qp;
    int error = create(device, cookie, &wanted, &qp, call);
    if (error) return error;
    if ((error = datagrams_to_rts(qp, qkey, sq_psn, call))) {
        shim_destroy_qp(qp);
        return error;
    }
    *qpn = qp->qp->qp_num;
    *out = qp;
    return 0;
}

void shim_destroy_qp(struct shim_qp *qp) {
    if (qp->qp) ibv_destroy_qp(qp->qp);
    if (qp->cq) ibv_destroy_cq(qp->cq);
    free(qp);
}

static enum ibv_mtu mtu_of(uint32_t bytes) {
    enum ibv_mtu mtu = IBV_MTU_256;
    while (mtu < IBV_MTU_4096 && (128u << mtu) < bytes) mtu++;
    return mtu;
}

int shim_connect(struct shim_qp *qp, const struct shim_path *path, const char **call) {
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu_of(path->mtu),
        .dest_qp_num = path->dest_qpn,
        .rq_psn = path->rq_psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = path->min_rnr_timer,
        .ah_attr = {.is_global = 1,
                    .port_num = qp->device->port,
                    .grh = {.sgid_index = (uint8_t)qp->device->gid_index, .hop_limit = HOP_LIMIT}},
    };
    memcpy(rtr.ah_attr.grh.dgid.raw, path->gid, sizeof path->gid);
    *call = "ibv_modify_qp to RTR";
    int error = -ibv_modify_qp(qp->qp, &rtr,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error) return error;
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = path->sq_psn,
        .timeout = path->timeout,
        .retry_cnt = path->retry_cnt,
        .rnr_retry = path->rnr_retry,
        .max_rd_atomic = 1,
    };
    *call = "ibv_modify_qp to RTS";
    return -ibv_modify_qp(qp->qp, &rts,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
}

int shim_reset(struct shim_qp *qp, const char **call) {
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};
    *call = "ibv_modify_qp to RESET";
    int error = -ibv_modify_qp(qp->qp, &attributes, IBV_QP_STATE);
    if (error) return error;
    *call = "ibv_modify_qp to INIT";
    return to_init(qp);
}

int shim_query_rq_psn(struct shim_qp *qp, uint32_t *rq_psn) {
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr init;
    int error = -ibv_query_qp(qp->qp, &attributes, IBV_QP_RQ_PSN, &init);
    if (!error) *rq_psn = attributes.rq_psn;
    return error;
}

int shim_send(struct shim_qp *qp, const struct shim_send *request) {
    struct ibv_sge sge = {.addr = request->address, .length = request->len, .lkey = request->lkey};
    struct ibv_send_wr wr = {
        .wr_id = request->wr_id,
        .sg_list = &sge,
        .num_sge = request->len > 0,
        .send_flags = IBV_SEND_SIGNALED | (request->is_inline ? IBV_SEND_INLINE : 0u),
        .imm_data = htonl(request->immediate),
    };
    if (request->opcode == SHIM_WRITE) {
        wr.opcode = request->has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = request->remote_va;
        wr.wr.rdma.rkey = request->rkey;
    } else {
        wr.opcode = request->has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    }
    struct ibv_send_wr *bad;
    return -ibv_post_send(qp->qp, &wr, &bad);
}

int shim_create_ah(struct shim_device *device, const uint8_t gid[16], struct shim_ah **ah) {
    struct ibv_ah_attr attributes = {
        .is_global = 1,
        .port_num = device->port,
        .grh = {.sgid_index = (uint8_t)device->gid_index, .hop_limit = HOP_LIMIT},
    };
    memcpy(attributes.grh.dgid.raw, gid, sizeof attributes.grh.dgid.raw);
    errno = 0;
    struct ibv_ah *made = ibv_create_ah(device->pd, &attributes);
    if (!made) return failed();
    *ah = (struct shim_ah *)made;
    return 0;
}

void shim_destroy_ah(struct shim_ah *ah) { ibv_destroy_ah((struct ibv_ah *)ah); }

int shim_attach_multicast(struct shim_qp *qp, const uint8_t gid[16]) {
    union ibv_gid group;
    memcpy(group.raw, gid, sizeof group.raw);
    return -ibv_attach_mcast(qp->qp, &group, 0);
}

int shim_send_datagram(struct shim_qp *qp, struct shim_ah *ah, const struct shim_datagram *request) {
    struct ibv_sge sge = {.addr = request->address, .length = request->len, .lkey = request->lkey};
    struct ibv_send_wr wr = {
        .wr_id = request->wr_id,
        .sg_list = &sge,
        .num_sge = request->len > 0,
        .opcode = request->has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl(request->immediate),
        .wr.ud = {.ah = (struct ibv_ah *)ah, .remote_qpn = request->qpn, .remote_qkey = request->qkey},
    };
    struct ibv_send_wr *bad;
    return -ibv_post_send(qp->qp, &wr, &bad);
}

int shim_receive(struct shim_qp *qp, uint64_t wr_id, uint64_t address, uint32_t len, uint32_t lkey) {
    struct ibv_sge sge = {.addr = address, .length = len, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = len > 0};
    struct ibv_recv_wr *bad;
    return -ibv_post_recv(qp->qp, &wr, &bad);
}

int shim_arm(struct shim_qp *qp) { return -ibv_req_notify_cq(qp->cq, 0); }

int shim_poll(struct shim_qp *qp, struct shim_completion *completions, int count) {
    enum { BATCH = 16 };
    struct ibv_wc wc[BATCH];
    int got = ibv_poll_cq(qp->cq, count < BATCH ? count : BATCH, wc);
    if (got < 0) return -EIO;
    for (int i = 0; i < got; i++) {
        completions[i] = (struct shim_completion){
            .wr_id = wc[i].wr_id,
            .status = wc[i].status,
        };
        // The other fields are only valid without an error.
        if (wc[i].status != IBV_WC_SUCCESS) continue;
        completions[i].len = wc[i].byte_len;
        completions[i].source_qpn = wc[i].src_qp;
        completions[i].flags = (wc[i].opcode & IBV_WC_RECV ? SHIM_IS_RECEIVE : 0u) |
                               (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM ? SHIM_IS_WRITE : 0u) |
                               (wc[i].wc_flags & IBV_WC_WITH_IMM ? SHIM_HAS_IMMEDIATE : 0u);
        if (wc[i].wc_flags & IBV_WC_WITH_IMM) completions[i].immediate = ntohl(wc[i].imm_data);
    }
    return got;
}
