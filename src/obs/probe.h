/* Owns: probes for programs that look from outside (USDT: bpftrace, SystemTap, perf). In a build with BUILD_WITH_USDT
 * each is a nop and a note that says where it stands and where its arguments are; without it nothing at all. An
 * argument must be there already: computing it would cost something when nobody looks. docs/guide/tracing.md lists
 * them. May include: nothing. */
#ifndef UVHTTP_SRC_OBS_PROBE_H
#define UVHTTP_SRC_OBS_PROBE_H

#include <uvhttp/features.h>

#if UVHTTP_WITH_USDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define UVHTTP__PROBE(name, ...) STAP_PROBEV(uvhttp, name, __VA_ARGS__)
#else
#define UVHTTP__PROBE(name, ...) ((void)0)
#endif

#endif
