/* Measures the time to register and deregister memory for one message, compared with copying the message: in nanoseconds, the minimum of many
* tries. Pages are touched before, as those of a program that broadcasts them.
*
* usage: registration DEVICE; prints lines with: bytes, registration, copy */

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIES = 200, LONGEST = 4 << 20 };

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct ibv_pd *open_domain(const char *name) {
    struct ibv_device **devices = ibv_get_device_list(NULL);
    for (int i = 0; devices && devices[i]; i++)
        if (!strcmp(ibv_get_device_name(devices[i]), name)) {
            struct ibv_context *context = ibv_open_device(devices[i]);
            return context ? ibv_alloc_pd(context) : NULL;
        }
    return NULL;
}

int main(int argc, char **argv) {
    struct ibv_pd *domain = argc == 2 ? open_domain(argv[1]) : NULL;
    char *from = aligned_alloc(4096, LONGEST), *to = aligned_alloc(4096, LONGEST);
    if (!domain || !from || !to) {
        fprintf(stderr, "usage: registration DEVICE, an RDMA device that can be opened\n");
        return 2;
    }
    memset(from, 1, LONGEST);
    memset(to, 2, LONGEST);
    for (size_t len = 1024; len <= LONGEST; len *= 4) {
        uint64_t registration = UINT64_MAX, copy = UINT64_MAX;
        for (int try = 0; try < TRIES; try++) {
            uint64_t begin = now();
            struct ibv_mr *region = ibv_reg_mr(domain, from, len, IBV_ACCESS_LOCAL_WRITE);
            if (!region || ibv_dereg_mr(region)) {
                perror("ibv_reg_mr");
                return 1;
            }
            uint64_t middle = now();
            memcpy(to, from, len);
            uint64_t end = now();
            registration = middle - begin < registration ? middle - begin : registration;
            copy = end - middle < copy ? end - middle : copy;
        }
        printf("%zu %llu %llu\n", len, (unsigned long long)registration, (unsigned long long)copy);
    }
    return 0;
}
