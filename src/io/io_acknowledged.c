/* Owns: what the kernel knows of a stream: the number of bytes that its peer has acknowledged, which is less than what
 * the kernel has accepted, because socket buffers may hold megabytes; and the facts of a TCP connection. May include:
 * base, obs. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include "io/io.h"

/* TCP counts what was acknowledged (RFC 9293 section 3.4); since Linux 4.1. */
static bool ask(int fd, struct tcp_info *info) {
    socklen_t size = sizeof *info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) != 0) return false;
    return size >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info->tcpi_bytes_received;
}

static bool acknowledged(int fd, uint32_t *bytes) {
    struct tcp_info info;
    if (!ask(fd, &info)) return false;
    *bytes = (uint32_t)info.tcpi_bytes_acked;
    return true;
}

bool uvhttp__stream_kernel_facts(const uvhttp__stream_t *stream, uvhttp__kernel_facts_t *facts) {
    struct tcp_info info;
    if (!ask(stream->fd, &info)) return false;
    *facts = (uvhttp__kernel_facts_t){.bytes_received = info.tcpi_bytes_received,
                                      .bytes_acknowledged = info.tcpi_bytes_acked,
                                      .round_trip_us = info.tcpi_rtt,
                                      .retransmits = info.tcpi_total_retrans};
    return true;
}

uvhttp__acknowledged_t uvhttp__stream_acknowledged(const uvhttp__stream_t *stream) {
    uvhttp__acknowledged_t peer = {0};
    int held = 0;
    if (ioctl(stream->fd, SIOCOUTQ, &held) == 0 && held > 0) peer.held = (uint32_t)held;
    /* A Unix socket counts what it holds only, in memory. */
    if (peer.held > 0 && !acknowledged(stream->fd, &peer.bytes)) peer.bytes = stream->out_sent - peer.held;
    return peer;
}
