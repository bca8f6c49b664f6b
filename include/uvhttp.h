/* Owns: the single include for programs. May include: the public headers. */
#ifndef UVHTTP_H
#define UVHTTP_H

#include <uvhttp/alloc.h>
#include <uvhttp/body.h>
#include <uvhttp/client.h>
#include <uvhttp/cookie.h>
#include <uvhttp/coro.h>
#include <uvhttp/error.h>
#include <uvhttp/events.h>
#include <uvhttp/form.h>
#include <uvhttp/log.h>
#include <uvhttp/method.h>
#include <uvhttp/metrics.h>
#include <uvhttp/proxy.h>
#include <uvhttp/request.h>
#include <uvhttp/response.h>
#include <uvhttp/route.h>
#include <uvhttp/server.h>
#include <uvhttp/socket.h>
#include <uvhttp/str.h>
#include <uvhttp/tcp.h>
#include <uvhttp/timer.h>
#include <uvhttp/tls.h>
#include <uvhttp/types.h>
#include <uvhttp/version.h>
#include <uvhttp/work.h>

/* Absent in a library that was built without them. */
#if UVHTTP_WITH_MIDDLEWARE
#include <uvhttp/access_log.h>
#include <uvhttp/allowed_hosts.h>
#include <uvhttp/auth.h>
#include <uvhttp/compression.h>
#include <uvhttp/cors.h>
#include <uvhttp/rate_limit.h>
#include <uvhttp/request_id.h>
#include <uvhttp/security_headers.h>
#endif
#if UVHTTP_WITH_STATIC
#include <uvhttp/static.h>
#endif
#if UVHTTP_WITH_WEBSOCKET
#include <uvhttp/websocket.h>
#endif

#endif
